"""What goes wrong in a linked job, and in one of which only a part runs rankshim."""

import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

from lib.events import until
from lib.process import last_line, shell
from link import mesh
from link.conftest import MASTER, PORT

LONG = 240  # for torch on a busy machine
UP = shell("echo UP; exec sleep 1000")
# Nobody has a WORLD_SIZE before all agents have met at torch's store.
MEETS = 'import os\nprint("REDUCED", os.environ["WORLD_SIZE"], flush=True)\n'
REDUCES = """
import os, torch, torch.distributed as dist
dist.init_process_group("gloo")
dist.all_reduce(torch.ones(1))
print("REDUCED", os.environ["WORLD_SIZE"], flush=True)
dist.destroy_process_group()
"""


@pytest.fixture
def script(tmp_path, torch):
    path = tmp_path / "train.py"
    path.write_text(REDUCES)
    return str(path)


def torchrun(rank, script):
    """torchrun alone, on node RANK of two."""
    return [sys.executable, "-m", "torch.distributed.run", "--nnodes=2", f"--node_rank={rank}", "--nproc_per_node=1", "--rdzv_id=rankshim",
            f"--master_addr={MASTER}", f"--master_port={PORT}", script]


TORCH = {"RANKSHIM_LAUNCHER": "auto", "OMP_NUM_THREADS": "1", "RANKSHIM_PYTHON": sys.executable}


@pytest.mark.torch
@pytest.mark.parametrize(("without", "text"), [
    (0, MEETS), *(pytest.param(without, REDUCES, marks=pytest.mark.nightly) for without in (0, 1)),
], ids=["0 meets", "0", "1"])
def test_a_node_without_rankshim_is_recognised_and_all_train(start, cluster, script, without, text):
    pathlib.Path(script).write_text(text)
    plain = cluster[without].start(torchrun(without, script), {"OMP_NUM_THREADS": "1"})
    node = start(1 - without, [script], nodes=2, **TORCH)
    for process in (plain, node):
        assert process.wait(LONG) == 0, process.transcript()
        assert "REDUCED 2" in process.stdout
    (line,) = [line for line in node.stderr.splitlines() if "continues without a link" in line]
    assert ("torch's store, not rankshim, has answered at" if without == 0 else "a node without rankshim") in line


@pytest.mark.torch
@pytest.mark.nightly
@pytest.mark.parametrize("off", [0, 1])
def test_a_node_that_was_told_not_to_link_is_recognised_and_all_train(start, script, off):
    nodes = [start(rank, [script], nodes=2, **TORCH, RANKSHIM_LINK="off" if rank == off else "auto") for rank in (0, 1)]
    for node in nodes:
        assert node.wait(LONG) == 0, node.transcript()
        assert "REDUCED 2" in node.stdout


@pytest.mark.nightly
@pytest.mark.torch
def test_a_script_that_calls_torchrun_trains_as_before(start, script):
    for node in [start(rank, shell(f"torchrun {script}"), nodes=2, OMP_NUM_THREADS="1", RANKSHIM_LAUNCHER="auto") for rank in (0, 1)]:
        assert node.wait(LONG) == 0, node.transcript()
        assert "REDUCED 2" in node.stdout and "all 2 nodes are here" not in node.stderr


@pytest.fixture
def proxy(cluster):
    """Everything that leaves node 1 for the master's port goes through a mesh's proxy."""
    proxy = mesh.start(cluster[1])
    mesh.redirect(cluster[1], "--dport", str(PORT))
    return proxy


def test_through_a_mesh_that_accepts_everything_the_nodes_meet_when_node_0_is_there(start, proxy):
    second = start(1, UP, nodes=2)
    proxy.wait_line("nobody", LONG)
    second.wait_line("accepts and closes the connection", LONG)
    for _ in range(5):
        proxy.wait_line("nobody", LONG, since=len(proxy.lines))
    assert "without a link" not in second.stderr
    first = start(0, shell("echo UP; trap 'exit 3' USR1; while :; do sleep 0.1; done"), nodes=2)
    for node in (first, second):
        node.wait_line("UP", LONG)
    first.signal(signal.SIGUSR1)
    assert second.wait(LONG) == 76, second.transcript()


@pytest.mark.torch
@pytest.mark.nightly
def test_through_a_mesh_a_node_0_without_rankshim_is_recognised(start, cluster, proxy, script):
    node = start(1, [script], nodes=2, **TORCH)
    proxy.wait_line("nobody", LONG)
    plain = cluster[0].start(torchrun(0, script), {"OMP_NUM_THREADS": "1"})
    for process in (plain, node):
        assert process.wait(LONG) == 0, process.transcript()
        assert "REDUCED 2" in process.stdout


