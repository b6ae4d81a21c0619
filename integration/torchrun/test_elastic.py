"""Elastic jobs (MIN:MAX) under the real torchrun: nodes are lost, and come back."""

import json
import pathlib
import sys

import pytest

from lib.events import until
from lib.requirements import cannot

pytestmark = [pytest.mark.torch, pytest.mark.usefixtures("torch")]

LONG = 120  # for torchrun and its workers on a busy machine
MEETING = "meeting"  # the name at which the nodes meet
PORT = 23456
ETCD = pathlib.Path(sys.prefix) / "share" / "etcd"  # where scripts/setup unpacks it, and the client that torch imports
# A node is lost after five missed signs of life, a second apart; by default that takes 15 s. (Two are too few: on a
# busy machine each node then takes the other for lost, and trains alone.) A round begins a second after the least number of
# nodes is there; by default 30 s.
CONF = "keep_alive_interval=1,keep_alive_max_attempt=5,last_call_timeout=1,join_timeout=60"
# The time in which the others learn that the host of a c10d rendezvous is lost: its kernel closes their connections.
LEARNED = 20

# torchrun's agents notice a lost node only when a worker fails or a node wants to join, so these workers are connected, as
# workers in a collective are, and fail when a peer is gone. They save the time that torch's import takes.
CONNECTED = """
import os, pathlib, select, socket, sys, time
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
at = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
peers = []
if rank == 0:
    server = socket.create_server(at)
    peers = [server.accept()[0] for _ in range(1, world)]
while rank != 0 and not peers:
    try:
        peers = [socket.create_connection(at)]
    except ConnectionRefusedError:
        time.sleep(0.02)
os.write(1, f"UP world={world}\\n".encode())
gate = pathlib.Path(sys.argv[1])
while not gate.exists():
    if select.select(peers, [], [], 0.02)[0] and not gate.exists():
        raise ConnectionError("a peer is gone")
"""

COLLECTIVE = """
import os, pathlib, sys, time
import torch, torch.distributed as dist
dist.init_process_group("gloo")
os.write(1, f"UP world={os.environ['WORLD_SIZE']}\\n".encode())
over = torch.zeros(1)
while not over:
    over += pathlib.Path(sys.argv[1]).exists()
    dist.all_reduce(over)
    time.sleep(0.02)
dist.barrier()
dist.destroy_process_group()
"""


class Job:
    """Two nodes that meet at one name."""

    def __init__(self, network, rankshim, folder, backend, host_names, worker):
        self.rankshim, self.folder, self.backend = rankshim, folder, backend
        self.script, self.gate = folder / "train.py", folder / "gate"
        self.script.write_text(worker)
        self.nodes = [network.node(name) for name in host_names]
        self.server = network.dns()

    def start(self, number):
        """Starts the node, also where it was lost."""
        words = [f"--report={self.folder}/report-{number}.json", f"--rdzv-backend={self.backend}", "--nnodes=1:2",
                 f"--rdzv-endpoint={MEETING}:{PORT}", "--run-id=job7", f"--torchrun-args=--rdzv-conf={CONF}", "--max-restarts=9"]
        return self.nodes[number].start([self.rankshim, *words, "--", str(self.script), str(self.gate)],
                                        {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ETCD / "python")}, name=f"node {number}")

    def start_both(self):
        both = [self.start(number) for number in (0, 1)]
        for process in both:
            up(process, 2)
        return both

    def lose_and_take_in(self, lost, both):
        """One of the two is lost with all its processes; the other goes on alone, and takes it in when it is back."""
        stays = both[1 - lost]
        before = len(stays.lines)
        both[lost].kill()
        alone = up(stays, 1, before)
        both[lost] = self.start(lost)
        up(stays, 2, alone)
        up(both[lost], 2)

    def end(self, both):
        self.gate.touch()
        for process in both:
            assert process.wait(LONG) == 0, process.transcript()


def up(process, world, since=0):
    """Waits until a worker runs in a job of this size; the number of lines before the next one."""
    process.wait_line(f"UP world={world}$", LONG, since=since)
    return len(process.lines)


@pytest.fixture
def job(network, rankshim, tmp_path):
    """job(BACKEND, HOST NAMES, WORKER): a Job; with etcd, at a real server on a third node."""

    def make(backend, host_names=("trainer-0", "trainer-1"), worker=CONNECTED):
        made = Job(network, rankshim, tmp_path, backend, host_names, worker)
        if backend == "c10d":
            return made
        if not (ETCD / "etcd").exists():
            cannot("etcd is not there (scripts/setup nightly puts it into .venv)")
        node = network.node("etcd")
        at = f"http://{node.address}:{PORT}"
        etcd = node.start([str(ETCD / "etcd"), "--enable-v2", f"--data-dir={tmp_path}/etcd", f"--listen-client-urls={at}",
                           f"--advertise-client-urls={at}", "--listen-peer-urls=http://127.0.0.1:2380", "--log-level=error"], {})
        until(lambda: etcd.listens(PORT), "etcd listens")
        made.server.publish(MEETING, node)
        return made

    return make


def test_two_nodes_of_one_host_name_meet_at_a_name_that_comes_late_and_one_is_lost_and_comes_back(job):
    made = job("c10d", ("trainer", "trainer"))
    both = [made.start(number) for number in (0, 1)]
    for process in both:
        process.wait_line(f"waiting.*{MEETING}", LONG)
    made.server.publish(MEETING, made.nodes[0])
    for process in both:
        up(process, 2)
    made.lose_and_take_in(1, both)
    made.end(both)
    for change in ("a node was lost; the job has 1 node now, 2 before", "a node came back; the job has 2 nodes now, 1 before"):
        assert change in both[0].stderr


@pytest.mark.nightly
def test_a_node_is_lost_and_comes_back_twice(job):
    made = job("c10d", worker=COLLECTIVE)
    made.server.publish(MEETING, made.nodes[0])
    both = made.start_both()
    made.lose_and_take_in(1, both)
    made.lose_and_take_in(1, both)
    made.end(both)


@pytest.mark.nightly
@pytest.mark.parametrize("backend", ["etcd-v2", "etcd"])
def test_at_an_etcd_every_node_may_be_lost_and_come_back(job, backend):
    made = job(backend)
    both = made.start_both()
    made.lose_and_take_in(0, both)
    made.end(both)


@pytest.mark.nightly
def test_at_an_etcd_one_node_after_the_other_is_lost_and_comes_back(job):
    made = job("etcd-v2", worker=COLLECTIVE)
    both = made.start_both()
    made.lose_and_take_in(0, both)
    made.lose_and_take_in(1, both)
    made.end(both)


@pytest.mark.nightly
def test_when_the_host_of_a_c10d_job_is_lost_the_others_end_with_an_error_that_names_it(job):
    made = job("c10d")
    made.server.publish(MEETING, made.nodes[0])
    host, other = made.start_both()
    host.kill()
    assert other.wait(LEARNED) == 1
    cause = json.loads((made.folder / "report-1.json").read_text())["root_cause"]
    assert (cause["who"], cause["lost_peer"]) == ("worker", True)
    assert "lost the node that hosts the rendezvous; see its report: worker " in other.stderr.splitlines()[-1]
