"""Of the nodes that the platform gives, some wait (--spares) and take the place of a node that is lost or drained."""

import random
import re
import signal
import sys
import time

import pytest

from lib.events import until
from lib.process import last_line, shell
from link.pods import (
    IMPORTS, LONG, MASTER, PORT, REDUCES, WAITS, assert_each_rank_once, held_by, kill, private_memory, ranks, reduce, settled, taken,
)


def test_the_place_of_a_node_that_is_killed_is_taken_by_a_spare_and_all_others_keep_their_ranks(pods):
    all = pods.start_all()
    assert ranks(all[1]) == [(1, 3, 1, 3, 0)] and not all[3].stdout
    all[1].signal(signal.SIGKILL)
    killed = time.monotonic()
    for index in (0, 2):
        all[index].wait_line("UP . 3 . 3 1", 30)
    spare = taken(all[3:], 1, 1)
    took = time.monotonic() - killed
    assert ranks(all[2]) == [(2, 3, 2, 3, 0), (2, 3, 2, 3, 1)]
    index = all.index(spare)
    assert f"node {index} (job-node-{index}) has rank 1 from now on; node 1 (job-node-1) was lost" in all[0].stderr
    assert f"rankshim: node {index} with rank 1 of 3 nodes, 1 worker, master " in spare.stderr
    assert "its connection ended, and its rankshim no longer listens" in all[0].stderr  # not after 2 s
    status = pods.status(all[0])
    states = [(node["index"], node.get("node_rank"), node["state"]) for node in status["nodes"]]
    assert states == [(0, 0, "running"), (1, None, "missing"), (2, 2, "running")] + [
        (one, 1, "running") if one == index else (one, None, "spare") for one in (3, 4)]
    assert [(one["node_rank"], one["index"], one["host"], one.get("why")) for one in status["history"]] == [
        (1, 1, "job-node-1", "lost"), (1, index, f"job-node-{index}", None)]
    pods.end_well([all[index] for index in (0, 2, 3, 4)])
    node = spare.report()["node"]
    assert (node["node_rank"], node["nnodes"], node["index"], node["members"]) == (1, "3", index, 5)
    other = all[7 - index]
    assert not other.stdout
    assert "the job has succeeded" in last_line(other)
    print(f"first line of all after {took:.3f} s")
    assert took < 8


def test_a_drained_node_is_replaced_and_that_uses_up_no_restart(pods):
    all = pods.start_all(RANKSHIM_JOB_RESTARTS="1")
    for attempt, drained in enumerate((1, 2), 1):
        all[drained].signal(signal.SIGTERM)
        assert all[drained].wait(30) == 143, all[drained].transcript()
        taken(all[3:], drained, attempt)
    until(lambda: ranks(all[0])[-1][-1] == 2, "node 0 runs again")
    pods.go.touch()
    for index in (0, 3, 4):
        assert all[index].wait(LONG) == 0, all[index].transcript()
    report = all[0].report()
    assert report["attempt"] == 2


def test_without_a_spare_that_is_left_a_drained_node_ends_the_job_as_ever(pods):
    pods.count = 4
    all = pods.start_all()
    all[3].signal(signal.SIGTERM)
    assert all[3].wait(30) == 143, all[3].transcript()
    assert "while it waited as a spare" in last_line(all[3])
    all[1].signal(signal.SIGTERM)
    assert [all[index].wait(30) for index in (0, 1, 2)] == [76, 143, 76], [process.transcript() for process in all]
    for index in (0, 2):
        assert "not restarted: no spare can take over" in last_line(all[index])


def test_when_all_pods_are_deleted_all_end(pods):
    all = pods.start_all()
    for process in all:
        process.signal(signal.SIGTERM)
    codes = [process.wait(60) for process in all]
    assert set(codes) <= {143, 76}, [process.transcript() for process in all]
    assert codes[0] == 143


def test_a_spare_that_is_lost_ends_nobody_and_one_that_comes_late_is_a_spare(pods):
    pods.count = 4
    all = pods.start_all()
    all[3].signal(signal.SIGKILL)
    all[3].wait(20)
    all[3] = pods.start(3)
    all[3].wait_line("waits as a spare", 30)
    all[2].signal(signal.SIGKILL)
    all[3].wait_line("UP 2 3 2 3 1", 30)
    pods.end_well([all[index] for index in (0, 1, 3)])


def test_a_lost_node_is_named_by_node_0_though_all_others_were_lost_before(pods):
    pods.count, pods.train = 3, 2
    all = pods.start_all()
    all[1].signal(signal.SIGKILL)
    all[2].wait_line("UP 1 2 1 2 1", 30)
    all[2].signal(signal.SIGKILL)
    all[0].wait_line(r"stopped: node 2 \(job-node-2\) was lost: .*; next: restart 2 of 2", 30)
    new = pods.start(1)
    new.wait_line("UP 1 2 1 2 2", 20)  # nobody is silent, so that nobody is waited for
    pods.end_well([all[0], new])


