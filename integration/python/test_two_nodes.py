"""Real torchruns in programs on two nodes: some must not join the job, others fail."""

import json
import pathlib

import pytest

from lib.kubeflow import operator_1_5, operator_1_9
from lib.results import results

pytestmark = [pytest.mark.torch, pytest.mark.usefixtures("torch")]

ALLREDUCE = str(pathlib.Path(__file__).resolve().parents[1] / "kubeflow" / "workers" / "allreduce.py")
MASTER = "job-master-0"
JOB = 180
OMP = {"OMP_NUM_THREADS": "1"}


def worlds(processes):
    """The world sizes that their workers saw; all must have ended well."""
    for process in processes:
        assert process.wait(JOB) == 0, process.transcript()
    return [[result["world"] for result in results(process).values()] for process in processes]


def test_a_nested_standalone_is_alone_whatever_the_platform_sets(pods, rankshim, tmp_path):
    command = ["torchrun", "--standalone", "--nproc_per_node=1", ALLREDUCE]
    process = pods[0].start([rankshim, "--", "env", *command], operator_1_9(0, 2, MASTER, 1) | OMP)
    assert worlds([process]) == [["1"]]


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
