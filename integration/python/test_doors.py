"""The commands that people write after `--`, each with the real torchrun on two nodes, together under rankshim and, as the
control, alone without it."""

import os
import pathlib
import shlex
import sys

import pytest

from lib.kubeflow import start_job
from lib.results import results

pytestmark = [pytest.mark.torch, pytest.mark.usefixtures("torch")]

MASTER = "job-master-0"
LONG = 120
BIN = os.path.dirname(sys.executable)
ALLREDUCE = pathlib.Path(__file__).resolve().parents[1] / "kubeflow" / "workers" / "allreduce.py"
# A worker that has met the others, without torch's seconds.
WORLD = "import os\nprint('RESULT rank=%s world=%s' % (os.environ['RANK'], os.environ['WORLD_SIZE']))\n"

# What is written, and the script that it names, if any. TRAIN is the training script.
DOORS = {
    "torchrun": ("torchrun TRAIN", ""),
    "a path": (f"{BIN}/torchrun --nproc_per_node=1 TRAIN", ""),
    "a module": ("python -m torch.distributed.run TRAIN", ""),
    "an unbuffered module": ("python -u -m torch.distributed.run --max_restarts=0 TRAIN", ""),
    "launch": ("python -m torch.distributed.launch --use_env TRAIN", ""),
    "env": ("env A=B torchrun TRAIN", ""),
    "a shell": ("bash -c 'torchrun --nproc_per_node=1 TRAIN'", ""),
    "a script that becomes torchrun": ("bash RUN", "set -eu\nexec torchrun --nproc_per_node=1 TRAIN\n"),
    "a script with a module": ("bash RUN", "set -eu\npython -m torch.distributed.run TRAIN\necho done\n"),
    "a script with its own PYTHONPATH": ("bash RUN", "export PYTHONPATH=$PWD\ntorchrun --nproc_per_node=1 TRAIN\n"),
    "a script with its own backend": ("bash RUN", "set -eu\nenv NODE_RANK=0 torchrun --rdzv_backend=c10d TRAIN\n"),
}
REALLY_TRAINS = ("a script that becomes torchrun",)
# What differs from another one in words, which the tests of reading them know.
NIGHTLY = ("a path", "a module", "an unbuffered module", "launch", "env", "a shell", "a script that becomes torchrun",
           "a script with a module", "a script with its own PYTHONPATH", "a script with its own backend")


def world(process):
    """The size of the world that the one worker of a node saw; the node must have succeeded."""
    assert process.wait(LONG) == 0, process.transcript()
    (result,) = results(process).values()
    return result["world"]


@pytest.fixture
def nodes(pods, tmp_path, door):
    """What starts the door's command on both nodes, each after these words, and returns the sizes of the worlds."""
    written, script = DOORS[door]
    train, run = tmp_path / "train.py", tmp_path / "run.sh"
    train.write_text(ALLREDUCE.read_text() if door in REALLY_TRAINS else WORLD)
    run.write_text(script.replace("TRAIN", str(train)))
    command = shlex.split(written.replace("TRAIN", str(train)).replace("RUN", str(run)))

    def worlds(*before):
        return [world(process) for process in start_job(pods, MASTER, [*before, *command])]

    return worlds


@pytest.mark.parametrize("door", [pytest.param(door, marks=pytest.mark.nightly) if door in NIGHTLY else door for door in DOORS])
def test_through_every_door_two_nodes_train_together(nodes, rankshim):
    assert nodes(rankshim, "--") == ["2", "2"]


@pytest.mark.nightly
@pytest.mark.parametrize("door", DOORS)
def test_without_rankshim_each_node_trains_alone(nodes):
    assert nodes() == ["1", "1"], "what rankshim is there for"
