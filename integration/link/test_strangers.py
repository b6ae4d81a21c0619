"""Linked nodes among strangers, in crowds, and where the system has little: the job starts, or its end names why not.

The strangers (strangers.py) and the crowds (peer.py) are programs of another author, made from docs/protocol.md.
"""

import json
import pathlib
import re
import resource
import signal
import subprocess
import sys

import pytest

from lib.events import until
from lib.process import last_line, shell
from lib.torch_stand_in import make_torch_stand_in
from link.conftest import MASTER, PORT
from supervise.conftest import AGENT

HERE = pathlib.Path(__file__).parent
CROWD = 300
UP = shell("echo UP; exec sleep 1000")
LONG = 240  # for hundreds of nodes on a busy machine


@pytest.fixture
def helper(cluster):
    """helper(PLACE, FILE, WORD...): one of the programs beside this file, on a node's network."""

    def helper(place, file, *words):
        argv = [sys.executable, str(HERE / file), cluster[0].address, str(PORT), *map(str, words)]
        return cluster[place].start_beside(argv, name=file)

    return helper


def test_another_implementation_joins_with_a_token(start, helper, tmp_path):
    token = tmp_path / "token"
    token.write_text("the secret of this job")
    first = start(0, shell("echo UP; exec sleep 1"), f"--job-token-file={token}", RANKSHIM_LAUNCHER="native")
    others = helper(1, "peer.py", 3, 1, 2, token.read_text())
    others.wait_line("^GO 2", LONG)
    first.wait_line("UP", LONG)


@pytest.mark.attack
@pytest.mark.parametrize(("way", "line"), [("http", r"HTTP b''"), ("slow", r"SLOW (True|greeted) after ([4-9]|[12]\d)$"), ("replayed", "REPLAYED True")])
def test_a_stranger_is_sent_away_and_the_nodes_meet(start, helper, tmp_path, way, line):
    (tmp_path / "token").write_text("the secret of this job")
    options = [f"--job-token-file={tmp_path}/token"] if way == "replayed" else []
    first, second = (start(rank, UP, *options) for rank in (0, 1))
    until(lambda: first.listens(PORT), "node 0 listens")
    helper(2, "strangers.py", 3, way).wait_line(line, LONG)
    assert not first.stdout
    nodes = [first, second, start(2, UP, *options)]
    for node in nodes:
        node.wait_line("UP", LONG)


@pytest.mark.attack
def test_of_10_000_connections_node_0_keeps_few_and_the_nodes_meet(start, helper):
    first, second = start(0, UP), start(1, UP)
    until(lambda: first.listens(PORT), "node 0 listens")
    helper(2, "strangers.py", 3, "many", 10_000).wait_line("^MANY", LONG)
    kept = 3 + 64
    descriptors = pathlib.Path(f"/proc/{first.init}/fd")
    until(lambda: len(list(descriptors.iterdir())) < kept + 32, "node 0 has closed the oldest")
    for node in (first, second, start(2, UP)):
        node.wait_line("UP", LONG)


@pytest.mark.attack
def test_a_wrong_token_takes_no_place_and_is_named(start, helper, tmp_path):
    (tmp_path / "token").write_text("the secret of this job")
    nodes = [start(rank, UP, f"--job-token-file={tmp_path}/token") for rank in (0, 1)]
    nodes[0].wait_line("waiting for ", LONG)
    helper(2, "peer.py", 3, 2, 2, "another secret of this")
    nodes[0].wait_line(r"node 2 \(peer-2, .*\) did not prove that it knows the job's token", LONG)
    nodes.append(start(2, UP, f"--job-token-file={tmp_path}/token"))
    for node in nodes:
        node.wait_line("UP", LONG)


@pytest.mark.attack
@pytest.mark.parametrize("token", [False, True])
@pytest.mark.parametrize("phase", ["meet", "run"])
def test_strangers_who_speak_without_end_keep_node_0_from_nothing(start, helper, tmp_path, phase, token):
    (tmp_path / "token").write_text("the secret of this job")
    options = [f"--job-token-file={tmp_path}/token"] if token else []
    nodes = [start(0, UP, *options)]
    until(lambda: nodes[0].listens(PORT), "node 0 listens")
    helper(2, "strangers.py", 3, "endless").wait_line("^ENDLESS", LONG)
    if phase == "run":
        nodes += [start(rank, UP, *options) for rank in (1, 2)]
        for node in nodes:
            node.wait_line("UP", LONG)
    nodes[0].signal(signal.SIGTERM)
    assert nodes[0].wait(20) == 143, nodes[0].transcript()
    assert len(nodes[0].stderr) < 20_000, "a line a second at most"


def overflows(process):
    """How often the kernel has dropped a connection because a queue was full, on this node."""
    lines = pathlib.Path(f"/proc/{process.init}/net/netstat").read_text().splitlines()
    names, numbers = next((names.split(), numbers.split()) for names, numbers in zip(lines, lines[1:])
                          if names.startswith("TcpExt:") and not numbers.split()[1].isalpha() and "ListenOverflows" in names)
    return int(numbers[names.index("ListenOverflows")])


