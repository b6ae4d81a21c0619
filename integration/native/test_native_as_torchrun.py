"""The native launcher beside the real torchrun: the same environment, the same ends, the same training."""

import json
import os
import pathlib
import signal

import pytest

from lib.kubeflow import operator_1_9
from lib.process import Process, clean_environment
from lib.results import JOB, together

pytestmark = [pytest.mark.torch, pytest.mark.usefixtures("torch")]

WORKERS = pathlib.Path(__file__).resolve().parent / "workers"
ALLREDUCE = str(WORKERS.parents[1] / "kubeflow" / "workers" / "allreduce.py")
LAUNCHERS = ("torchrun", "native")
MASTER = "job-master-0"
OMP = {"OMP_NUM_THREADS": "1"}

# What a worker finds in its environment under torchrun and under the native launcher, where that differs. All else
# must be equal.
DIFFERENCES = {
    # No agent hosts the store: the worker of rank 0 does.
    "TORCHELASTIC_USE_AGENT_STORE": ("True", None),
    # Which signals the agent handles. Nothing in a worker reads it.
    "TORCHELASTIC_SIGNALS_TO_HANDLE": ("SIGTERM,SIGINT,SIGHUP,SIGQUIT", None),
}
# Their values hold the names of temporary folders.
FOLDERS = ("TORCHELASTIC_ERROR_FILE", "PYTHONPATH")
# Python sets it where the locale is "C" (PEP 538): the agent for its workers, and a worker for itself.
PYTHONS = "LC_CTYPE"


def pods_of(network):
    """The nodes of a job with a master and a worker, and their name server."""
    pods = [network.node(MASTER), network.node("job-worker-0")]
    network.dns().publish(MASTER, pods[0])
    return pods


def start(pods, rankshim, launcher, *words, more=None):
    """A job of two nodes with two workers each."""
    return [pod.start([rankshim, f"--launcher={launcher}", *words],
                      operator_1_9(node, 2, MASTER, workers_per_node=2) | OMP | (more or {}))
            for node, pod in enumerate(pods)]


def test_the_environment_is_torchruns_for_every_variable_but_the_documented_ones(network, rankshim):
    pods = pods_of(network)
    found = {}
    inherited = {"TORCHELASTIC_USE_AGENT_STORE": "True", "PET_ROLE": "trainer",
                 "GROUP_RANK": "7", "CUDA_VISIBLE_DEVICES": "3,4", "EMPTY": ""}
    for launcher in LAUNCHERS:
        # This worker opens no port that the second node could wait for.
        processes = start(pods, rankshim, launcher, "--wait=dns", "--nproc-per-node=2", "--", str(WORKERS / "environment.py"), "--x",
                          more=inherited)
        for process in processes:
            assert process.wait(JOB) == 0, process.transcript()
        workers = [json.loads(line) for process in processes for line in process.stdout.splitlines()]
        found[launcher] = sorted(workers, key=lambda worker: int(worker["given"]["RANK"]))
    assert [worker["given"]["RANK"] for worker in found["native"]] == ["0", "1", "2", "3"]
    for torchruns, native in zip(found["torchrun"], found["native"]):
        assert native["argv"] == torchruns["argv"]
        for kind in ("given", "seen"):
            for name in sorted(torchruns[kind].keys() | native[kind].keys()):
                values = torchruns[kind].get(name), native[kind].get(name)
                if name in DIFFERENCES:
                    assert values == DIFFERENCES[name], name
                elif name in FOLDERS:
                    assert all(value.startswith("/tmp/rankshim-") for value in values), values
                elif name != PYTHONS or kind == "seen":
                    assert values[0] == values[1], name


@pytest.mark.nightly
def test_two_nodes_train_to_equal_losses(network, rankshim):
    together(start(pods_of(network), rankshim, "native", "--", ALLREDUCE), workers_per_node=2)


@pytest.mark.nightly
def test_two_nodes_train_to_torchruns_losses(network, rankshim):
    pods = pods_of(network)
    native, torchrun = (together(start(pods, rankshim, launcher, "--", ALLREDUCE), workers_per_node=2)
                        for launcher in ("native", "torchrun"))
    assert native == torchrun


RANKS = """
import os, torch, torch.distributed as dist
dist.init_process_group("gloo")
mine = torch.tensor([int(os.environ["GROUP_RANK"]), int(os.environ["LOCAL_RANK"])])
all_of_them = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
dist.all_gather(all_of_them, mine)
print([each.tolist() for each in all_of_them], flush=True)
dist.barrier()  # nobody leaves while another still communicates
dist.destroy_process_group()
"""


@pytest.mark.nightly
def test_each_restart_has_a_store_of_its_own(rankshim):
    command = [rankshim, "--platform=none", "--launcher=native", "--nproc-per-node=2", "--max-restarts=2", "--grace=20s",
               "--", str(WORKERS / "again.py")]
    with Process(command, clean_environment(OMP), name="rankshim") as process:
        assert process.wait(JOB) == 0, process.transcript()
    attempts = [line.split()[1:] for line in process.stdout.splitlines() if line.startswith("ATTEMPT")]
    assert sorted(attempt[:3] for attempt in attempts) == [
        [str(attempt), str(rank), str(2 * (attempt + 1))] for attempt in range(3) for rank in range(2)]
    assert len({attempt[3] for attempt in attempts}) == 3, "a port for each attempt"
