"""Attacks on PID 1 itself: a call that a filter refuses, a stack that is too small."""

import os
import shutil

import pytest

from lib.events import until
from lib.process import Process, clean_environment, descendants, run
from lib.requirements import cannot
from supervise.conftest import ended, name

pytestmark = pytest.mark.attack


@pytest.fixture
def without_vfork(rankshim, tmp_path):
    """Runs rankshim where a filter allows fork(2) alone."""
    if shutil.which("strace") is None:
        cannot("strace is missing")
    started = []
    trace = tmp_path / "trace"

    def start(*arguments):
        process = Process(["strace", "-qq", "-o", str(trace), "-e", "inject=vfork:error=EPERM", rankshim, *arguments],
                          clean_environment(), name="rankshim")
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
    assert "(INJECTED)" in trace.read_text(), "rankshim makes no such call"


def test_where_vfork_is_forbidden_no_end_is_hidden(without_vfork):
    assert without_vfork("--", "sh", "-c", "exit 3").wait() == 3


def test_where_vfork_is_forbidden_no_signal_is_hidden(without_vfork):
    process = without_vfork("--grace=20s", "--", "sh", "-c", "trap 'exit 5' TERM; sleep 1000 & echo ready; wait")
    process.wait_line("ready")
    shim = until(lambda: next((pid for pid in descendants(process.pid) if name(pid) == "rankshim"), None), "rankshim")
    started = descendants(shim)
    os.kill(shim, 15)
    assert process.wait() == 5
    assert [pid for pid in started if not ended(pid)] == []


def test_values_nested_deeply_are_refused_within_a_small_stack(rankshim, tmp_path):
    config = tmp_path / "config.toml"
    config.write_text("grace=" + "[" * 250 + "]" * 250)
    done = run(["sh", "-c", f"ulimit -s 128; exec '{rankshim}' --config={config} -- true"], clean_environment(), name="rankshim")
    assert done.code == 78, done.transcript()
