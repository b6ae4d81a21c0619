"""OpenMMLab's real dist_train.sh and train.py, unmodified, on two pods of a Kubeflow PyTorchJob.

The operator sets RANK and WORLD_SIZE; dist_train.sh reads NODE_RANK and NNODES, and takes 0 and 1 where
there are none.
"""

import importlib.util
import os
import pathlib
import shutil
import sys

import pytest

from lib.kubeflow import operator_1_5, operator_1_9
from lib.requirements import cannot
from lib.results import results

MASTER = "job-master-0"
PROJECT = pathlib.Path(__file__).resolve().parent / "project"
# Where scripts/setup unpacks mmpretrain's wheel, beside the tests' own interpreter.
TOOLS = pathlib.Path(sys.prefix) / "share" / "mmpretrain" / "mmpretrain" / ".mim" / "tools"
# A whole job; mmengine's start takes 5 s on an idle core, and the machine may not be idle.
JOB = 200

pytestmark = [pytest.mark.torch, pytest.mark.usefixtures("torch")]


@pytest.fixture
def mmengine():
    """What train.py imports."""
    if importlib.util.find_spec("mmengine") is None:
        cannot("mmengine is not there (scripts/setup nightly puts it into .venv)")


@pytest.fixture
def train(network, tmp_path):
    """Runs a command, by default dist_train.sh, with one worker on each of two pods; the two ended processes."""
    if not (TOOLS / "dist_train.sh").exists():
        cannot("mmpretrain's tools are not there (scripts/setup puts them into .venv)")
    pods = [network.node(MASTER), network.node("job-worker-0")]
    network.dns().publish(MASTER, pods[0])
    platform = {
        "PATH": f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}", "PYTHONPATH": str(PROJECT),
        "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "TMPDIR": str(tmp_path),  # torch leaves its log folder there
    }

    def run(*before, environment, command=("bash", str(TOOLS / "dist_train.sh"), str(PROJECT / "config.py"), "1")):
        processes = []
        for rank, pod in enumerate(pods):
            folder = tmp_path / pod.hostname
            folder.mkdir()
            processes.append(pod.start(
                [*before, *command], environment(rank) | platform, cwd=folder,
            ))
        for process in processes:
            assert process.wait(JOB) == 0, process.transcript()
        return processes

    return run


@pytest.mark.nightly
def test_without_rankshim_each_pod_trains_alone_without_a_message(train, mmengine):
    processes = train(environment=lambda rank: operator_1_5(rank, 2, MASTER))
    for process in processes:
        assert "GPU number: 1" in process.stdout
        alone = results(process)
        assert list(alone) == [0]
        assert (alone[0]["world"], alone[0]["iterations"]) == ("1", "16")
    first, second = (results(process)[0] for process in processes)
    assert first == second, "the same work, done twice"


def test_dist_train_sh_starts_one_job_on_both_pods(train, rankshim, tmp_path):
    """What it starts says only what torch's launcher told it: the training itself is nightly."""
    shutil.copy(TOOLS / "dist_train.sh", tmp_path)
    (tmp_path / "train.py").write_text("import os, sys\n"
                                       "print('RESULT rank={RANK} world={WORLD_SIZE}'.format(**os.environ), sys.argv[1:])\n")
    command = ("bash", str(tmp_path / "dist_train.sh"), "config.py", "1")
    master, worker = train(rankshim, "--", environment=lambda rank: operator_1_5(rank, 2, MASTER), command=command)
    assert [process.stdout for process in (master, worker)] == [
        f"RESULT rank={rank} world=2 ['--local-rank=0', 'config.py', '--launcher', 'pytorch']\n" for rank in (0, 1)]


@pytest.mark.nightly
@pytest.mark.parametrize("environment", [
    pytest.param(lambda rank: operator_1_5(rank, 2, MASTER), id="operator-1.5"),
    pytest.param(lambda rank: operator_1_9(rank, 2, MASTER, workers_per_node=1), id="operator-1.9"),
])
def test_with_rankshim_the_pods_train_once_together(train, mmengine, rankshim, environment):
    is_one_job(*train(rankshim, "--", environment=environment))


@pytest.mark.nightly
@pytest.mark.parametrize("launcher", ["torchrun", "native"])
def test_train_py_itself_trains_together_under_either_launcher(train, mmengine, rankshim, launcher):
    command = [str(TOOLS / "train.py"), str(PROJECT / "config.py"), "--launcher", "pytorch"]
    is_one_job(*train(rankshim, f"--launcher={launcher}", "--", environment=lambda rank: operator_1_5(rank, 2, MASTER), command=command))


def is_one_job(master, worker):
    """The two trained together, and once."""
    assert "GPU number: 2" in master.stdout
    first, second = results(master), results(worker)
    assert (list(first), list(second)) == ([0], [1])
    assert {result["world"] for result in (first[0], second[1])} == {"2"}
    assert {result["iterations"] for result in (first[0], second[1])} == {"8"}
    assert (first[0]["loss"], first[0]["weight"]) == (second[1]["loss"], second[1]["weight"])
