"""Every behaviour is tried twice: as PID 1 of a PID namespace, and as an ordinary process."""

import functools
import os
import subprocess
import sys

import pytest

from lib.events import until
from lib.process import Process, clean_environment, descendants
from lib.requirements import cannot
from lib.torch_stand_in import make_torch_stand_in

PID_1 = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")


@functools.cache
def needs_pid_namespaces():
    """For what runs as PID 1."""
    if subprocess.run([*PID_1, "true"], capture_output=True).returncode != 0:
        cannot("PID namespaces are not permitted")


def name(pid):
    """The process's name, "" when it is gone."""
    try:
        with open(f"/proc/{pid}/comm") as file:
            return file.read().strip()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def status(pid, field):
    """A field of /proc/PID/status."""
    with open(f"/proc/{pid}/status") as file:
        return next(line.split(":", 1)[1].strip() for line in file if line.startswith(field + ":"))


def ended(pid):
    """Whether the process is a zombie or gone."""
    try:
        return status(pid, "State").startswith("Z")
    except (FileNotFoundError, ProcessLookupError):
        return True


class Supervised(Process):
    """A command under rankshim."""

    def find(self):
        """rankshim's own number, in our PID namespace; None while it is not there yet."""
        return next((pid for pid in [self.pid, *descendants(self.pid)] if name(pid) == "rankshim"), None)

    def shim(self):
        """rankshim's own number, as soon as there is one."""
        return until(self.find, "rankshim runs")

    def send(self, number):
        """Sends a signal to rankshim itself."""
        os.kill(self.shim(), number)


# A launcher's agent and its worker as torchrun has them: the worker in a new session, with LOCAL_RANK and its attempt's
# folder in the log folder; the agent checks its worker every 0.1 s, and ends with 1, whatever the worker's code.
AGENT = """
import os, pathlib, signal, subprocess, sys, tempfile, time
os.environ.pop("LOCAL_RANK", None)
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, lambda number, _: os.write(1, f"agent got {signal.Signals(number).name[3:]}\\n".encode()))
logs = os.environ.get("PET_LOG_DIR") or next((word.partition("=")[2] for word in sys.argv if word.startswith("--log_dir=")), "")
attempt = ""
if logs:
    attempt = tempfile.mkdtemp(prefix="run_", dir=logs) + "/attempt_0"
    pathlib.Path(attempt, "0").mkdir(parents=True)
worker = subprocess.Popen([sys.executable, "-c", os.environ["WORKER"]], start_new_session=True,
                          env={**os.environ, "LOCAL_RANK": "0", "TORCHELASTIC_ERROR_FILE": attempt + "/0/error.json"})
while worker.poll() is None:
    time.sleep(0.1)
sys.exit(1 if worker.returncode != 0 else 0)
"""


@pytest.fixture
def torch_stand_in(tmp_path):
    """A folder for PYTHONPATH with a stand-in for `python -m torch.distributed.run` that runs the Python text WORKER, and
    a train.py."""
    make_torch_stand_in(tmp_path, AGENT)
    (tmp_path / "train.py").touch()
    return tmp_path


@pytest.fixture
def agent(start, torch_stand_in):
    """Runs WORKER under the stand-in: agent(WORKER, OPTIONS...)."""

    def run(worker, *options, before=(), **env):
        env = {"PYTHONPATH": str(torch_stand_in), "WORKER": worker, **env}
        return start(str(torch_stand_in / "train.py"), options=["--python", sys.executable, *options], before=before, env=env)

    return run


@pytest.fixture(params=["pid 1", "subreaper"])
def start(request, rankshim):
    """Starts a command under rankshim: start(COMMAND..., options=[...], before=[wrapper inside the namespace],
    around=[wrapper outside of it]); ended with the test."""
    if request.param == "pid 1":
        needs_pid_namespaces()
    started = []

    def run(*command, options=(), before=(), around=(), env=None, **how):
        wrapper = [*around, *(PID_1 if request.param == "pid 1" else ()), *before]
        process = Supervised([rankshim, *options, "--", *command], clean_environment(env), wrapper=wrapper,
                             name="rankshim", **how)
        started.append(process)
        return process

    yield run
    for process in started:
        process.kill()
