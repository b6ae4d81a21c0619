"""What each node reports at the end of a job of two on loopback, under the real torchrun."""

import os
import re
import signal
import socket

import pytest
import yaml

from lib.documents import REPOSITORY, shape, shown
from lib.events import until
from lib.process import Process, clean_environment, descendants
from report.conftest import Reporting, wait_channel

pytestmark = [pytest.mark.torch, pytest.mark.usefixtures("torch")]

LONG = 120  # for torchrun, its workers and their end on a busy machine

# Rank RANK of the job's WORLD_SIZE prints that it runs, and ends by the test's rule.
WORKER = """
import os, signal, sys, time
world, node = os.environ["WORLD_SIZE"], os.environ["NODE"]
os.write(1, f"UP world={world}\\n".encode())
END
time.sleep(1000)
"""

ALL_REDUCE = """
import torch, torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record
@record
def train():
    dist.init_process_group("gloo")
    dist.all_reduce(torch.ones(1))
    os.write(1, b"REDUCED\\n")
    if node == "1": os._exit(42)
    dist.all_reduce(torch.ones(1))
train()
"""


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Node(Reporting):
    """One of the two: rankshim with the real torchrun, and what it reports at its end."""

    def __init__(self, rankshim, folder, node, port, script, options, variables):
        self.folder = folder / f"node-{node}"
        self.folder.mkdir()
        (self.folder / "tmp").mkdir()
        environment = {"TMPDIR": f"{self.folder}/tmp", "NODE": str(node), "RANK": str(node), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1",
                       "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", **variables}
        arguments = ["--nproc-per-node=1", f"--report={self.folder}/report.json", f"--run-dir={self.folder}",
                     f"--termination-log={self.folder}/log", *options]
        self.process = Process([rankshim, *arguments, "--", script], clean_environment(environment), name=f"node {node}")

    def end(self):
        return super().end(LONG)

    def lose(self):
        """As a machine is lost: all of it at once."""
        for pid in [self.process.pid, *descendants(self.process.pid)]:
            os.kill(pid, signal.SIGKILL)


@pytest.fixture
def nodes(rankshim, tmp_path):
    """start(NODE, END, OPTION..., VARIABLE=VALUE): one node of a job whose workers do END."""
    port, started = free_port(), []

    def start(node, end, *options, **variables):
        script = tmp_path / "worker.py"
        script.write_text(WORKER.replace("END", end))
        started.append(Node(rankshim, tmp_path, node, port, str(script), options, variables))
        return started[-1]

    yield start
    for node in started:
        node.process.kill()


def elastic(nodes, end):
    """Two nodes of an elastic job, of which the second one joins when the first one trains."""
    options = ["--nnodes=1:2", "--torchrun-args=--rdzv-conf=last_call_timeout=1"]
    first = nodes(0, end, *options)
    first.process.wait_line("UP world=1", LONG)
    second = nodes(1, end, *options)
    first.process.wait_line("UP world=2", LONG)
    return first, second


@pytest.mark.nightly
def test_after_a_change_of_membership_the_new_workers_count(nodes):
    first, _ = elastic(nodes, 'if world == "2" and node == "0": sys.exit(42)')
    first.end()
    assert first.code == 42
    assert "torchrun has started new workers: a node has joined; the job has 2 nodes now, 1 before" in first.process.stderr
    assert (first.cause["who"], first.cause["exit_code"]) == ("worker", 42)
    assert [worker["exit_code"] for worker in first.report["workers"]] == [42]
    assert re.search(r"node \d \(.*\) failed: rank \d exited with code 42", first.last_line)
    assert first.log == "", "nothing is known beyond the exit code"


def test_when_torchruns_store_is_gone_torchrun_is_the_cause_and_not_the_worker_that_it_ended(nodes):
    first, second = elastic(nodes, "")
    second.process.wait_line("UP world=2", LONG)
    first.lose()
    second.end()
    assert second.code == 1
    assert second.cause["who"] == "launcher" and second.cause["lost_peer"]
    assert second.cause["exception"].startswith("RendezvousConnectionError: ")
    assert [worker["signal"] for worker in second.report["workers"]] == ["SIGTERM"]
    assert second.last_line.endswith("; see the other nodes' reports; it stopped its workers itself")


