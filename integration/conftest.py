"""Fixtures of all end-to-end tests.

RANKSHIM   the binary under test, an absolute path (default: dist/rankshim, as scripts/build makes it)
CI=true    what cannot be tried here fails instead of being skipped

The tests run side by side (pytest -n 4): each has its own folders and namespaces, and each worker of pytest-xdist its
own loopback.
"""

import importlib.util
import os
import pathlib
import signal

import pytest

from lib import network as networks
from lib.events import PATIENCE, NotInTime
from lib.process import clean_environment, run
from lib.requirements import cannot

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent
# The tests may be run with signals ignored (a shell's background job ignores SIGINT and SIGQUIT, nohup SIGHUP), and what
# the tests start would inherit that. SIGPIPE and SIGXFSZ, which Python ignores itself, subprocess gives back.
for number in signal.valid_signals() - {signal.SIGPIPE, signal.SIGXFSZ}:
    if signal.getsignal(number) == signal.SIG_IGN:
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
# The longest that one test may take; a hang becomes a failure with a traceback. (A Debian is made in four minutes where
# others use the machine.)
LONGEST_TEST = 480
# The files whose tests run in one worker, because they share an image, a virtual machine or a job's reports.
SHARING = ("container/", "packages/", "report/test_cgroup2.py", "review/test_collect.py", "review/test_trace.py")


def pytest_configure(config):
    """Gives a worker of pytest-xdist its own network namespace, so that no two tests meet on a port of loopback."""
    if hasattr(config, "workerinput") and networks.why_not() is None:
        networks.leave_machine_network()


@pytest.hookimpl(tryfirst=True)  # before -m selects
def pytest_collection_modifyitems(items):
    """The quick ones first: a plain mistake shows in seconds."""
    for item in items:
        if item.get_closest_marker("costly") and "subreaper" in item.callspec.id:
            item.add_marker(pytest.mark.nightly)
    items.sort(key=lambda item: item.get_closest_marker("torch") is not None)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Each test goes to the worker that is free, but for those that share what takes long to make."""
    from xdist.scheduler import LoadScopeScheduling

    class Scheduler(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            return next((place for place in SHARING if nodeid.startswith(place)), nodeid)

    return Scheduler(config, log)


@pytest.fixture(autouse=True)
def bounded():
    """Ends a test that hangs."""

    def too_long(*_):
        raise NotInTime(f"the test took longer than {LONGEST_TEST} s")

    before = signal.signal(signal.SIGALRM, too_long)
    signal.alarm(LONGEST_TEST)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture(scope="session")
def rankshim():
    """The binary under test. (pytest.exit() in a worker of pytest-xdist would be an internal error without a reason.)"""
    path = os.environ.get("RANKSHIM") or str(REPOSITORY / "dist" / "rankshim")
    if not os.path.isabs(path):
        pytest.fail(f"RANKSHIM must be an absolute path, not {path}", pytrace=False)
    if not os.access(path, os.X_OK):
        pytest.fail(f"no binary at {path}: scripts/build makes it, or set RANKSHIM", pytrace=False)
    return path


@pytest.fixture
def shim(rankshim):
    """Runs rankshim on this machine itself to its end: shim("explain", ..., env={...})."""

    def start(*arguments, env=None, timeout=PATIENCE):
        return run([rankshim, *arguments], clean_environment(env), timeout=timeout, name="rankshim")

    return start


@pytest.fixture(scope="session")
def namespaces():
    """Skips the test, with the reason, where this machine cannot have nodes as namespaces."""
    return networks.why_not()


@pytest.fixture
def network(namespaces):
    """A small cluster: add nodes with .node(NAME) and a name server with .dns()."""
    if namespaces:
        cannot(namespaces)
    with networks.Network() as network:
        yield network


@pytest.fixture
def pods(network):
    """Two nodes whose master can be found."""
    pods = [network.node("job-master-0"), network.node("job-worker-0")]
    network.dns().publish("job-master-0", pods[0])
    return pods


@pytest.fixture
def memory_group():
    """A memory cgroup (v1) with a limit of 512 MiB."""
    group = pathlib.Path(f"/sys/fs/cgroup/memory/rankshim-{os.getpid()}")
    try:
        group.mkdir()
        (group / "memory.limit_in_bytes").write_text(str(512 << 20))
    except OSError:
        cannot("no memory cgroup can be made in /sys/fs/cgroup/memory")
    yield group
    group.rmdir()


@pytest.fixture(scope="session")
def torch():
    """Real PyTorch in the interpreter that runs the tests."""
    if importlib.util.find_spec("torch") is None:
        cannot("PyTorch is not installed (scripts/setup puts it into .venv)")
