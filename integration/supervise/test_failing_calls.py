"""Each system call that rankshim makes, and each of its child before the exec, refused in turn."""

import contextlib
import errno
import json
import socket
import threading

import pytest

from lib import tracer as tracers
from supervise.conftest import PID_1, needs_pid_namespaces

# The errors of a kernel without memory, or of an older one; and other possible errors.
REFUSALS = (errno.ENOMEM, errno.ENOSYS)
OTHER_REFUSALS = (errno.EAGAIN, errno.EINTR, errno.EIO, errno.EPERM, errno.EMFILE)
# Shows that the command ran, whatever the report has.
RAN = '>"${RUN:?}.ran"; '
# What runs, its exit code where nothing goes wrong, and rankshim's options.
SCENES = {
    "a command that fails": ("exit 7", 7),
    "what it leaves behind": ("sleep 1000 & exit 7", 7, "--leftover-grace=0"),
    # It ends by itself with the code of a KILL, for the case that the KILL of the shell is what was refused.
    "a wait for the master": ("exit 7", 7, "--nnodes=2", "--node-rank=1", "--master-addr=127.0.0.1", "--wait-timeout=10s"),
    "a stop that it does not follow": ("trap '' TERM; sleep 1000 & kill -TERM $PPID; wait; wait; exit 137", 137,
                                       "--grace=20ms"),
}


@pytest.fixture(scope="module")
def tracer(tmp_path_factory):
    needs_pid_namespaces()
    return tracers.build(tmp_path_factory.mktemp("tracer"))


@pytest.fixture(scope="module")
def master():
    """The port of a master that answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=128) as server:
        def answer():
            with contextlib.suppress(OSError):  # the test's end
                while True:
                    server.accept()[0].close()

        thread = threading.Thread(target=answer)
        thread.start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)
        thread.join()


@pytest.fixture(params=[REFUSALS, pytest.param(OTHER_REFUSALS, marks=pytest.mark.nightly)], ids=["usual", "others"])
def refusals(request):
    """The errors that each call gets."""
    return request.param


@pytest.fixture(params=[True, False], ids=["pid 1", "subreaper"])
def refuse(request, tracer, rankshim, master, refusals, tmp_path):
    """Runs a scene once for each call and error: (call, error, exit code, processes left, stderr, report, whether the
    command ran) of each."""

    def run(scene, whose="refuse"):
        script, _, *options = SCENES[scene]
        # Always in a new PID namespace: in a large /proc a walk through it is a thousand calls.
        ends = tracers.run(tracer, "--folder", tmp_path, whose, ",".join(map(str, refusals)), "--", rankshim, *options,
                           f"--master-port={master}", "--", "/bin/sh", "-c", RAN + script, pid_1=request.param, within=PID_1)
        for index, call, error, status, left in ends:
            name = tmp_path / f"{index}-{error}"
            report = name.with_suffix(".json")
            yield (f"{index}: {call}", errno.errorcode[int(error)], status, int(left), name.with_suffix(".err").read_text(),
                   json.loads(report.read_text()) if report.exists() else None,
                   name.with_suffix(".ran").exists())

    return run


def wrong(end, code):
    """What is not right about a run's end, or None."""
    _, _, status, left, log, report, ran = end
    last = log.splitlines()[-1] if log else ""
    if left and "cannot become the reaper" not in log:
        return f"{left} processes left"
    # The command ran and its code is reported, or it was not started and the last line names what was refused.
    if ran and status != str(code):
        return f"exit {status} of a command that ran"
    if not ran and (status, True) not in (("71", "refused" in last), ("126", "cannot be executed" in last),
                                          ("71", "cannot be read" in last), ("78", "cannot be read" in last)):
        return f"exit {status} of a command that did not run"
    # The report may be missing only if a call for it was refused, or nothing could be set up at all, memory included.
    excused = ("the report cannot be written", "refused a resource that supervising", "the system refused memory: raise the limit")
    if report is None and not any(words in log for words in excused):
        return "no report, and nothing says so"
    if report is not None and str(report["exit_code"]) != status:
        return f"exit {status}, but the report says {report['exit_code']}"
    return None


@pytest.mark.costly
@pytest.mark.parametrize("scene", SCENES)
def test_a_refused_call_never_hangs_never_claims_success_leaves_nothing_and_is_reported(refuse, refusals, scene):
    ends = list(refuse(scene))
    assert len(ends) > len(refusals) * 50
    assert [(end, why) for end in ends if (why := wrong(end, SCENES[scene][1]))] == []


def test_a_refused_call_of_the_child_before_its_exec_is_reported(refuse, refusals):
    ends = list(refuse("a command that fails", "refuse-child"))
    assert len(ends) >= len(refusals) * 3
    assert [(end, why) for end in ends if (why := wrong(end, 7))] == []
