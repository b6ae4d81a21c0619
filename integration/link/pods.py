"""The pods of a job with spares (--spares): some of them train, and the others wait."""

import collections
import contextlib
import ctypes
import itertools
import json
import os
import pathlib
import re
import signal
import subprocess
import time

from lib.events import until
from lib.process import shell

MASTER, PORT = "job-node-0", "29500"
LONG = 120
# A node that is silent is lost after these and 10 s; its part of the job waits until the last of these is over.
QUICK = ("--link-timeout=3s", "--grace=2s", "--wait-timeout=20s")
IMPORTS = 300  # torch, on all nodes and twice, on a busy machine
# Says who it is, and runs until the file `go` is there, which ends all well.
WAITS = "echo UP $NODE_RANK $NNODES $RANK $WORLD_SIZE $RANKSHIM_ATTEMPT $MASTER_ADDR; until [ -e {go} ]; do sleep 0.02; done"
# The same, but it does not listen to SIGTERM, and says all the time that it runs, with the machine's time.
BEATS = WAITS.replace("; until", "; trap '' TERM; until").replace("sleep 0.02", "read now rest </proc/uptime; echo BEAT $now; sleep 0.1")
# Each attempt ends well once the file `go` is there; until then the ranks add up their numbers. A worker says whether it, or
# its torchrun, was started early.
REDUCES = """
import os, sys, torch, torch.distributed as dist
dist.init_process_group("gloo")
attempt = int(os.environ["RANKSHIM_ATTEMPT"])
early = any("RANKSHIM_GATE" in open(f"/proc/{pid}/environ").read() for pid in ("self", os.getppid()))
said = False
while True:
    value = torch.tensor([dist.get_rank() + 1.0, float(os.path.exists(sys.argv[1]))])
    dist.all_reduce(value)
    if not said:
        print("SUM", attempt, int(value[0]), "early" if early else "", flush=True)
        said = True
    if value[1] == dist.get_world_size():
        break
"""


class Pods:
    """pods.start(INDEX, OPTION...): the rankshim of one of `pods.count` pods, of which `pods.train` train."""

    def __init__(self, network, rankshim, folder):
        self.count, self.train, self.go, self.dns, self.nodes = 5, 3, folder / "go", network.dns(), {}
        self.network, self.rankshim, self.folder = network, rankshim, folder

    def script(self, text=WAITS):
        return shell(text.format(go=self.go))

    def node(self, index):
        """Where this pod is: made when it is asked for first."""
        return self.nodes.get(index) or self.nodes.setdefault(index, self.network.node(f"job-node-{index}"))

    def move(self, index):
        """The pod's next container has another address."""
        self.nodes[index] = self.network.node(f"job-node-{index}")

    def start(self, index, *options, command=None, **variables):
        node = self.node(index)
        if index == 0:
            self.dns.publish(MASTER, node)
        report = self.folder / f"{index}.json"
        environment = {"RANKSHIM_NODE_RANK": str(index), "RANKSHIM_NNODES": str(self.count), "RANKSHIM_NPROC_PER_NODE": "1",
                       "RANKSHIM_MASTER_ADDR": MASTER, "RANKSHIM_MASTER_PORT": PORT, "RANKSHIM_LAUNCHER": "native",
                       "RANKSHIM_JOB_RESTARTS": "2", "RANKSHIM_SPARES": str(self.count - self.train), "RANKSHIM_REPORT": str(report),
                       **variables}
        process = node.start([self.rankshim, *options, "--", *(command or self.script())], environment)
        process.report = lambda: json.loads(report.read_text())
        return process

    def start_all(self, *options, **how):
        all = [self.start(index, *options, **how) for index in range(self.count)]
        for process in all[:self.train]:
            process.wait_line("UP", 30)
        for process in all[self.train:]:
            process.wait_line("waits as a spare", 30)
        return all

    def status(self, process, *options):
        argv = ["nsenter", "--pid", "--mount", f"--target={process.init}", self.rankshim, "status", *options]
        return json.loads(subprocess.run(argv, capture_output=True, check=True).stdout)

    def hub(self, processes):
        """The one of these nodes that keeps the roster."""
        (hub,) = [process for process in processes if self.status(process).get("nodes")]
        return hub

    def all_run(self, processes, attempt, timeout=LONG):
        """[process of rank 0, of rank 1, ...] once the whole attempt runs on these nodes."""
        def found():
            return {rank: process for process in processes for _, _, rank, _, one in ranks(process) if one == attempt}

        until(lambda: len(found()) == self.train, f"attempt {attempt} runs on all nodes that train", timeout)
        return [process for _, process in sorted(found().items())]

    def end_well(self, processes):
        self.go.touch()
        for process in processes:
            assert process.wait(LONG) == 0, process.transcript()


def kill(*processes):
    """Ends the containers, all at one moment; when that was."""
    for process in processes:
        process.signal(signal.SIGKILL)
    killed = time.monotonic()
    for process in processes:
        process.wait(30)
    return killed


PTRACE_CONT, PTRACE_SEIZE, PTRACE_O_TRACEEXIT, WALL = 7, 0x4206, 0x40, 0x40000000  # linux/ptrace.h, linux/wait.h