def test_after_10_seconds_the_job_starts_without_spares_that_have_not_come(pods):
    all = [pods.start(index) for index in (0, 1, 4)]
    for process in all:
        process.wait_line("UP . 3 . 3 0", 30)
    assert ranks(all[2]) == [(2, 3, 2, 3, 0)], "the hole of node 2 is the spare's"
    late = pods.start(2)
    late.wait_line("waits as a spare", 30)
    pods.end_well([*all, late])


def test_a_node_that_fails_twice_is_put_aside(pods):
    bad = shell("[ $(hostname) != job-node-1 ] || exit 3; " + WAITS.format(go=pods.go))
    all = [pods.start(index, command=bad, RANKSHIM_JOB_RESTARTS="5", RANKSHIM_RESTART_PAUSE="0") for index in range(5)]
    index = all.index(taken(all[3:], 1, 2))
    assert f"node {index} (job-node-{index}) has rank 1 from now on; node 1 (job-node-1) was put aside" in all[0].stderr
    pods.end_well(all)
    history = all[0].report()["history"]
    assert [(one["node_rank"], one["index"]) for one in history] == [(1, 1), (1, index)]


def test_a_failed_job_ends_its_spares_with_76(pods):
    pods.count = 4
    command = shell("echo UP; [ $RANK = 2 ] && exit 65; sleep 1000")
    all = [pods.start(index, command=command) for index in range(4)]
    assert [process.wait(30) for process in all] == [76, 76, 65, 76], [process.transcript() for process in all]
    assert "node 2 (job-node-2) failed: rank 2 exited with code 65" in last_line(all[3])


def test_a_spare_that_dies_in_the_lost_nodes_place_is_replaced_by_the_next(pods):
    all = pods.start_all()
    all[1].signal(signal.SIGKILL)
    spare = taken(all[3:], 1, 1)
    spare.signal(signal.SIGKILL)
    index = all.index(spare)
    other = all[7 - index]
    other.wait_line("UP 1 3 1 3 2", 30)
    until(lambda: ranks(all[2])[-1] == (2, 3, 2, 3, 2), "node 2 runs again")
    pods.end_well([all[0], all[2], other])
    assert [one["index"] for one in all[0].report()["history"]] == [1, index, 7 - index]


def test_a_node_that_is_lost_while_all_restart_is_replaced_too(pods, tmp_path):
    saves = shell(f"trap 'echo SAVES; until [ -e {tmp_path}/saved ]; do sleep 0.02; done; exit 1' TERM; " + WAITS.format(go=pods.go))
    all = [pods.start(index, command=saves if index == 2 else None) for index in range(5)]
    for process in all[:3]:
        process.wait_line("UP", 30)
    all[1].signal(signal.SIGKILL)
    all[2].wait_line("SAVES", 30)
    all[2].signal(signal.SIGKILL)
    (tmp_path / "saved").touch()
    taken(all[3:], 1, 1), taken(all[3:], 2, 1)
    pods.end_well([all[index] for index in (0, 3, 4)])


def test_with_fewer_spares_than_lost_nodes_a_new_pod_gets_the_place(pods):
    pods.count = 4
    all = pods.start_all()
    for index in (1, 2):
        all[index].signal(signal.SIGKILL)
        all[index].wait(20)
    all[0].wait_line("waiting for .* of 4 nodes", 60)
    all[2] = pods.start(2)
    all[2].wait_line("UP 2 3 2 3 1", 60)
    taken(all[3:], 1, 1)
    pods.end_well([all[0], all[2], all[3]])


def test_when_nobody_comes_a_spare_exits_with_75(pods):
    for indices in ([4], [0, 4]):
        all = [pods.start(index, RANKSHIM_WAIT_TIMEOUT="2s") for index in indices]
        assert [process.wait(60) for process in all] == [75] * len(all), [process.transcript() for process in all]


def test_with_a_token_late_spares_come_too_and_a_stranger_does_not(pods, tmp_path):
    (tmp_path / "token").write_text("the secret of this job")
    token = {"RANKSHIM_JOB_TOKEN_FILE": str(tmp_path / "token")}
    all = [pods.start(index, **token) for index in range(4)]
    for process in all[:3]:
        process.wait_line("UP", 60)
    stranger = pods.start(4)
    assert stranger.wait(60) == 78, stranger.transcript()
    assert "node 4 (job-node-4, 10.244.0.14) has no token, and the job has one" in last_line(stranger)
    late = pods.start(4, **token)
    late.wait_line("waits as a spare", 30)
    assert "set --job-token-file on all nodes" in stranger.stderr
    assert "a stranger" not in late.stderr
    pods.end_well([*all, late])