@pytest.mark.nightly
def test_for_a_worker_that_lost_its_peer_the_report_names_a_probable_failure_of_another_node(nodes):
    first, second = nodes(0, ALL_REDUCE, "--link=off"), nodes(1, ALL_REDUCE, "--link=off")
    second.end()
    first.end()
    assert (second.code, second.cause["lost_peer"]) == (42, False)
    assert re.search(r"node 1 \(.*\) failed: rank 1 exited with code 42", second.last_line)
    assert shape(second.last_line) in shown("docs/report.md")
    assert (first.code, first.cause["lost_peer"]) == (1, True)
    assert " lost its peer 127.0.0.1: rank 0 exited with code 1: RuntimeError: " in first.last_line
    assert first.last_line.endswith("; see that node's report")
    assert "GLHF" not in first.last_line and ".cc:" not in first.last_line


@pytest.mark.nightly
@pytest.mark.parametrize("link", ["auto", "off"])
def test_the_peer_of_a_drained_node_is_tried_again_by_kubeflows_exit_code_policy(nodes, link):
    """kubeflow/training-operator@v1.9.4:pkg/util/train/train_util.go IsRetryableExitCode: 128 and above."""
    job = yaml.safe_load((REPOSITORY / "examples/kubeflow-v1/job.yaml").read_text())["spec"]["pytorchReplicaSpecs"]
    containers = [replica["template"]["spec"]["containers"][0] for replica in job.values()]
    (variables,) = [{entry["name"]: entry["value"] for entry in env} for env in [containers[0]["env"]] if env == containers[1]["env"]]
    waits = ALL_REDUCE.replace('if node == "1": os._exit(42)', 'if node == "1": time.sleep(1000)')
    drained, peer = (nodes(node, waits, f"--link={link}", **variables) for node in (1, 0))
    for node in (drained, peer):
        node.process.wait_line("REDUCED", LONG)
    drained.process.signal(signal.SIGTERM)
    drained.end()
    peer.end()
    assert drained.code == 143
    if link == "auto":
        assert (peer.cause["who"], peer.cause["node_rank"]) == ("node", 1) and "was stopped" in peer.last_line
    else:
        assert peer.cause["lost_peer"] and peer.cause["exit_code"] == 1
    assert peer.code >= 128


def test_a_torchrun_that_waits_for_the_others_when_its_workers_are_done_is_not_taken_for_one_without_workers(nodes, shim):
    end = 'if node == "1": sys.exit(0)'
    nodes(0, end)
    second = nodes(1, end, TORCH_ELASTIC_SHUTDOWN_TIMEOUT="2", LOGLEVEL="INFO")
    # Then it is in its exit barrier, where it is deaf. Where it logs that, a signal would end the line, and not torchrun.
    second.process.wait_line(r"Local worker group finished .* Waiting \d+ seconds for other agents to finish", LONG)
    until(lambda: any("poll" in wait_channel(pid) for pid in descendants(second.process.pid)), "torchrun waits in the barrier")
    second.process.signal(signal.SIGTERM)
    second.end()
    assert second.code == 0
    assert "has no worker yet" not in second.process.stderr
    assert second.last_line.startswith("rankshim: all workers had exited with code 0 before SIGTERM stopped torchrun")
    assert (second.report["outcome"], second.cause, second.log) == ("succeeded", None, "")


@pytest.mark.parametrize("options", [(), pytest.param(("--nnodes=2:3",), marks=pytest.mark.nightly)], ids=["static", "elastic"])
def test_nodes_that_never_come_are_75(nodes, options):
    node = nodes(0, "", "--wait-timeout=1s", "--link=off", *options).end()
    assert node.code == 75
    assert node.report["outcome"] == "failed" and not node.report["workers"]
    assert node.last_line.startswith("rankshim: error: the other nodes did not join in time [R35]")
    assert "the other nodes did not join in time" in node.log and "exit code 75" in node.log


@pytest.mark.nightly
def test_the_wait_for_nodes_that_never_come_is_logged_every_half_minute(nodes):
    node = nodes(0, "", "--wait-timeout=70s", "--link=off").end()
    assert node.code == 75
    waits = [line for line in node.process.stderr.splitlines() if "waiting for the other nodes" in line]
    assert waits == [f"rankshim: waiting for the other nodes: torchrun has no worker yet, {since} s after its start; at most 70 s"
                     for since in (30, 60)]
