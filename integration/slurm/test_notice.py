"""The notice before the end (`--signal=USR1@120`, here scancel), which Slurm sends to every process of the step
(proctrack/linuxproc), to what rankshim starts as well."""

import sys

import pytest

from lib.events import until
from lib.torch_stand_in import make_torch_stand_in
from supervise.conftest import AGENT

# It saves as long as `saved` is not there.
SAVES = """
import os, signal, sys, time
notices = []
signal.signal(signal.SIGUSR1, lambda *_: notices.append("USR1"))
sys.stdout.write("ready\\n"); sys.stdout.flush()
while not notices: time.sleep(0.01)
sys.stdout.write("saving\\n"); sys.stdout.flush()
while not os.path.exists("go"): time.sleep(0.01)
sys.stdout.write(f"saved {len(notices)}\\n")
"""


@pytest.fixture
def notified(cluster, rankshim):
    """Starts a command under rankshim as a step, sends USR1 to the step when it is ready, and lets it save when rankshim has
    logged `seen`; returns the ended srun and its lines."""

    def run(*command, seen="SIGUSR1 has reached the workers from its sender", **environment):
        folder = cluster.folder
        job = cluster.start("srun", "--output=out", "-N1", "-n1", rankshim, *command, environment=environment)

        def lines():
            return (folder / "out").read_text().splitlines() if (folder / "out").exists() else []

        until(lambda: "ready" in lines(), "the worker has its handler", 120)
        assert cluster.run("scancel", "--signal=USR1", "1").code == 0
        until(lambda: "saving" in lines(), "the notice")
        until(lambda: any(seen in line for line in lines()), "rankshim has seen it, too")
        (folder / "go").touch()
        job.code = job.wait()
        return job, lines()

    return run


def test_torchrun_and_its_worker_outlive_the_notice_which_the_worker_gets_once(cluster, notified):
    make_torch_stand_in(cluster.folder, AGENT)
    (cluster.folder / "train.py").touch()
    job, lines = notified("--python", sys.executable, "--", "train.py", PYTHONPATH=str(cluster.folder), WORKER=SAVES)
    assert job.code == 0, job.transcript()
    assert lines.count("saved 1") == 1, lines


def test_a_native_worker_gets_the_notice_once(cluster, notified):
    (cluster.folder / "train.py").write_text(SAVES)
    job, lines = notified("--python", sys.executable, "--launcher", "native", "--", "train.py")
    assert job.code == 0, job.transcript()
    assert lines.count("saved 1") == 1, lines


def test_what_saves_has_its_time_though_the_shell_that_started_it_died_of_the_notice(cluster, notified):
    (cluster.folder / "train.py").write_text(SAVES)
    job, lines = notified("--grace=60s", "--", "bash", "-c", f"'{sys.executable}' train.py; echo over",
                          seen="which processes below it handle; they have 60 s to save their state")
    assert job.code != 0, job.transcript()
    assert "over" not in lines, "the shell survived"
    assert lines.count("saved 1") == 1, lines


@pytest.mark.parametrize(("trap", "code", "seen"), [("", 138, "which processes below it handle; they have 60 s to save their state"),
                                                    ("trap : USR1;", 0, "SIGUSR1 has reached the processes that handle it from its sender")],
                         ids=["the shell dies of it", "the shell has a trap"])
def test_a_torchrun_in_a_shells_script_outlives_the_notice_which_its_worker_gets_once(cluster, notified, trap, code, seen):
    make_torch_stand_in(cluster.folder, AGENT.replace("sys.exit(1", "print('torchrun ended', flush=True); sys.exit(1"))
    (cluster.folder / "train.py").touch()
    (cluster.folder / "run.sh").write_text(f"{trap} '{sys.executable}' -m torch.distributed.run train.py; exit $?")
    job, lines = notified("--grace=60s", "--", "bash", "run.sh", seen=seen, PYTHONPATH=str(cluster.folder), WORKER=SAVES)
    assert job.code == code, job.transcript()
    assert lines.count("saved 1") == lines.count("torchrun ended") == 1, lines