# What a peer of the protocol's version 1 says first, and what it hears.
OLD = r"""
import socket, sys
with socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=60) as peer:
    peer.sendall(b"\x00\xce\xf7\x85\x3c\x07RSHM\x01hello {}\n")
    print("HEARD", peer.recv(100).hex(), flush=True)
"""


def test_a_rankshim_of_an_older_protocol_is_named_and_not_misled(pods):
    pods.count = 4
    all = [pods.start(index) for index in (0, 1)]
    until(lambda: all[0].listens(int(PORT)), "node 0 listens")
    old = pods.nodes[1].start_beside([sys.executable, "-c", OLD, pods.nodes[0].address, PORT], name="old")
    old.wait_line("HEARD 00cef7853c075253484d02$", 60)
    for process in all:
        process.wait_line(r"the rankshim at [0-9.]+ speaks another version of the link: use the same release on all nodes", 60)


def test_a_check_runs_on_each_node_alone_and_one_that_fails_keeps_only_its_own_node_away(pods):
    """`rankshim preflight` before the job, and --pre-start within it: the others do without a node whose check fails."""
    pods.count = 4
    check = "[ $(hostname) != job-node-1 ] || exit 9"
    alone = {}
    for index in (1, 2):
        environment = {"RANKSHIM_NODE_RANK": str(index), "RANKSHIM_NNODES": "4", "RANKSHIM_MASTER_ADDR": MASTER, "RANKSHIM_SPARES": "1",
                       "RANKSHIM_JOB_RESTARTS": "2"}
        alone[index] = pods.node(index).run([pods.rankshim, "preflight", "--check", check], environment).code
    assert alone == {1: 9, 2: 0}
    all = [pods.start(index, "--pre-start", check) for index in range(4)]
    assert all[1].wait(60) != 0, all[1].transcript()
    for process in (all[0], all[2], all[3]):
        process.wait_line("UP . 3 . 3 0", 60)
    assert ranks(all[3]) == [(1, 3, 1, 3, 0)]
    pods.end_well([all[0], all[2], all[3]])


@pytest.mark.parametrize(("first", "kills"), [(0, 8), pytest.param(0, 200, marks=pytest.mark.nightly),
                                              pytest.param(1, 200, marks=pytest.mark.nightly)])
