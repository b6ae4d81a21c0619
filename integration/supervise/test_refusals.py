"""A system call fails: the command's end is reported correctly nevertheless, and nothing is left."""

import json

import pytest

from lib.requirements import needs_strace


@pytest.fixture
def failing(start):
    """Starts a command while a system call fails: failing("prctl:error=EINVAL", COMMAND...)."""
    needs_strace()

    def run(failure, *command):
        # -D: strace becomes a child, and rankshim PID 1 where it should be. Without -f the command is left alone.
        inject = ["strace", "-D", "-qq", "-o", "/dev/null", "-e", f"trace={failure.split(':')[0]}",
                  "-e", f"inject={failure}"]
        return start(*command, before=inject, options=["--leftover-grace", "100ms"])

    return run


@pytest.mark.parametrize("failure", [
    "prctl:error=EINVAL",  # no subreaper, as under qemu-user
    "pidfd_open:error=ENOSYS",
    "setpgid:error=EPERM",
    "getsid:error=EPERM",
    "ioctl:error=EIO",
    "wait4:error=EINTR:when=1",
    "wait4:error=ENOMEM:when=2",
    "rt_sigaction:error=EINVAL",
    "close:error=EIO",
    "epoll_pwait,epoll_wait:error=EINTR:when=1",
    "read:error=EIO:when=1",
    "read:error=EIO",
    "timerfd_settime:error=EINVAL",
    "waitid:error=EIO",
])
def test_a_secondary_call_that_fails_changes_nothing(failing, failure):
    assert failing(failure, "sh", "-c", "exit 7").wait() == 7


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
