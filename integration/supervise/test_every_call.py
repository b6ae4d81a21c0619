"""A signal at each system call that rankshim makes before the command exists."""

import signal

import pytest

from lib import tracer as tracers
from supervise.conftest import needs_pid_namespaces


@pytest.fixture(scope="module")
def tracer(tmp_path_factory):
    return tracers.build(tmp_path_factory.mktemp("tracer"))


@pytest.fixture(params=[True, False], ids=["pid 1", "subreaper"])
def trace(request, tracer):
    """Runs the tracer with a command under rankshim."""
    if request.param:
        needs_pid_namespaces()
    return lambda *arguments: tracers.run(tracer, *arguments, pid_1=request.param)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, 37], ids=str)
def test_a_signal_at_any_system_call_before_the_command_is_never_lost(trace, rankshim, number):
    ends = trace("signal", str(int(number)), "--", rankshim, "--log-level=error", "--", "/bin/sleep", "1000")
    assert len(ends) > 20
    assert [end for end in ends if end[1:] != [str(128 + number), "0"]] == []
