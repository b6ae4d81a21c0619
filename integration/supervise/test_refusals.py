"""A system call fails: the command's end is reported correctly nevertheless, and nothing is left."""

import json

import pytest

from lib.events import until
from lib.requirements import needs_strace


@pytest.fixture
def refuse(tmp_path):
    """The wrapper that refuses a system call of rankshim: refuse("prctl:error=EINVAL"). It must have been made."""
    needs_strace()
    trace = tmp_path / "trace"
    # -D: strace becomes a child, and rankshim PID 1 where it should be. Without -f the command is left alone.
    yield lambda failure: ["strace", "-D", "-qq", "-o", str(trace), "-e", f"trace={failure.split(':')[0]}", "-e", f"inject={failure}"]
    until(lambda: "(INJECTED)" in trace.read_text(), "rankshim makes the call, and strace has written that")


@pytest.fixture
def failing(start, refuse):
    """Starts a command while a system call fails: failing("prctl:error=EINVAL", COMMAND...)."""
    return lambda failure, *command: start(*command, before=refuse(failure), options=["--leftover-grace", "100ms"])


@pytest.mark.parametrize("failure", [
    "setpgid:error=EPERM",
    "getsid:error=EPERM",
    "ioctl:error=EIO",
    "wait4:error=EINTR:when=1",
    "wait4:error=ENOMEM:when=2",
    "rt_sigaction:error=EINVAL",
    "close:error=EIO",
    "epoll_pwait,epoll_wait:error=EINTR:when=1",
    "read:error=EIO:when=1",
    "waitid:error=EIO",
    "timerfd_create:error=EMFILE",
    "timerfd_settime:error=ENOMEM:when=1",
])
def test_a_secondary_call_that_fails_changes_nothing(failing, failure):
    assert failing(failure, "sh", "-c", "exit 7").wait() == 7


@pytest.mark.parametrize("start", ["subreaper"], indirect=True)  # PID 1 makes no such call
def test_a_process_that_cannot_be_a_subreaper_runs_its_command_nevertheless(failing):
    assert failing("prctl:error=EINVAL", "sh", "-c", "exit 7").wait() == 7  # as under qemu-user


def test_without_descriptors_of_processes_the_agents_own_code_counts(agent, refuse, tmp_path):
    # The worker lives until rankshim has found it.
    worker = f"""
import pathlib, sys, time
while "(INJECTED)" not in pathlib.Path("{tmp_path}/trace").read_text():
    time.sleep(0.01)
sys.exit(7)
"""
    assert agent(worker, before=refuse("pidfd_open:error=ENOSYS")).wait() == 1


@pytest.mark.parametrize("failure", ["vfork:error=EAGAIN", "signalfd4:error=EMFILE", "pipe2:error=ENFILE:when=1"])
def test_if_nothing_can_be_started_it_ends_with_71_and_the_reason(failing, failure):
    process = failing(failure, "true")
    assert process.wait() == 71
    assert "rankshim: error: " in process.stderr


def test_a_command_that_cannot_be_executed_is_reported_once_and_by_the_parent_alone(start, tmp_path):
    # A child that goes on with its parent's work after a failed exec would report it too, and run the hook twice.
    report = tmp_path / "report.json"
    process = start("/no/such/file", options=["--post-stop", "echo hook", f"--report={report}"])
    assert process.wait() == 127
    assert process.stdout == "hook\n"
    assert len([line for line in process.stderr.splitlines() if "error" in line]) == 1
    assert json.loads(report.read_text())["exit_code"] == 127
