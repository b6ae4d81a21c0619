"""The project's own scripts, as a user calls them. scripts/test, which runs this, calls the others."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
from xml.etree import ElementTree

import pytest

from lib import network as networks
from lib.process import clean_environment, run
from lib.requirements import cannot

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
SECONDS = 200  # none of them should take a quarter of it


def script(*words):
    # With the caller's PATH: another cmake than the one that scripts/test took would build everything anew.
    environment = clean_environment({"PATH": os.environ["PATH"]})
    return run([str(REPOSITORY / "scripts" / words[0]), *words[1:]], environment, timeout=SECONDS)


@pytest.fixture(params=["a binary", "it builds one"])
def demonstration(request, rankshim):
    """The demonstration's words."""
    return ["demo", rankshim] if request.param == "a binary" else ["demo"]


@pytest.mark.nightly  # test_demo.py has `rankshim demo`
@pytest.mark.torch
def test_the_demonstration_trains_two_nodes_together_and_prints_what_happened(torch, namespaces, demonstration):
    if namespaces:
        cannot(namespaces)
    done = script(*demonstration)
    assert done.code == 0, done.transcript()
    lines = done.stdout.splitlines()
    resolved = {line.split()[0]: line.split()[1:] for line in lines if line.startswith("  ") and len(line.split()) > 2}
    assert resolved["nnodes"] == ["2", "env", "WORLD_SIZE", "2", "env", "WORLD_SIZE"]
    assert resolved["node_rank"] == ["0", "env", "RANK", "1", "env", "RANK"]
    published = next(i for i, line in enumerate(lines) if "published" in line)
    assert any("waiting" in line.lower() for line in lines[:published])
    (master,) = [line.split() for line in lines if line.startswith("  job-master-0 ")]
    (worker,) = [line.split() for line in lines if line.startswith("  job-worker-0 ")]
    # node, seconds waited, "s", rank, world size, loss, weights, exit code
    assert [master[i] for i in (3, 4, 7)] == ["0", "2", "0"]
    assert [worker[i] for i in (3, 4, 7)] == ["1", "2", "0"]
    assert master[5:7] == worker[5:7]
    assert "warning" not in done.stdout


def test_the_setup_ends_with_a_line_of_its_own_where_there_is_no_network(namespaces, tmp_path):
    if namespaces:
        cannot(namespaces)
    shutil.copytree(REPOSITORY / "scripts", tmp_path / "scripts")
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / ".venv" / "bin" / "pip").symlink_to(pathlib.Path(sys.executable).with_name("pip"))
    environment = clean_environment({"PIP_RETRIES": "0", "PIP_CONFIG_FILE": "/dev/null"})
    done = run(["unshare", "--net", str(tmp_path / "scripts" / "setup"), "sources"], environment, timeout=SECONDS)
    assert done.code != 0
    last = done.stderr.splitlines()[-1]
    assert last.startswith("setup: error: could not do this: the sources of c-ares"), done.transcript()
    assert last.endswith("what is done already stays")


@pytest.mark.nightly
def test_bench_measures_all_three_inits_in_one_table_and_draws_them(rankshim, namespaces, tmp_path):
    if namespaces:
        cannot(namespaces)
    drawn = tmp_path / "bench.svg"
    done = script("bench", "--rounds", "5", "--idle", "1", "--svg", str(drawn), rankshim)
    rows = [line.split("|")[1:-1] for line in done.stdout.splitlines() if line.startswith("| ")]
    # On a machine that runs tests, whether a budget of time is met proves nothing; the exit code has to show it.
    assert done.code == (1 if "**not met**" in done.stdout else 0), done.transcript()
    (size,) = [row[-1].strip() for row in rows if row[0].strip() == "size"]
    assert (size == "**not met**") == (pathlib.Path(rankshim).stat().st_size > 3 << 20)
    assert [cell.strip() for cell in rows[0][1:4]] == ["rankshim", "tini-static", "catatonit"]
    named = " ".join(row[0] for row in rows)
    for what in ("size", "start of /bin/true", "idle memory", "wake-ups", "system calls", "a worker's death"):
        assert what in named
    texts = [text.text for text in ElementTree.parse(drawn).iter("{http://www.w3.org/2000/svg}text")]
    # Of each figure its name and, for each program, that of the program and its number.
    assert [texts.count(cell.strip()) for cell in rows[0][1:4]] == [4, 4, 4]
    (memory,) = [row for row in rows if row[0].startswith(" idle memory")]
    assert {cell.strip() for cell in memory[1:4]} <= {text.replace(",", "") for text in texts}


