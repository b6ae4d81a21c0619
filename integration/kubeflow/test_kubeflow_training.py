"""Real PyTorch jobs on several nodes, each with rankshim as PID 1."""

import contextlib
import pathlib
import re
import socket
import sys

import pytest

from lib.kubeflow import operator_1_5, operator_1_9, operator_elastic, start_job
from lib.process import Process, clean_environment, run
from lib.results import JOB, results, together

pytestmark = [pytest.mark.torch, pytest.mark.usefixtures("torch")]

WORKERS = pathlib.Path(__file__).resolve().parent / "workers"
DDP, ALLREDUCE = str(WORKERS / "ddp.py"), str(WORKERS / "allreduce.py")
MASTER = "job-master-0"
OMP = {"OMP_NUM_THREADS": "1"}


@pytest.fixture
def pods(network):
    """The nodes of a job with a master and a worker, and their name server."""
    network.pods = [network.node(MASTER), network.node("job-worker-0")]
    network.server = network.dns()
    return network


@pytest.mark.nightly
def test_two_pods_train_together_though_the_masters_record_comes_late(pods, rankshim):
    master, worker = start_job(pods.pods, MASTER, [rankshim, "--", DDP])
    worker.wait_line(rf"(?i)wait.*{MASTER}", stream="stderr")
    assert not results(worker)
    pods.server.publish(MASTER, pods.pods[0])
    found = together([master, worker])
    assert (found[0]["local_rank"], found[1]["local_rank"]) == ("0", "0")
    for process in (master, worker):
        ours = [line for line in process.stderr.splitlines() if re.match("rankshim", line)]
        assert not [line for line in ours if "error" in line.lower()]


@pytest.mark.nightly
def test_the_newer_operators_pods_train_with_two_workers_each_and_an_empty_pet_standalone(pods, rankshim):
    pods.server.publish(MASTER, pods.pods[0])
    processes = [
        pod.start([rankshim, "--", ALLREDUCE],
                  operator_1_9(rank, 2, MASTER, workers_per_node=2) | OMP | {"PET_STANDALONE": ""})
        for rank, pod in enumerate(pods.pods)
    ]
    found = together(processes, workers_per_node=2)
    assert [found[rank]["local_rank"] for rank in range(4)] == ["0", "1", "0", "1"]


@pytest.mark.nightly
def test_the_oldest_operators_pods_meet_though_the_masters_address_is_localhost(pods, rankshim):
    pods.server.publish(MASTER, pods.pods[0])
    processes = [
        pod.start([rankshim, "--", ALLREDUCE], operator_1_5(rank, 2, "localhost" if rank == 0 else MASTER) | OMP)
        for rank, pod in enumerate(pods.pods)
    ]
    together(processes)


@pytest.mark.nightly
def test_an_elastic_job_without_a_master_meets_at_the_first_worker(network, rankshim):
    nodes = [network.node("job-worker-0"), network.node("job-worker-1")]
    network.dns().publish("job-worker-0", nodes[0])
    processes = [node.start([rankshim, "--", ALLREDUCE], operator_elastic("1:2", "job-worker-0") | OMP)
                 for node in nodes]
    together(processes)


def test_a_plain_python_program_joins_by_the_operators_own_variables(pods, rankshim):
    master, worker = start_job(pods.pods, MASTER, [rankshim, "--", "python", ALLREDUCE])
    worker.wait_line(rf"(?i)wait.*{MASTER}", stream="stderr")
    pods.server.publish(MASTER, pods.pods[0])
    found = together([master, worker])
    assert found[0]["local_rank"] == "None", "LOCAL_RANK is never set for a program"


@pytest.mark.nightly
def test_two_elastic_torchruns_of_the_users_meet_on_one_machine(rankshim):
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        endpoint = f"127.0.0.1:{listener.getsockname()[1]}"
    command = ["torchrun", "--nnodes=2", "--rdzv_backend=c10d", f"--rdzv_endpoint={endpoint}", ALLREDUCE]
    with contextlib.ExitStack() as stack:
        together([stack.enter_context(Process([rankshim, "--", *command], clean_environment(OMP)))
                  for _ in range(2)])


@pytest.mark.parametrize("spelling", ["--local_rank", pytest.param("--local-rank", marks=pytest.mark.nightly)])
def test_a_script_that_knows_one_spelling_of_local_rank_gets_that_one(rankshim, tmp_path, spelling):
    script = tmp_path / "old.py"
    script.write_text(
        "import argparse, os\nparser = argparse.ArgumentParser(allow_abbrev=False)\n"
        f"parser.add_argument('{spelling}')\n"
        "os.write(1, f'{parser.parse_args()}\\n'.encode())\n"  # one write: the workers share the stream
    )
    done = run([rankshim, "--launcher=launch", "--nproc-per-node=2", "--", str(script)], clean_environment(OMP),
               timeout=JOB)
    assert done.code == 0, done.transcript()
    assert sorted(done.stdout.splitlines()) == ["Namespace(local_rank='0')", "Namespace(local_rank='1')"]


@pytest.mark.nightly
def test_the_demonstration_works_without_namespaces_and_prints_so(rankshim):
    demo = WORKERS.parent / "demo.py"
    done = run([sys.executable, "-I", str(demo), rankshim, "--loopback"], clean_environment(), timeout=JOB)
    assert done.code == 0, done.transcript()
    assert "loopback" in done.stdout
    assert "Equal loss" in done.stdout
    assert len(done.stdout.splitlines()) <= 30
