"""Of the nodes that the platform gives, some wait (--spares) and take the place of a node that is lost or drained."""

import json
import re
import signal
import time

import pytest
from lib.events import until
from lib.process import last_line, shell

MASTER, PORT = "job-node-0", "29500"
LONG = 120
# Says who it is, and runs until the file `go` is there, which ends all well.
WAITS = "echo UP $NODE_RANK $NNODES $RANK $WORLD_SIZE $RANKSHIM_ATTEMPT; until [ -e {go} ]; do sleep 0.02; done"


@pytest.fixture
def pods(network, rankshim, tmp_path):
    """pods.start(INDEX, OPTION...): the rankshim of one of `pods.count` pods, of which 3 train."""

    class Pods:
        def __init__(self):
            self.count, self.go, self.dns, self.nodes = 5, tmp_path / "go", network.dns(), {}

        def script(self):
            return shell(WAITS.format(go=self.go))

        def start(self, index, *options, command=None, **variables):
            node = self.nodes.get(index) or self.nodes.setdefault(index, network.node(f"job-node-{index}"))
            if index == 0:
                self.dns.publish(MASTER, node)
            report = tmp_path / f"{index}.json"
            environment = {"RANKSHIM_NODE_RANK": str(index), "RANKSHIM_NNODES": str(self.count), "RANKSHIM_NPROC_PER_NODE": "1",
                           "RANKSHIM_MASTER_ADDR": MASTER, "RANKSHIM_MASTER_PORT": PORT, "RANKSHIM_LAUNCHER": "native",
                           "RANKSHIM_JOB_RESTARTS": "2", "RANKSHIM_SPARES": str(self.count - 3), "RANKSHIM_REPORT": str(report),
                           **variables}
            process = node.start([rankshim, *options, "--", *(command or self.script())], environment)
            process.report = lambda: json.loads(report.read_text())
            return process

        def start_all(self, *options, **how):
            all = [self.start(index, *options, **how) for index in range(self.count)]
            for process in all[:3]:
                process.wait_line("UP", 30)
            for process in all[3:]:
                process.wait_line("waits as a spare", 30)
            return all

        def end_well(self, processes):
            self.go.touch()
            for process in processes:
                assert process.wait(LONG) == 0, process.transcript()

    return Pods()


def ranks(process):
    """[(NODE_RANK, NNODES, RANK, WORLD_SIZE, ATTEMPT)] of the commands that a pod started."""
    return [tuple(map(int, line.split()[1:])) for line in process.stdout.splitlines() if line.startswith("UP")]


def taken(spares, place, attempt):
    """The spare that has rank `place` in this attempt: the first of them that came to the meeting."""
    def found():
        return [process for process in spares if (place, 3, place, 3, attempt) in ranks(process)]

    until(found, f"a spare has rank {place}")
    return found()[0]


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
    pods.end_well([all[index] for index in (0, 2, 3, 4)])
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


def test_when_all_pods_are_deleted_all_end(pods):
    all = pods.start_all()
    for process in all:
        process.signal(signal.SIGTERM)
    codes = [process.wait(60) for process in all]
    assert set(codes) <= {143, 76}, [process.transcript() for process in all]
    assert codes[0] == 143


def test_a_spare_that_is_lost_ends_nobody_and_one_that_comes_late_is_a_spare(pods):
    all = pods.start_all()
    for index in (3, 4):
        all[index].signal(signal.SIGKILL)
        all[index].wait(20)
    all[4] = pods.start(4)
    all[4].wait_line("waits as a spare", 30)
    all[2].signal(signal.SIGKILL)
    all[4].wait_line("UP 2 3 2 3 1", 30)
    pods.end_well([all[index] for index in (0, 1, 4)])


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


def test_a_hub_that_is_lost_is_waited_for_by_spares_too(pods):
    pods.count = 4
    all = pods.start_all()
    all[0].signal(signal.SIGKILL)
    all[0].wait(20)
    all[0] = pods.start(0)
    for process in all[:3]:
        process.wait_line("UP . 3 . 3 1", 30)
    pods.end_well(all)


@pytest.mark.parametrize(("variables", "why"), [
    ({"RANKSHIM_JOB_RESTARTS": "0"}, "RANKSHIM_SPARES=2, but --job-restarts is not set"),
    ({"RANKSHIM_SPARES": "4"}, "and at least 2 nodes must train"),
    ({"RANKSHIM_LAUNCHER": "none", "RANKSHIM_LINK": "on"}, "the command names its nodes itself"),
    ({"RANKSHIM_NNODES": "2:4", "RANKSHIM_NODE_RANK": "", "RANKSHIM_JOB_RESTARTS": "0"}, "only nodes that have their numbers"),
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


REDUCES = """
import os, torch, torch.distributed as dist
dist.init_process_group("gloo")
attempt = int(os.environ["RANKSHIM_ATTEMPT"])
while True:
    value = torch.ones(1) * (dist.get_rank() + 1)
    dist.all_reduce(value)
    print("SUM", attempt, int(value), flush=True)
    if attempt == 1:
        break
"""


@pytest.mark.torch
@pytest.mark.nightly
@pytest.mark.parametrize("launcher", ["native", "torchrun"])
def test_workers_that_communicate_continue_with_the_spare_in_the_lost_nodes_place(pods, tmp_path, torch, launcher):
    pods.count = 4
    (tmp_path / "train.py").write_text(REDUCES)
    all = [pods.start(index, command=[str(tmp_path / "train.py")], RANKSHIM_LAUNCHER=launcher, OMP_NUM_THREADS="1") for index in range(4)]
    for process in all[:3]:
        process.wait_line("SUM 0 6", LONG)
    all[1].signal(signal.SIGKILL)
    for process in (all[0], all[2], all[3]):
        process.wait_line("SUM 1 6", LONG)
    for process in (all[0], all[2], all[3]):
        assert process.wait(LONG) == 0, process.transcript()