@pytest.mark.alone
@pytest.mark.nightly  # it compiles the program of the figures
def test_scale_measures_the_waiting_of_many_nodes_and_long_lists_and_the_link_of_thousands(rankshim, namespaces, tmp_path):
    if namespaces:
        cannot(namespaces)
    linked = ("--linked", "16", "--linked", "256", "--linked", "1024", "--linked", "4096")
    done = script("scale", "--nodes", "8", "--seconds", "1", "--hosts", "64", *linked, "--svg", str(tmp_path / "scale.svg"), rankshim)
    assert done.code == 0, done.transcript()
    rows = [line.split("|")[1].strip() for line in done.stdout.splitlines() if line.startswith("| ")]
    assert len(rows) == 1 + 4 + 4 + 9 + 1 + 4 * 4 + 3 + 3 * 9  # the last: of a look, and of losses
    assert any("8 nodes, a short name" in row for row in rows) and any("64 hosts" in row for row in rows)
    peaks = [int(peak) for peak in re.findall(r"^\| simulated questions .*at most (\d+)", done.stdout, re.MULTILINE)]
    assert len(peaks) == 6 and max(peaks) < 2500  # of 256, 1,024 and 4,096 nodes
    for what, most in (("memory of node 0 for each further node", 3),  # kB
                       ("from the last arrival to the last launch", 300), ("from a failure to the last node that knows", 300)):  # ms
        figures = re.findall(rf"link of ([\d,]+) nodes: {what} \| ([\d.]+)", done.stdout)
        assert [nodes for nodes, _ in figures] == ["16", "256", "1,024", "4,096"]
        assert max(float(figure) for _, figure in figures) < most
    for what in ("a node", "the hub"):  # ms, beyond the rule for when a loss is believed
        figures = re.findall(rf"link of (\d+) nodes and 8 spares: {what} is lost: until the last launch \| ([\d.]+)", done.stdout)
        assert [nodes for nodes, _ in figures] == ["256", "1024", "4096"]
        assert max(float(figure) for _, figure in figures) < 1000
    assert "4,096 nodes" in (tmp_path / "scale.svg").read_text()


@pytest.mark.nightly  # test_whole_job.py has the failures themselves
@pytest.mark.torch
def test_the_table_of_failures_has_when_the_other_nodes_end_in_each_way(rankshim, torch, namespaces):
    if namespaces:
        cannot(namespaces)
    done = script("failures", "--seconds", "10", "--binary", rankshim, "worker-killed")
    assert done.code == 0, done.transcript()
    cells = [cell.strip() for cell in done.stdout.splitlines()[-1].split("|")[1:-1]]
    assert cells[0] == "a worker of node 2 is killed"
    assert all(re.fullmatch(r"\d\.\d\d s, exit code 76, named", cell) for cell in cells[1:3])
    assert cells[3] == "still running after 10 s"


def test_a_script_refuses_an_argument_that_it_does_not_know():
    for words in (("setup", "nonsense"), ("build", "nonsense"), ("test", "nonsense")):
        done = subprocess.run([REPOSITORY / "scripts" / words[0], *words[1:]], capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, timeout=SECONDS)
        assert done.returncode == 64, words
        assert "usage" in done.stderr
