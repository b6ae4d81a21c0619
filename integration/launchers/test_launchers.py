"""Launchers by their own names: each with the real one on two nodes, together under rankshim and, as the control, alone without
it."""

import os
import pathlib
import shlex
import sys

import pytest

from lib.kubeflow import start_job
from lib.requirements import cannot

pytestmark = [pytest.mark.torch, pytest.mark.usefixtures("torch")]

MASTER = "job-master-0"
LONG = 120
# Where scripts/setup installs the launchers, beside the tests' own interpreter, whose PyTorch they use.
BIN = pathlib.Path(os.environ.get("LAUNCHERS", pathlib.Path(sys.prefix) / "share" / "launchers")) / "bin"

# A worker that prints its rank without importing torch, which takes seconds, and by one write, because two may write at
# once.
WORKER = """import os, sys
sys.stdout.write('RESULT %(RANK)s of %(WORLD_SIZE)s, master %(MASTER_ADDR)s:%(MASTER_PORT)s\\n' % os.environ)
"""

COMMANDS = {
    "accelerate": "accelerate launch --multi_gpu --num_processes=2 TRAIN",
    "deepspeed": "deepspeed --no_local_rank TRAIN",
    "lightning": "fabric run --accelerator=cpu TRAIN",
}
ALONE = {"accelerate": ["0 of 2", "1 of 2"], "deepspeed": ["0 of 1"], "lightning": ["0 of 1"]}


def workers(process):
    """What the workers of a node print, sorted; the node must have succeeded."""
    assert process.wait(LONG) == 0, process.transcript()
    return sorted(line[len("RESULT "):] for line in process.stdout.splitlines() if line.startswith("RESULT "))


@pytest.fixture
def nodes(pods, tmp_path, name):
    """What starts the launcher on both nodes, each after these words, and returns what the workers of each print."""
    train = tmp_path / "train.py"
    train.write_text(WORKER)
    program, *words = shlex.split(COMMANDS[name].replace("TRAIN", str(train)))
    if not (BIN / program).exists():
        cannot(f"{BIN / program} is not there (scripts/setup installs it)")

    def start(*before):
        return [workers(process) for process in start_job(pods, MASTER, [*before, str(BIN / program), *words])]

    return start


@pytest.mark.nightly
@pytest.mark.parametrize("name", COMMANDS)
def test_two_nodes_train_together_by_the_launchers_own_name(nodes, rankshim):
    assert nodes(rankshim, "--") == [[f"{rank} of 2, master {MASTER}:23456"] for rank in (0, 1)]


@pytest.mark.nightly
@pytest.mark.parametrize("name", COMMANDS)
def test_without_rankshim_each_node_trains_alone(nodes, name):
    assert [[line.split(",")[0] for line in lines] for lines in nodes()] == [ALONE[name]] * 2


def test_the_exception_of_a_worker_is_known_and_not_only_that_its_launcher_saw_it_fail(pods, rankshim, tmp_path):
    if not (BIN / "accelerate").exists():
        cannot(f"{BIN / 'accelerate'} is not there (scripts/setup installs it)")
    (tmp_path / "train.py").write_text("import os, time\nif os.environ['RANK'] == '1':\n"
                                       "    raise ValueError('the loss is nan')\ntime.sleep(1000)\n")
    command = [rankshim, "--", str(BIN / "accelerate"), "launch", "--cpu", str(tmp_path / "train.py")]
    first, second = start_job(pods, MASTER, command)
    assert second.wait(LONG) == 1, second.transcript()
    assert second.stderr.splitlines()[-1].endswith(": ValueError: the loss is nan [R37]")
    assert first.wait(LONG) == 76, first.transcript()
    assert "ValueError: the loss is nan" in first.stderr.splitlines()[-1]
