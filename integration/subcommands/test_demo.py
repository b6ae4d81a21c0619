"""`rankshim demo`, as a user starts it in an image with torch."""

import pathlib
import re
import runpy
import shutil
import signal
import sys
from types import SimpleNamespace

import pytest

from lib.process import Process, clean_environment, descendants, run
from lib.torch_stand_in import make_torch_stand_in

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
JOB = 240  # seconds; two torch starts on a machine that may be busy


@pytest.fixture
def environment(tmp_path):
    """Of a container that is itself a node of a job, and whose settings would fail: neither may reach the demonstration."""
    (tmp_path / "tmp").mkdir()
    own = {"RANK": "7", "WORLD_SIZE": "9", "MASTER_ADDR": "nowhere.invalid", "TORCHELASTIC_RUN_ID": "own", "NNODES": "9",
           "RANKSHIM_PRE_START": "exit 3", "TMPDIR": str(tmp_path / "tmp")}
    return clean_environment(own)


@pytest.mark.torch
def test_one_command_trains_two_nodes_together_and_leaves_nothing(rankshim, torch, environment, tmp_path):
    done = run([rankshim, "demo", "--python", sys.executable], environment, timeout=JOB)
    assert done.code == 0, done.transcript()
    found = re.findall(r"^  node (\d)  rank (\d)  world (\d)  loss (\S+)  weight (\S+)  exit code (\d+)$", done.stdout, re.M)
    (node_0, node_1) = [(node, rank, world, code) for node, rank, world, _, _, code in found]
    assert (node_0, node_1) == (("0", "0", "2", "0"), ("1", "1", "2", "0"))
    assert found[0][3:5] == found[1][3:5] and float(found[0][3]) > 0
    assert done.stdout.count("rankshim: all 2 nodes are here") == 2
    # On a busy machine torch itself now and then makes the folder of its compiler's cache, and keeps it.
    left = [path.name for path in (tmp_path / "tmp").iterdir() if not path.name.startswith("torchinductor_")]
    assert left == []
    assert shown_in_the_guide() - {"…"} <= set(map(without_numbers, done.stdout.splitlines()))


def shown_in_the_guide():
    """The lines of the demonstration in docs/index.md."""
    block = re.search(r"^\$ rankshim demo\n```\n\n```text\n(.*?)^```", (REPOSITORY / "docs/index.md").read_text(), re.M | re.S)[1]
    return set(map(without_numbers, block.splitlines()))


def test_a_line_of_the_demonstration_is_one_write(monkeypatch):
    """Two threads show lines: of two writes each, one thread's text could end in the other's line."""
    written = []
    monkeypatch.setattr(sys, "stdout", SimpleNamespace(write=written.append, flush=lambda: None))
    runpy.run_path(str(REPOSITORY / "shim/cli/python/demo.py"))["show"]("a line")
    assert written == ["a line\n"]


@pytest.mark.torch
def test_a_virtual_environment_has_its_own_python(rankshim, torch, environment, tmp_path):
    """Which need not be activated: PATH has another Python."""
    (tmp_path / "venv" / "bin").mkdir(parents=True)
    (tmp_path / "venv" / "pyvenv.cfg").touch()
    shutil.copy(rankshim, tmp_path / "venv/bin/rankshim")
    own = tmp_path / "venv/bin/python3"
    own.write_text('#!/bin/sh\necho "own $1"\n')
    own.chmod(0o755)
    assert run([tmp_path / "venv/bin/rankshim", "demo"], environment).stdout == "own -c\n"
    assert "own" not in run([tmp_path / "venv/bin/rankshim", "demo", "--python=/nowhere/python3"], environment).stdout


def without_numbers(line):
    """A line without what is different each time: numbers, and the path of the interpreter at its end."""
    return re.sub(r"\d[\d.]*|/\S+$", "0", line).strip()


def test_a_python_without_torch_is_named(rankshim, environment, tmp_path):
    done = run(["env", "-i", "PATH=/usr/bin:/bin", rankshim, "demo", "--python", "/usr/bin/python3"], environment)
    assert done.code == 78
    assert done.stderr == ("rankshim: error: /usr/bin/python3 has no torch, which the demonstration needs; "
                           "name an interpreter that has it with --python [R25]\n")


def test_no_python_at_all_is_an_error_of_configuration(rankshim, environment):
    done = run([rankshim, "demo", "--python", "/nowhere/python3"], environment)
    assert done.code == 78
    assert "/nowhere/python3 was not found" in done.stderr


def test_a_term_ends_both_nodes_and_leaves_nothing(rankshim, environment, tmp_path):
    """A stand-in for torch that trains for ever."""
    make_torch_stand_in(
        tmp_path / "packages",
        "import os, socket, sys, time\n"
        "flags = dict(word.split('=') for word in sys.argv if '=' in word)\n"
        "if flags['--node_rank'] == '0':\n"
        "    server = socket.create_server(('127.0.0.1', int(flags['--master_port'])))\n"
        "os.write(1, ('training ' + flags['--node_rank'] + '\\n').encode())  # at once, as rankshim's lines\n"
        "time.sleep(1000)\n")
    environment["PYTHONPATH"] = str(tmp_path / "packages")
    with Process([rankshim, "demo", "--python", "/usr/bin/python3"], environment) as demo:
        demo.wait_line("node 0  training 0")
        demo.wait_line("node 1  training 1")
        started = descendants(demo.pid)
        assert len(started) == 4, "two instances of rankshim, and a training under each"
        demo.signal(signal.SIGTERM)
        assert demo.wait() == 1
        assert "the demonstration was stopped" in demo.stderr
    assert list((tmp_path / "tmp").iterdir()) == []
    assert not [pid for pid in started if alive(pid)]


def alive(pid):
    try:
        return "State:\tZ" not in open(f"/proc/{pid}/status").read()
    except (FileNotFoundError, ProcessLookupError):
        return False