def test_whatever_nodes_are_killed_each_attempt_has_each_rank_once_and_nothing_grows(pods, first, kills):
    """All nodes, or all but node 0, are killed at random moments, and their containers are started again at once."""
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    draw = random.Random(seed)
    options = {"RANKSHIM_JOB_RESTARTS": "100000", "RANKSHIM_RESTART_PAUSE": "0"}
    processes, ended, held, memory = pods.start_all(**options), [], [], []
    lost = set()  # since all were there

    def holds():
        """What the node that holds most has: the hub."""
        return tuple(map(max, zip(*map(held_by, processes), strict=True)))

    for number in range(1, kills + 1):
        time.sleep(draw.random() / 4)  # a random moment: also while they meet
        index = draw.randrange(first, 5)
        kill(processes[index])
        lost.add(index)
        ended.append(processes[index])
        processes[index] = pods.start(index, **options)
        # Without node 0 the others need a majority.
        if number in (kills // 2, kills) or len(lost) == 2 or draw.random() < 0.5:
            until(lambda: settled(processes), f"all run again after kill {number}", LONG)
            lost.clear()
        if number in (kills // 2, kills):
            held.append(holds())
            memory.append(private_memory(processes[0]))
    # The last that came may still have a connection too many, and how many timers there are depends on the moment.
    most = (held[0][0] + 2, held[0][1])
    until(lambda: all(now <= then for now, then in zip(holds(), most, strict=True)), "no node holds more than before")
    pods.end_well(processes)
    last = assert_each_rank_once([*processes, *ended])
    assert first == 0 or memory[1] - memory[0] < 300, memory
    print(f"{last} attempts after {kills} kills; kB of node 0: {memory}; most descriptors and listening ports of a node: {held}")


@pytest.mark.parametrize(("variables", "why"), [
    ({"RANKSHIM_JOB_RESTARTS": "0"}, "RANKSHIM_SPARES=2, but --job-restarts is not set"),
    ({"RANKSHIM_SPARES": "4"}, "and at least 2 nodes must train"),
    ({"RANKSHIM_LAUNCHER": "none", "RANKSHIM_LINK": "on"}, "a command that starts its workers itself knows its node"),
    ({"RANKSHIM_NNODES": "2:4", "RANKSHIM_NODE_RANK": "", "RANKSHIM_JOB_RESTARTS": "0", "RANKSHIM_LAUNCHER": "auto"},
     "only nodes that have their numbers"),
])
def test_where_spares_cannot_be_they_are_refused(pods, variables, why):
    process = pods.start(0, **variables)
    assert process.wait(30) == 78, process.transcript()
    assert why in process.stderr


def test_different_numbers_of_spares_are_refused(pods):
    all = [pods.start(index, RANKSHIM_SPARES="1" if index == 2 else "2") for index in range(5)]
    for process in all:
        assert process.wait(30) == 78, process.transcript()
        assert re.search(r"has --spares 1, node 0 \(job-node-0\) has 2", last_line(process).replace('"', ""))


# Says with which place it was started, and with which it runs.
TELLS = """
import json
import os
started = dict(entry.split("=", 1) for entry in open("/proc/self/environ").read().split("\\0") if "=" in entry)
print("UP", *[os.environ[name] for name in ("NODE_RANK", "NNODES", "RANK", "WORLD_SIZE", "RANKSHIM_ATTEMPT")], flush=True)
import named, sys, time
print("STARTED", started["RANK"], started["WORLD_SIZE"], "RANKSHIM_GATE" in started, named.RANK, flush=True)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.02)
"""
# In the place of torchrun, which says the same by its flags.
AGENT = """
import os
import sys
def told(words):
    place = dict(word[2:].split("=", 1) for word in words if word.startswith("--"))
    return [place["node_rank"], place["nnodes"]]
print("UP", *told(sys.argv) * 2, os.environ["RANKSHIM_ATTEMPT"], flush=True)
print("STARTED", *told(open("/proc/self/cmdline").read().split("\\0")), "RANKSHIM_GATE" in open("/proc/self/environ").read(), told(sys.argv)[0], flush=True)
import time
while not os.path.exists(sys.argv[-1]):
    time.sleep(0.02)
"""


@pytest.mark.parametrize("launcher", ["native", "torchrun"])
def test_a_spare_has_its_worker_or_agent_ready_which_learns_its_rank_when_it_gets_one(pods, tmp_path, launcher):
    pods.count = 4
    (tmp_path / "train.py").write_text(TELLS)
    (tmp_path / "named.py").write_text("import os\nRANK = os.environ.get('RANK')\n")
    (tmp_path / "torch" / "distributed").mkdir(parents=True)
    for name, text in {"__init__": "", "distributed/__init__": "", "distributed/run": AGENT}.items():
        (tmp_path / "torch" / f"{name}.py").write_text(text)
    command = [str(tmp_path / "train.py"), str(pods.go)]
    all = [pods.start(index, "--warm=auto,named", command=command, RANKSHIM_LAUNCHER=launcher, PYTHONPATH=str(tmp_path))
           for index in range(4)]
    for process in all[:3]:
        process.wait_line("STARTED", 60)
    until(lambda: pods.status(all[3]).get("prepared") == {"attempt": 1, "processes": 1, "ready": 1}, "what the spare prepares is ready")
    all[1].signal(signal.SIGKILL)
    all[3].wait_line("STARTED 3 4 True 1", 60)
    assert ranks(all[3]) == [(1, 3, 1, 3, 1)]
    pods.end_well([all[0], all[2], all[3]])


@pytest.mark.torch
def test_workers_that_communicate_continue_with_the_spare_in_the_drained_nodes_place(pods, torch):
    pods.train = 2  # at night three
    reduce(pods, "native", signal.SIGTERM, 1)


@pytest.mark.torch
@pytest.mark.nightly
@pytest.mark.parametrize(("launcher", "how"), [("native", signal.SIGKILL), ("torchrun", signal.SIGKILL), ("torchrun", signal.SIGTERM),
                                               ("native", None), ("torchrun", None)])
def test_so_it_is_under_torchrun_and_after_a_loss(pods, torch, launcher, how):
    reduce(pods, launcher, how, 1)


@pytest.mark.torch
@pytest.mark.nightly
@pytest.mark.parametrize("launcher", ["native", "torchrun"])
def test_a_node_whose_worker_fails_twice_is_put_aside_though_all_the_others_lose_their_peer(pods, torch, launcher):
    pods.count = 4
    raises = 'if os.uname().nodename == "job-node-1":\n    raise ValueError("a bad disk")\n'
    (pods.folder / "train.py").write_text(REDUCES.replace("attempt = int", raises + "attempt = int"))
    command = [str(pods.folder / "train.py"), str(pods.go)]
    all = [pods.start(index, command=command, RANKSHIM_LAUNCHER=launcher, OMP_NUM_THREADS="1", RANKSHIM_RESTART_PAUSE="0")
           for index in range(4)]
    for process in (all[0], all[2], all[3]):
        process.wait_line("SUM 2 6", IMPORTS)
    assert "node 3 (job-node-3) has rank 1 from now on; node 1 (job-node-1) was put aside" in all[0].stderr
    pods.end_well(all)
