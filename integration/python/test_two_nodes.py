"""Real torchruns in programs on two nodes: some must not join the job, others fail."""

import json
import pathlib
import shlex

import pytest

from lib.kubeflow import operator_1_5, operator_1_9
from lib.results import results

pytestmark = [pytest.mark.torch, pytest.mark.usefixtures("torch")]

ALLREDUCE = str(pathlib.Path(__file__).resolve().parents[1] / "kubeflow" / "workers" / "allreduce.py")
MASTER = "job-master-0"
JOB = 180
OMP = {"OMP_NUM_THREADS": "1"}


def worlds(processes):
    """The world sizes that their workers saw; all must have succeeded."""
    for process in processes:
        assert process.wait(JOB) == 0, process.transcript()
    return [[result["world"] for result in results(process).values()] for process in processes]


@pytest.mark.nightly
def test_a_nested_standalone_is_alone_whatever_the_platform_sets(pods, rankshim, tmp_path):
    command = ["torchrun", "--standalone", "--nproc_per_node=1", ALLREDUCE]
    process = pods[0].start([rankshim, "--", "sh", "-c", shlex.join(command)], operator_1_9(0, 2, MASTER, 1) | OMP)
    assert worlds([process]) == [["1"]]


@pytest.mark.nightly
@pytest.mark.parametrize("before", ["timeout 100", "ENTRYPOINT"])
def test_a_torchrun_behind_another_program_is_linked_and_its_workers_are_followed(pods, rankshim, tmp_path, before):
    entrypoint = tmp_path / "entrypoint.sh"
    entrypoint.write_text('#!/bin/sh\ncd "${0%/*}"\n"$@"\n')
    entrypoint.chmod(0o755)
    (tmp_path / "train.py").write_text("import os, signal, time\nif os.environ['RANK'] == '1':\n"
                                       "    os.kill(os.getpid(), signal.SIGKILL)\ntime.sleep(1000)\n")
    script = "train.py" if before == "ENTRYPOINT" else f"{tmp_path}/train.py"
    command = [*before.replace("ENTRYPOINT", str(entrypoint)).split(), "torchrun", script]
    first, second = (pod.start([rankshim, "--", *command], operator_1_5(rank, 2, MASTER) | OMP | {"TMPDIR": str(tmp_path)})
                     for rank, pod in enumerate(pods))
    assert second.wait(JOB) == 137, second.transcript()
    assert "failed: rank 1 " in second.stderr.splitlines()[-1]
    assert first.wait(JOB) == 76, first.transcript()
    assert "node 1 (job-worker-0) failed: rank 1 was killed by SIGKILL" in first.stderr.splitlines()[-1]
    assert {path.name for path in tmp_path.iterdir()} == {"entrypoint.sh", "train.py"}


@pytest.mark.parametrize("inside", [False, pytest.param(True, marks=pytest.mark.nightly)], ids=["behind the program", "in a script"])
def test_a_torchrun_that_runs_as_another_user_has_its_own_log_folder(pods, rankshim, tmp_path, inside):
    # The workers are no Python, because the tests' own may be root's alone.
    torchrun = ["setpriv", "--reuid=54321", "--regid=54321", "--clear-groups", "torchrun", "--no_python", "sh", "-c",
                "echo world $WORLD_SIZE"]
    (tmp_path / "run.sh").write_text(shlex.join(torchrun))
    command = ["sh", f"{tmp_path}/run.sh"] if inside else torchrun
    for process in [pod.start([rankshim, "--", *command], operator_1_5(rank, 2, MASTER) | OMP)
                    for rank, pod in enumerate(pods)]:
        assert process.wait(JOB) == 0, process.transcript()
        assert process.stdout == "world 2\n"


def test_a_torchrun_that_has_imported_and_reaches_no_store_ends_after_the_wait_timeout(pods, rankshim):
    process = pods[1].start([rankshim, "--wait=none", "--wait-timeout=2s", "--", "torchrun", ALLREDUCE],
                            operator_1_5(1, 2, MASTER) | OMP)
    assert process.wait(JOB) == 75, process.transcript()
    last = process.stderr.splitlines()[-1]
    assert f"torchrun could not reach {MASTER}:23456 within 2 s: port closed (connection refused)" in last
    assert last.endswith(" [R28]")
    assert "still importing" not in process.stderr


def test_the_exception_of_a_torchrun_inside_a_program_is_reported_and_no_folder_is_left(pods, rankshim, tmp_path):
    (tmp_path / "tmp").mkdir()
    (tmp_path / "train.py").write_text("raise ValueError('boom')\n")
    options = [f"--report={tmp_path}/report.json", f"--termination-log={tmp_path}/log"]
    process = pods[0].start(
        [rankshim, *options, "--", "sh", "-c", f"torchrun --standalone {tmp_path}/train.py; exit 5"],
        operator_1_5(0, 2, MASTER) | OMP | {"TMPDIR": f"{tmp_path}/tmp"})
    assert process.wait(JOB) == 5
    assert json.loads((tmp_path / "report.json").read_text())["root_cause"]["exception"] == "ValueError: boom"
    assert (tmp_path / "log").read_text().endswith("ValueError: boom\n")
    assert list((tmp_path / "tmp").iterdir()) == []