def test_a_worker_that_runs_out_of_memory_is_named_on_all_nodes(start, cluster, rankshim, memory_group):
    others = [start(rank, UP) for rank in (0, 1)]
    environment = {"RANKSHIM_NODE_RANK": "2", "RANKSHIM_NNODES": "3", "RANKSHIM_NPROC_PER_NODE": "1", "RANKSHIM_LAUNCHER": "native",
                   "RANKSHIM_MASTER_ADDR": MASTER, "RANKSHIM_MASTER_PORT": str(PORT)}
    eats = [sys.executable, "-c", "bytearray(1 << 30)"]
    culprit = cluster[2].start(["sh", "-c", f'echo 0 >{memory_group}/cgroup.procs; exec "$@"', "sh", rankshim, "--", *eats], environment)
    assert culprit.wait(LONG) == 137, culprit.transcript()
    assert "out of memory" in last_line(culprit)
    for node in others:
        assert node.wait(LONG) == 76, node.transcript()
        assert "node 2 (job-node-2) failed: rank 2 was killed by SIGKILL" in last_line(node)


def test_a_pod_that_its_kubelet_starts_again_before_all_are_there_takes_its_place(start):
    nodes = {rank: start(rank, UP) for rank in (0, 1)}
    nodes[0].wait_line("waiting for 1 of 3 nodes: node 2", LONG)
    nodes[1].signal(signal.SIGKILL)
    nodes[1].wait(LONG)
    nodes[1], nodes[2] = start(1, UP), start(2, UP)
    for node in nodes.values():
        node.wait_line("UP", LONG)


def test_a_pod_that_its_kubelet_starts_again_while_the_others_run_waits_for_them_to_start_again(start):
    nodes = [start(rank, UP) for rank in range(3)]
    for node in nodes:
        node.wait_line("UP", LONG)
    nodes[1].signal(signal.SIGKILL)
    nodes[1].wait(LONG)
    nodes[1] = start(1, UP)
    for rank in (0, 2):
        assert nodes[rank].wait(LONG) == 76, nodes[rank].transcript()
        assert "node 1 (job-node-1) was lost" in last_line(nodes[rank])
        nodes[rank] = start(rank, UP)
    for node in nodes:
        node.wait_line("UP", LONG)


@pytest.mark.torch
def test_the_address_in_torchs_message_is_a_nodes_name_in_the_last_line(start, tmp_path, torch):
    """What a worker whose peer is gone says; it tells of it before the peer's own node does."""
    path = tmp_path / "train.py"
    path.write_text("import os, signal, socket\n"
                    "address = socket.gethostbyname(socket.gethostname()).removesuffix('1') + '0'\n"
                    "def fail(*_): raise RuntimeError(f'[gloo/transport/tcp/pair.cc:538] Connection closed by peer [{address}]:4711')\n"
                    "signal.signal(signal.SIGUSR1, fail)\n"
                    "print('UP', flush=True)\n"
                    "signal.pause()\n")
    nodes = [start(rank, [str(path)], RANKSHIM_PYTHON=sys.executable) for rank in range(2)] + [start(2, UP)]
    for node in nodes:
        node.wait_line("UP", LONG)
    nodes[1].signal(signal.SIGUSR1)
    assert nodes[2].wait(LONG) == 76, nodes[2].transcript()
    assert "node 1 (job-node-1) lost its peer 10.244.0.10: rank 1 " in last_line(nodes[2])
    assert "Connection closed by peer node 0 (job-node-0, " in last_line(nodes[2])


# Says at once that it got a TERM.
LISTENS = """
import os, signal
def stop(*_):
    os.write(1, b"TERM\\n")
    os._exit(143)
signal.signal(signal.SIGTERM, stop)
print("UP", flush=True)
while True: signal.pause()
"""


@pytest.mark.torch
def test_under_torchrun_nodes_of_different_sizes_are_refused(start, script):
    nodes = [start(rank, [script], RANKSHIM_LAUNCHER="torchrun", RANKSHIM_PYTHON=sys.executable,
                   RANKSHIM_NPROC_PER_NODE="2" if rank == 2 else "1") for rank in range(3)]
    for node in nodes:
        assert node.wait(LONG) == 78, node.transcript()
        assert "has --nproc-per-node 2, node 0 (job-node-0) has 1; set RANKSHIM_NPROC_PER_NODE to the same" in last_line(node)


RELAY = """
import socket, sys, threading
server = socket.create_server(("", int(sys.argv[1])))
print("listening", flush=True)

def copy(source, target):
    while data := source.recv(4096):
        target.sendall(data)
    target.shutdown(socket.SHUT_WR)

while True:
    near = server.accept()[0]
    far = socket.create_connection(("127.0.0.1", int(sys.argv[2])))
    for ends in ((near, far), (far, near)):
        threading.Thread(target=copy, args=ends, daemon=True).start()
"""


