"""Attacks on PID 1 itself: calls that are refused for ever, a stack that is too small."""

import json
import os
import resource
import shutil
import subprocess

import pytest

from lib.events import until
from lib.process import Process, clean_environment, descendants, run
from lib.requirements import cannot
from supervise.conftest import ended

pytestmark = pytest.mark.attack

# Calls that are refused for ever, and the log line about each.
REFUSALS = {
    "epoll_wait by EIO": ("epoll_wait,epoll_pwait,epoll_pwait2:error=EIO", "refuses to wait for events"),
    "epoll_wait by EPERM": ("epoll_wait,epoll_pwait,epoll_pwait2:error=EPERM", "refuses to wait for events"),
    "wait4 by ENOMEM": ("wait4:error=ENOMEM", None),
    "wait4 and waitid by ENOMEM": ("wait4,waitid:error=ENOMEM", "does not report ended processes"),
    "the signals' read by EAGAIN": ("read:error=EAGAIN", None),
    "the signals' read by EIO": ("read:error=EIO", "refuses to read the signals"),
    "vfork by EPERM": ("vfork:error=EPERM", None),
}


@pytest.fixture(params=REFUSALS)
def refused(request, rankshim, tmp_path):
    """Runs rankshim with a call refused for ever: (process, what it must log). The call must have been made."""
    if shutil.which("strace") is None:
        cannot("strace is missing")
    what, says = REFUSALS[request.param]
    only = ["-P", "anon_inode:[signalfd]"] if what.startswith("read") else []
    started = []
    trace = tmp_path / "trace"

    def start(*arguments):
        process = Process(["strace", "-qq", "-o", str(trace), *only, "-e", f"inject={what}", rankshim, *arguments],
                          clean_environment(), name="rankshim")
        started.append(process)
        return process, says

    yield start
    for process in started:
        process.kill()
    assert "(INJECTED)" in trace.read_text(), "rankshim makes no such call"


def test_a_call_that_is_refused_for_ever_hides_no_end(refused, tmp_path):
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    process, says = refused("--", "sh", "-c", 'read word <"$0"; exit 3', str(gate))
    if says is not None:  # at last: rankshim tries a refused call again for a second
        process.wait_line(says)
    gate.write_text("go\n")
    assert process.wait() == 3


def test_a_call_that_is_refused_for_ever_hides_no_signal(refused):
    process, _ = refused("--grace=20s", "--", "sh", "-c", "trap 'exit 5' TERM; sleep 1000 & echo ready; wait")
    process.wait_line("ready")
    shim = until(lambda: next((pid for pid in descendants(process.pid) if name_of(pid) == "rankshim"), None), "rankshim")
    started = descendants(shim)
    os.kill(shim, 15)
    assert process.wait() == 5
    assert [pid for pid in started if not ended(pid)] == []


@pytest.mark.parametrize("refused", ["epoll_wait by EPERM"], indirect=True)
def test_where_events_cannot_be_waited_for_the_master_is_given_up(refused, tmp_path):
    process, says = refused(f"--report={tmp_path}/report.json", "--nnodes=2", "--node-rank=1", "--master-addr=192.0.2.1",
                            "--wait=port", "--", "true")
    assert process.wait() == 71
    assert says in process.transcript()
    assert json.loads((tmp_path / "report.json").read_text())["verdict"] == "the system refused to wait for the master"


@pytest.mark.parametrize("refused", ["epoll_wait by EPERM"], indirect=True)
def test_where_events_cannot_be_waited_for_a_failed_container_is_kept(refused):
    process, _ = refused("--hold-on-failure=1h", "--", "sh", "-c", "exit 3")
    process.wait_line("the container is kept")
    os.kill(next(pid for pid in descendants(process.pid) if name_of(pid) == "rankshim"), 15)
    assert process.wait() == 3


def name_of(pid):
    try:
        with open(f"/proc/{pid}/comm") as file:
            return file.read().strip()
    except FileNotFoundError:
        return ""


def test_values_nested_deeply_are_refused_within_a_small_stack(rankshim, tmp_path):
    config = tmp_path / "config.toml"
    config.write_text("grace=" + "[" * 250 + "]" * 250)
    done = run(["sh", "-c", f"ulimit -s 128; exec {rankshim} --config={config} -- true"], clean_environment(), name="rankshim")
    assert done.code == 78, done.transcript()


def test_a_stack_that_is_too_small_is_an_error(rankshim):
    def small():
        resource.setrlimit(resource.RLIMIT_STACK, (40 << 10, 40 << 10))

    done = subprocess.run([rankshim, "--", "true"], env=clean_environment(), preexec_fn=small, stderr=subprocess.PIPE,
                          text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (
        71, "rankshim: error: the stack cannot grow by 64 KiB: raise its limit (ulimit -s)\n")