def test_a_queue_of_16_connections_is_enough_for_a_crowd(start, cluster, helper):
    cluster[0].start_beside(["sysctl", "-w", "net.core.somaxconn=16"], name="sysctl").wait_line("= 16")
    first = start(0, UP, nodes=CROWD)
    until(lambda: first.listens(PORT), "node 0 listens")
    first.signal(signal.SIGSTOP)  # it accepts nothing
    others = helper(1, "peer.py", CROWD, 1, CROWD - 1)
    until(lambda: overflows(first) > 100, "the queue has overflowed", LONG)
    first.signal(signal.SIGCONT)
    others.wait_line(f"^GO {CROWD - 1}", LONG)
    first.wait_line("UP", LONG)


@pytest.mark.attack
@pytest.mark.parametrize("local_rank", [4294967295, 2000000000])
def test_a_local_rank_that_cannot_be_true_costs_nothing_and_the_others_are_told(start, tmp_path, local_rank):
    make_torch_stand_in(tmp_path, AGENT.replace('"LOCAL_RANK": "0"', f'"LOCAL_RANK": "{local_rank}"'))
    (tmp_path / "train.py").touch()
    nodes = [start(rank, [str(tmp_path / "train.py")], "--python", sys.executable, "--grace=1s", nodes=2, RANKSHIM_LAUNCHER="torchrun",
                   PYTHONPATH=str(tmp_path), WORKER=worker)
             for rank, worker in enumerate(["import signal; signal.pause()", "import sys; sys.exit(3)"])]
    assert nodes[1].wait(LONG) == 3, nodes[1].transcript()
    assert nodes[0].wait(LONG) == 76, nodes[0].transcript()
    assert "rank 1 exited with code 3" in last_line(nodes[1]) and "node 1 (job-node-1) failed: " in last_line(nodes[0])


def test_a_job_of_1_600_nodes_of_60_workers_has_a_status_and_a_report(start, rankshim, helper, tmp_path):
    first = start(0, shell("trap 'exit 3' USR1; echo UP; while :; do sleep 0.1; done"), nodes=1600)
    helper(1, "peer.py", 1600, 1, 1599, "", 60, 0)
    first.wait_line("UP", LONG)

    def status():
        argv = ["nsenter", "--pid", "--mount", f"--target={first.init}", rankshim, "status"]
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0 and len(done.stdout) <= 65536
        return json.loads(done.stdout)

    until(lambda: status().get("nodes_by_state") == {"done": 1599, "running": 1}, "all others have ended", LONG)
    assert status()["nodes"][0]["host"] == "job-node-0"
    resource.prlimit(first.init, resource.RLIMIT_STACK, (128 << 10, resource.RLIM_INFINITY))  # it counts when the stack grows
    first.signal(signal.SIGUSR1)
    assert first.wait(LONG) == 3, first.transcript()
    assert (tmp_path / "job-node-0.json").stat().st_size > 6_000_000
    assert sum(len(node.get("worker_ends", ())) for node in first.report()["nodes"]) == 1599 * 60 + 1


def limited(cluster, rankshim, soft, hard, nodes, *options):
    """Node 0, which may open so many files; its command prints its own limit."""
    environment = {"RANKSHIM_NODE_RANK": "0", "RANKSHIM_NNODES": str(nodes), "RANKSHIM_NPROC_PER_NODE": "1", "RANKSHIM_LAUNCHER": "native",
                   "RANKSHIM_MASTER_ADDR": MASTER, "RANKSHIM_MASTER_PORT": str(PORT)}
    command = [rankshim, *options, "--", *shell("echo UP $(ulimit -Sn); exec sleep 1000")]
    return cluster[0].start(["prlimit", f"--nofile={soft}:{hard}", *command], environment)


def test_the_limit_of_open_files_is_raised_for_1_100_nodes_and_their_command_keeps_it(cluster, rankshim, helper):
    first = limited(cluster, rankshim, 1024, 4096, 1100)
    others = helper(1, "peer.py", 1100, 1, 1099)
    others.wait_line("^GO 1099", LONG)
    assert first.wait_line("UP", LONG).text == "UP 1024"


def test_where_the_limit_cannot_be_raised_a_line_says_so_and_the_end_names_the_missing(cluster, rankshim, helper):
    first = limited(cluster, rankshim, 64, 64, CROWD, "--wait-timeout=8s")
    helper(1, "peer.py", CROWD, 1, CROWD - 1)
    assert first.wait(LONG) == 75, first.transcript()
    assert "this node may open 64 files and needs " in first.stderr and "ulimit -Hn" in first.stderr
    # Each comes in when another one is closed.
    assert re.search(f"of {CROWD} nodes did not join in time: node |not all nodes joined at the same time: node ", last_line(first))