@pytest.mark.alone
@pytest.mark.parametrize(("variables", "says"), [
    ({"RANKSHIM_NNODES": "4"}, "has nnodes 4"),
    ({"RANKSHIM_NODE_RANK": "1"}, "two nodes have the rank 1"),
    ({"RANKSHIM_NODE_RANK": "0"}, "two nodes have the rank 0"),
    ({"RANKSHIM_NODE_RANK": "3", "RANKSHIM_NNODES": "4"}, "has nnodes 4"),
    ({"RANKSHIM_LAUNCHER": "torchrun"}, "has launcher torchrun"),
    ({"RANKSHIM_MASTER_PORT": "31000"}, "has master port 31000"),  # a Service's port: it leads to node 0's
    ({"RANKSHIM_JOB_RESTARTS": "2"}, "has --job-restarts 2"),
], ids=lambda value: "" if isinstance(value, str) else " ".join(value))
def test_a_second_after_the_last_node_came_all_are_refused(start, cluster, rankshim, script, variables, says):
    relay = cluster[0].start_beside(["python3", "-c", RELAY, "31000", str(PORT)], name="a Service")
    relay.wait_line("listening", 20)
    took = []
    for _ in range(3):
        nodes = [start(rank, [script], "--run-dir=/run", RANKSHIM_PYTHON=sys.executable) for rank in range(2)]
        status = ["nsenter", "--pid", "--mount", f"--target={nodes[0].init}", rankshim, "status", "--run-dir=/run"]
        until(lambda status=status: b"waiting for 1 of 3 nodes: node 2" in subprocess.run(status, capture_output=True, check=False).stdout,
              "the other two are there")
        began = time.monotonic()
        nodes.append(start(2, [script], RANKSHIM_PYTHON=sys.executable, **variables))
        for node in nodes:
            assert node.wait(LONG) == 78, node.transcript()
            assert says in last_line(node)
            assert not node.stdout
        took.append(time.monotonic() - began)
        if took[-1] < 1:
            break  # the machine may have disturbed those before
    assert took[-1] < 1, took


def test_a_node_of_an_earlier_attempt_is_turned_away_and_the_others_start(start):
    requeued = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_JOB_NUM_NODES": "3", "SLURM_STEP_NUM_NODES": "3",
                "SLURM_STEP_NODELIST": "job-node-[0-2]", "SLURM_NTASKS": "3", "RANKSHIM_LAUNCHER": "native"}
    nodes = [start(rank, shell("echo UP"), SLURM_RESTART_COUNT="1", **requeued) for rank in range(2)]
    old = start(2, shell("echo UP"), SLURM_RESTART_COUNT="0", **requeued)
    assert old.wait(LONG) == 78, old.transcript()
    assert "has run id 7.0, node 0 has another;" in last_line(old)  # Slurm's has the attempt in it
    nodes.append(start(2, shell("echo UP"), SLURM_RESTART_COUNT="1", **requeued))
    assert [node.wait(LONG) for node in nodes] == [0, 0, 0]


@pytest.mark.parametrize(("variable", "value", "says"), [
    ("RANKSHIM_NNODES", "4", "node 2 (job-node-2, ADDRESS) has nnodes 4, node 0 (job-node-0) has 3; set RANKSHIM_NNODES"),
    ("RANKSHIM_NODE_RANK", "1", "two nodes have the rank 1: "),
    ("RANKSHIM_LAUNCHER", "torchrun", "node 2 (job-node-2, ADDRESS) has launcher torchrun, node 0 (job-node-0) has native; set RANKSHIM_LAUNCHER"),
])
@pytest.mark.torch
def test_nodes_that_do_not_fit_together_are_refused_and_nothing_is_launched(start, cluster, tmp_path, torch, variable, value, says):
    script = tmp_path / "train.py"
    script.write_text("print('UP')")
    nodes = [start(rank, [str(script)], RANKSHIM_PYTHON=sys.executable, **({variable: value} if rank == 2 else {})) for rank in range(3)]
    for node in nodes:
        assert node.wait(LONG) == 78, node.transcript()
        assert says.replace("ADDRESS", cluster[2].address) in last_line(node)
        assert "this node has RANKSHIM_NNODES=" in last_line(node)
        assert not node.stdout


SOON = 0.1


@pytest.mark.alone
@pytest.mark.torch
@pytest.mark.parametrize(("launcher", "term", "rounds"), [("native", "^TERM", 5), ("torchrun", "death signal, shutting down workers", 2)])
def test_a_tenth_of_a_second_after_a_workers_death_the_last_other_nodes_launcher_has_its_term(
        start, tmp_path, torch, launcher, term, rounds):
    script = tmp_path / "train.py"
    script.write_text(LISTENS)
    took = []
    for _ in range(rounds):
        nodes = [start(rank, [str(script)], RANKSHIM_LAUNCHER=launcher, RANKSHIM_PYTHON=sys.executable, OMP_NUM_THREADS="1")
                 for rank in range(3)]
        for node in nodes:
            node.wait_line("^UP", LONG)
        worker = [pid for pid, command in nodes[2].tree().items() if "train.py" in command][-1]
        died = time.monotonic()
        os.kill(worker, signal.SIGKILL)
        took.append(max(node.wait_line(term, LONG).at for node in nodes[:2]) - died)
        for node in nodes:
            node.wait(LONG)
        if took[-1] < SOON:
            break  # the machine may have disturbed those before
    assert took[-1] < SOON, took
