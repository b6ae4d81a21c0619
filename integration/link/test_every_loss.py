"""All that can happen to the nodes of a job with spares, under native and torchrun, with workers that communicate and silent ones,
with and without --warm. Of native workers that are silent, and not Python, test_spares.py and test_successor.py tell."""

import signal

import pytest

from lib.events import until
from link.pods import IMPORTS, QUICK, assert_each_rank_once, kill, ranks, told

# A worker says who it is, and whether it or its torchrun was started early. It ends well once the file `go` is there. On the node
# BAD it fails.
SAYS = """
import os, sys, time

def says():
    names = ("NODE_RANK", "NNODES", "RANK", "WORLD_SIZE", "RANKSHIM_ATTEMPT", "MASTER_ADDR")
    early = any("RANKSHIM_GATE" in open(f"/proc/{pid}/environ").read() for pid in ("self", os.getppid()))
    print("UP", *(os.environ[name] for name in names), "early" if early else "late", flush=True)
    if os.uname().nodename == os.environ.get("BAD"):
        raise ValueError("a bad disk")

def may_end():
    return os.path.exists(sys.argv[1])

"""
SILENT = SAYS + """
says()
while not may_end():
    time.sleep(0.02)
"""
# The same, once the ranks have counted themselves, which they then do again and again.
COUNTS = SAYS.replace("sys, time", "sys, torch, torch.distributed as dist") + """
dist.init_process_group("gloo")
count = torch.zeros(2)
while count[1] < dist.get_world_size():
    is_first = count[0] == 0
    count = torch.tensor([1.0, float(may_end())])
    dist.all_reduce(count)
    assert count[0] == dist.get_world_size()
    if is_first:
        says()
"""


class Job:
    """`pods.count` nodes, of which three train: job.processes, by index."""

    def __init__(self, pods, launcher, script, warm, *options):
        self.pods, self.is_warm, self.processes, self.ended = pods, warm == "auto", {}, []
        (pods.folder / "train.py").write_text(script)
        self.options = [f"--warm={warm}", *options]
        self.how = {"command": [str(pods.folder / "train.py"), str(pods.go)], "RANKSHIM_LAUNCHER": launcher, "OMP_NUM_THREADS": "1",
                    "RANKSHIM_JOB_RESTARTS": "9", "RANKSHIM_RESTART_PAUSE": "0"}

    def start(self, *indices, **variables):
        for index in indices:
            if index in self.processes:
                self.ended.append(self.processes[index])
            self.processes[index] = self.pods.start(index, *self.options, **self.how, **variables)

    def begin(self):
        self.start(*range(self.pods.count))
        return self.run(0)

    def running(self):
        return [process for process in self.processes.values() if process.popen.poll() is None]

    def wait_as_spare(self, index):
        self.processes[index].wait_line("waits as a spare", IMPORTS)

    def run(self, attempt):
        """The nodes by rank, once all of the attempt run and, if they are warm, the next one is prepared on all nodes."""
        run = self.pods.all_run(self.running(), attempt, IMPORTS)
        ready = {"attempt": attempt + 1, "processes": 1, "ready": 1}
        for process in self.running() if self.is_warm else []:
            until(lambda: self.pods.status(process).get("prepared") == ready, f"{process.name} has prepared the next attempt", IMPORTS)
        return run

    def go_on(self, attempt=1):
        """The same; what was prepared for this attempt runs in it."""
        run = self.run(attempt)
        starts = {words[6] for process in run for words in told(process) if words[4] == str(attempt)}
        assert starts == {"early" if self.is_warm else "late"}
        return run

    def end_well(self):
        self.pods.end_well(self.running())
        assert_each_rank_once([*self.processes.values(), *self.ended])


def is_killed(job, index):
    job.begin()
    kill(job.processes[index])
    job.go_on()


def is_cut_off(job, index):
    job.begin()
    job.pods.nodes[index].namespace.ip("link", "set", "eth0", "down")
    job.ended.append(job.processes.pop(index))
    job.go_on()


def is_drained(job, index):
    job.begin()
    job.processes[index].signal(signal.SIGTERM)
    assert job.processes[index].wait(IMPORTS) == 143, job.processes[index].transcript()
    job.go_on()


def fails_twice(job, index):
    job.start(*range(4), BAD=f"job-node-{index}")
    assert job.run(2)[index] is job.processes[3]
    assert f"node 3 (job-node-3) has rank {index} from now on; node {index} (job-node-{index}) was put aside" in job.processes[0].stderr


def comes_back_with_another_address(job, index):
    is_killed(job, index)
    job.pods.move(index)
    job.start(index)
    job.wait_as_spare(index)
    job.run(1)
    kill(job.processes[2])
    assert job.go_on(2)[2] is job.processes[index]


def is_killed_and_so_is_its_successor(job, index):
    job.begin()
    kill(job.processes[index], job.processes[index + 1])
    job.go_on()


def comes_and_takes_over(job, index):
    """The node comes while the others train, and gets the place of node 1."""
    job.start(index)
    job.wait_as_spare(index)
    job.run(0)
    kill(job.processes[1])
    job.go_on()


def dies(job, index):
    job.begin()
    kill(job.processes[index])
    comes_and_takes_over(job, index)


def comes_late(job, index):
    job.start(*range(index))
    job.run(0)
    comes_and_takes_over(job, index)


def comes_last(job, index):
    job.start(*range(index))
    job.processes[0].wait_line("enough nodes are here to start soon", IMPORTS)
    assert not any(ranks(process) for process in job.running())
    comes_and_takes_over(job, index)


def are_deleted(job, count):
    job.begin()
    for process in job.processes.values():
        process.signal(signal.SIGTERM)
    codes = {process.wait(IMPORTS) for process in job.processes.values()}
    assert 143 in codes and codes <= {143, 76}, [process.transcript() for process in job.processes.values()]
    assert {one[-1] for process in job.processes.values() for one in ranks(process)} == {0}


# What happens to which node; with all, how many there are.
HAPPENS = {
    "a node is killed": (is_killed, 1),
    "a node is cut off": (is_cut_off, 1),
    "a node is drained": (is_drained, 1),
    "a node fails twice": (fails_twice, 1),
    "node 0 is killed": (is_killed, 0),
    "node 0 is cut off": (is_cut_off, 0),
    "node 0 is drained": (is_drained, 0),
    "node 0 comes back with another address": (comes_back_with_another_address, 0),
    "node 0 and its successor are killed": (is_killed_and_so_is_its_successor, 0),
    "a spare dies": (dies, 3),
    "a spare comes late": (comes_late, 3),
    "a spare comes last": (comes_last, 3),
    "all are deleted": (are_deleted, 4),
}
WAYS = {
    "native, gloo, warm": ("native", COUNTS, "auto"),
    "torchrun, gloo, warm": ("torchrun", COUNTS, "auto"),
    "torchrun, gloo, not warm": ("torchrun", COUNTS, "off"),
    "torchrun, silent, warm": ("torchrun", SILENT, "auto"),
}


@pytest.mark.torch
@pytest.mark.nightly
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("what", HAPPENS)
def test_whatever_happens_the_others_go_on_or_all_end(pods, torch, what, way):
    happens, index = HAPPENS[what]
    pods.count = 5 if happens is is_killed_and_so_is_its_successor else 4
    job = Job(pods, *WAYS[way], *(QUICK if happens is is_cut_off else ()))
    happens(job, index)
    job.end_well()