@contextlib.contextmanager
def hangs_when_killed(pid):
    """The process does not get further than the beginning of its end, with all its descriptors open, as one may whose driver gives
    back an accelerator's memory."""
    libc = ctypes.CDLL(None, use_errno=True)

    def ptrace(request, data):
        if libc.ptrace(request, pid, None, ctypes.c_void_p(data)) != 0:
            raise OSError(ctypes.get_errno(), f"ptrace {request:#x}")

    ptrace(PTRACE_SEIZE, PTRACE_O_TRACEEXIT)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGKILL)
        while os.WIFSTOPPED(os.waitpid(pid, WALL)[1]):
            ptrace(PTRACE_CONT, 0)


def told(process):
    """What a pod's commands said of themselves: [[NODE_RANK, NNODES, RANK, WORLD_SIZE, ATTEMPT, MASTER_ADDR]]."""
    return [line.split()[1:] for line in process.stdout.splitlines() if line.startswith("UP")]


def ranks(process):
    """[(NODE_RANK, NNODES, RANK, WORLD_SIZE, ATTEMPT)] of the commands that a pod started."""
    return [tuple(map(int, words[:5])) for words in told(process)]


def started_at(process, attempt):
    """When a pod's command of this attempt said its first word."""
    return next(line.at for line in process.lines if line.text.startswith("UP") and int(line.text.split()[5]) == attempt)


def taken(spares, place, attempt):
    """The spare that has rank `place` in this attempt: the first of them that came to the meeting."""
    def found():
        return [process for process in spares if (place, 3, place, 3, attempt) in ranks(process)]

    until(found, f"a spare has rank {place}")
    return found()[0]


def places(processes):
    """What each of the nodes was told when they last met: its rank, or "spare"; None: nothing yet."""
    told = [re.findall(r"nodes train, and this one (?:has rank (\d+)|waits as a (spare))", process.stderr) for process in processes]
    return [lines[-1][0] or lines[-1][1] if lines else None for lines in told]


def settled(processes):
    """Whether all five are there, and three of them run the same attempt, the last."""
    now = places(processes)
    train = [process for process, place in zip(processes, now, strict=True) if place not in (None, "spare") and ranks(process)]
    last = {ranks(process)[-1][2:] for process in train}
    attempt = max((one[-1] for one in last), default=None)
    return sorted(map(str, now)) == ["0", "1", "2", "spare", "spare"] and last == {(rank, 3, attempt) for rank in range(3)}


def assert_each_rank_once(processes):
    """No two commands of all these containers had the same rank in the same attempt."""
    seen = collections.Counter((attempt, rank) for process in processes for _, _, rank, _, attempt in ranks(process))
    assert set(seen.values()) == {1}, seen
    return max(seen)[0]


def assert_one_attempt_at_a_time(processes):
    """No command that BEATS was alive once one of a later attempt had begun, on whatever node."""
    beats = collections.defaultdict(list)
    for process in processes:
        for line in process.stdout.splitlines():
            word, *rest = line.split()
            if word == "UP":
                attempt = int(rest[4])
            elif word == "BEAT":
                beats[attempt].append((float(rest[0]), process.name))
    order = sorted(beats)
    for before, after in itertools.pairwise(order):
        last, first = max(beats[before]), min(beats[after])
        assert last < first, f"attempt {before} still ran {last[0] - first[0]:.2f} s later ({last[1]}) than {after} began ({first[1]})"


def private_memory(process):
    """The kilobytes that only the node's rankshim has."""
    rollup = pathlib.Path(f"/proc/{process.init}/smaps_rollup").read_text()
    return sum(int(number) for number in re.findall(r"Private_\w+: *(\d+) kB", rollup))


def held_by(process):
    """How many descriptors a node's rankshim has, and on how many ports its network listens."""
    descriptors = len(list(pathlib.Path(f"/proc/{process.init}/fd").iterdir()))
    return descriptors, len(listening(process))


def listening(process):
    """The ports on which a node's network listens."""
    lines = [line.split() for name in ("tcp", "tcp6") for line in pathlib.Path(f"/proc/{process.init}/net/{name}").read_text().splitlines()]
    return [int(words[1].split(":")[1], 16) for words in lines if words[3] == "0A"]


def reduce(pods, launcher, how, lost, warm=False):
    """Node `lost` of those that train gets the signal `how`, or is cut off (None), and the spare takes its place. `warm`: all go on
    with what they have prepared."""
    pods.count, total = pods.train + 1, pods.train * (pods.train + 1) // 2
    (pods.folder / "train.py").write_text(REDUCES)
    command = [str(pods.folder / "train.py"), str(pods.go)]
    options = [*(["--warm=auto"] if warm else []), *([] if how else QUICK)]
    all = [pods.start(index, *options, command=command, RANKSHIM_LAUNCHER=launcher, OMP_NUM_THREADS="1") for index in range(pods.count)]
    for process in all[:pods.train]:
        process.wait_line(f"SUM 0 {total}", IMPORTS)
    others = all[:lost] + all[lost + 1:]
    if warm:
        for process in others:
            ready = {"attempt": 1, "processes": 1, "ready": 1}
            until(lambda: pods.status(process).get("prepared") == ready, "the next attempt is prepared", IMPORTS)
    if how:
        all[lost].signal(how)
    else:
        pods.nodes[lost].namespace.ip("link", "set", "eth0", "down")
    began = time.monotonic()
    for process in others:
        process.wait_line(f"SUM 1 {total} early$" if warm else f"SUM 1 {total}", IMPORTS)
    print(f"{launcher}, {how.name if how else 'no network'} for node {lost}: the first all_reduce after {time.monotonic() - began:.2f} s")
    if how == signal.SIGTERM:
        assert all[lost].wait(IMPORTS) == 143, all[lost].transcript()
    pods.end_well(others)
