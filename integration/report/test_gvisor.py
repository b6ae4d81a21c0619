"""Under gVisor (runsc), whose /proc shows neither what processes do with signals nor how they ended."""

import shutil
import subprocess

import pytest

from lib.process import Process, clean_environment, run
from lib.requirements import cannot
from report.test_torchrun_ends import WORKER

LONG = 200  # for torchrun and its workers under gVisor, on a busy machine
# The machine's own files, which what is written does not change, and a loopback of its own.
SANDBOX = ("runsc", "--network=none", "--ignore-cgroups", "do", "--")
LINE = "this kernel does not show what processes do with signals, nor how they ended"


@pytest.fixture(scope="module")
def sandbox():
    """What starts a command under gVisor."""
    if shutil.which("runsc") is None:
        cannot("runsc is not installed")
    if (tried := subprocess.run([*SANDBOX, "true"], capture_output=True, text=True)).returncode != 0:
        cannot(f"runsc does not start here: {tried.stderr}")
    return SANDBOX


@pytest.mark.torch
@pytest.mark.usefixtures("torch")
@pytest.mark.parametrize("end, code, how", [("exit", 42, "exited with code 42"),
                                            pytest.param("kill", 137, "was killed by SIGKILL", marks=pytest.mark.nightly)])
def test_the_workers_end_is_known_from_torchrun(rankshim, sandbox, end, code, how):
    script = f'export MEET=$(mktemp -d); exec "{rankshim}" --nproc-per-node=2 -- "{WORKER}" {end}'
    done = run([*sandbox, "sh", "-c", script], clean_environment(), name="runsc", timeout=LONG)
    assert done.code == code, done.transcript()
    assert done.stderr.count(LINE) == 1
    assert f"rank 1 {how}" in done.stderr.splitlines()[-1]


def test_the_workers_stacks_are_read(rankshim, sandbox, tmp_path):
    (tmp_path / "train.py").write_text("import time\n\ndef step():\n    time.sleep(1000)\n\nstep()\n")
    script = f"""'{rankshim}' --launcher=native --nproc-per-node=2 --python=python3 --run-dir={tmp_path} -- {tmp_path}/train.py &
        until '{rankshim}' status --stacks --run-dir={tmp_path} | grep 'ranks 0-1: in step (train.py:4)'; do sleep 0.1; done
        kill $!; wait $!"""
    done = run([*sandbox, "sh", "-c", script], clean_environment(), name="runsc", timeout=LONG)
    assert done.code == 143, done.transcript()
    assert "cannot read" not in done.stderr


def test_a_stop_goes_to_the_process_group_and_the_doctor_says_so(rankshim, sandbox):
    script = f"'{rankshim}' doctor | grep signals; exec '{rankshim}' -- sh -c 'trap \"exit 7\" TERM; kill -TERM $PPID; while :; do sleep 0.1; done'"
    with Process([*sandbox, "sh", "-c", script], clean_environment(), name="runsc") as process:
        assert process.wait(LONG) == 7
    assert "warning  signals " in process.stdout and "gVisor" in process.stdout
