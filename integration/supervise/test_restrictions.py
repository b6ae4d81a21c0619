"""Environments that permit little: no /proc, a read-only root, another user, few processes."""

import os
import pathlib
import shutil
import signal
import tempfile

import pytest

from lib.requirements import cannot

SHELL = ("sh", "-c")
STRANGER = ("setpriv", "--reuid=54321", "--regid=54321", "--clear-groups")
RESTRICTIONS = {
    "no /proc": ("unshare", "--mount", *SHELL, 'mount -t tmpfs none /proc && exec "$@"', "sh"),
    "read-only root": ("unshare", "--mount", *SHELL, 'mount -o remount,bind,ro / && ! touch /etc/x 2>&- && exec "$@"', "sh"),
    "another user": STRANGER,
    "another user without new privileges": (*STRANGER, "--no-new-privs"),
    "no capabilities": ("setpriv", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"),
    "all of this": ("unshare", "--mount", *SHELL, 'mount -t tmpfs none /proc && mount -o remount,bind,ro / && exec "$@"',
                    "sh", *STRANGER, "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"),
}
# An end by TERM with a code, and an orphan; and a leftover in another session.
COMMAND = "trap 'exit 7' TERM; (sleep 0.01 &); {} echo ready; while :; do sleep 0.1; done"
LEFT = """(setsid bash -c "trap 'echo asked; exit' TERM; echo away; while :; do sleep 0.1; done" &);"""


@pytest.fixture(autouse=True)
def root():
    if os.geteuid() != 0:
        cannot("the restrictions need root")


@pytest.fixture
def rankshim(rankshim):
    """A copy that every user may run: the checkout may be root's alone."""
    folder = pathlib.Path(tempfile.mkdtemp(dir="/tmp"))
    folder.chmod(0o755)
    yield shutil.copy(rankshim, folder)
    shutil.rmtree(folder)


@pytest.mark.parametrize("restriction", RESTRICTIONS)
def test_signals_ends_and_leftovers_are_handled(start, restriction, request):
    # Without /proc only PID 1 can name what has left the command's process group.
    without_proc = "tmpfs none /proc" in " ".join(RESTRICTIONS[restriction])
    can_leave = not without_proc or request.node.callspec.params["start"] == "pid 1"
    process = start("bash", "-c", COMMAND.format(LEFT if can_leave else ""), before=RESTRICTIONS[restriction])
    process.wait_line("ready", stream="stdout")
    if can_leave:
        process.wait_line("away", stream="stdout")
    process.send(signal.SIGTERM)
    assert process.wait() == 7
    assert ("asked\n" in process.stdout) == can_leave
    assert "rankshim: stopped (SIGTERM): bash exited with code 7" in process.stderr.splitlines()[-1]


def test_if_no_process_may_be_started_it_is_71_with_one_line(start):
    # RLIMIT_NPROC counts all processes of the user, those of tests beside this one too: a user that only this test has.
    user = 100_000 + os.getpid()
    process = start("bash", "-c", "echo never",
                    before=("prlimit", "--nproc=1", "setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"))
    assert process.wait() == 71
    assert process.stdout == ""
    errors = [line for line in process.stderr.splitlines() if "error" in line]
    assert len(errors) == 1 and "bash" in errors[0] and "Resource temporarily unavailable" in errors[0]
