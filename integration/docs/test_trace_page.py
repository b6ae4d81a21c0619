"""The timeline in docs/report.md: its commands are run on the reports of real jobs, and print what the page shows."""

import json
import re
import subprocess

import pytest

from lib.documents import REPOSITORY, blocks, shell
from lib.process import PATH, Process, clean_environment

# Rank 1 fails by itself, and rank 0 then as one whose peer is gone.
TRAIN = """
import os, pathlib, time
if os.environ["RANK"] == "1":
    raise ValueError("loss is nan after batch 40")
while not pathlib.Path("reports/job-node-1.json").exists():
    time.sleep(0.01)
raise RuntimeError("[gloo/transport/tcp/pair.cc:538] Connection closed by peer [10.0.0.12]:4711")
"""


@pytest.fixture(scope="module")
def folder(rankshim, tmp_path_factory):
    """The folder of two nodes of three that were not linked, with their reports."""
    folder = tmp_path_factory.mktemp("job")
    (folder / "reports").mkdir()
    (folder / "train.py").write_text(TRAIN)
    options = ["--launcher=native", "--link=off", "--wait=none", "--nnodes=3", "--nproc-per-node=1", "--master-addr=127.0.0.1",
               f"--run-dir={folder}"]
    nodes = [Process([rankshim, *options, f"--node-rank={rank}", f"--report=reports/job-node-{rank}.json", "--", "train.py"],
                     clean_environment(), cwd=folder, name=f"node {rank}") for rank in range(2)]
    for node in nodes:
        with node:
            assert node.wait(120) == 1, node.transcript()
    return folder


def run_block(block, folder):
    """Runs it there with the rankshim-review of this checkout."""
    script = folder / "rankshim-review"
    script.write_text(f"#!/usr/bin/env python\nimport importlib, sys\nsys.path.insert(0, {str(REPOSITORY / 'review')!r})\n"
                      "sys.exit(importlib.import_module('rankshim_review.' + sys.argv[1]).main(sys.argv[2:]))\n")
    script.chmod(0o755)
    environment = {"PATH": f"{folder}:{PATH}", "HOME": str(folder)}
    return subprocess.run(["bash", "-c", block.text], env=environment, cwd=folder, capture_output=True, text=True, timeout=60, check=False)


def test_the_page_for_a_browser_is_one_file(folder):
    done = run_block(shell("docs/report.md", "The timeline"), folder)
    assert (done.returncode, done.stderr) == (0, "")
    page = (folder / "job.html").read_text()
    assert page.startswith("<!doctype html>") and "<svg" in page and "<script" not in page and "http" not in page.replace("http-equiv", "")
    assert "failed first: exit code 1, ValueError: loss is nan after batch 40" in page


def test_the_trace_is_json_with_a_process_for_each_node(folder):
    done = run_block(shell("docs/report.md", "Perfetto"), folder)
    assert (done.returncode, done.stderr) == (0, "")
    events = json.loads((folder / "job.json").read_text())["traceEvents"]
    assert len([event for event in events if event["name"] == "process_name"]) == 2


def test_collect_prints_what_the_page_shows(folder):
    done = run_block(shell("docs/report.md", "Who failed first"), folder)
    (shown,) = [block.text for block in blocks("text") if (block.document, block.heading) == ("docs/report.md", "Who failed first")]
    assert shape(done.stdout) == shape(shown)
    assert (done.returncode, done.stderr) == (1, "")


def shape(text):
    """Without what differs each time: the hosts' names, numbers, times."""
    for pattern, word in ((r"(node \d+) \([^)]+\)", r"\1 (HOST)"), (r" at \S+Z", " at TIME"), (r"pid \d+", "pid N"), (r"[\d.]+ m?s\b", "TIME")):
        text = re.sub(pattern, word, text)
    return text
