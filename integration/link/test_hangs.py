"""Who hangs: real gloo on three nodes, looked at when torch's own timeout fires, and by rankshim's own time."""

import re

import pytest
from lib.process import last_line

LONG = 120

# All-reduces in an inner loop, until something happens to rank 1; G: to rank 0.
TRAINS = """\
import ctypes, datetime, os, re, signal, sys, time, torch, torch.distributed as dist

rank, fault, limit = int(os.environ["RANK"]), sys.argv[1], datetime.timedelta(seconds=float(sys.argv[2]))
torch.set_num_threads(1)
dist.init_process_group("gloo", timeout=limit)
pair = dist.new_group([0, 1], timeout=limit)
other_pair = dist.new_group([0, 1], timeout=limit)

class Data(torch.utils.data.IterableDataset):
    def __iter__(self):
        for number in range(1000):
            if number == 60 and rank == 1:
                time.sleep(1000)  # in the loader's process
            yield torch.ones(1)

def load_batch():
    return next(batches)

def validate():
    time.sleep(1000)

batches = iter(torch.utils.data.DataLoader(Data(), num_workers=1 if fault == "loads" else 0, batch_size=None)) if fault == "loads" else iter(torch.ones(1000, 1))
for step in range(1000):
    batch = load_batch()
    time.sleep(0.1)
    if step == 59 and rank == 0:
        print("HANGS NOW", flush=True)
    if step == 60:
        if rank == 1 and fault == "sleeps":
            time.sleep(1000)  # here
        if rank == 1 and fault == "is stopped":
            os.kill(os.getpid(), signal.SIGSTOP)  # stopped
        if rank == 1 and fault == "holds the GIL":
            ends = os.pipe()
            ctypes.PyDLL(None).read(ends[0], ctypes.create_string_buffer(8), 8)  # blocks
        if rank == 1 and fault == "searches":
            re.match(r"(a+)+$", "a" * 64 + "b")  # never ends
        if rank == 1 and fault == "broadcasts":
            dist.broadcast(batch, 0)  # differs
            continue
        if rank == 0 and fault == "validates":
            validate()
        if fault == "waits in a circle" and rank < 2:
            for group in (pair, other_pair) if rank == 0 else (other_pair, pair):
                dist.all_reduce(batch, group=group)  # in another order
    dist.all_reduce(batch)
"""

FAULTS = [
    ("sleeps", r"rank 1 (is|was) in train.py:\d+, in the kernel's \S+; {others}", 1),
    ("loads", r"rank 1 (is|was) in load_batch \(train.py:\d+\), which called __next__.*above \S+ \(pid \d+\), which is in __iter__ \(train.py:\d+\).*; {others}", 1),
    ("is stopped", r"rank 1 (is|was) stopped by a signal or a debugger, in train.py:\d+; {others}", 1),
    ("holds the GIL", r"rank 1 (is|was) in train.py:\d+, in a C call that holds the GIL, in the kernel's \S+; {others}", 1),
    ("searches", r"rank 1 (is|was) in train.py:\d+, which called match, in a C call that holds the GIL.*; {others}", 1),
    ("validates", r"rank 0 (is|was) in validate \(train.py:\d+\), in the kernel's \S+; {others}", 0),
]


def rarely(rows, often):
    """The rows as parameters; those that do not begin with one of `often` run at night."""
    return [pytest.param(*row, marks=[] if row[0] in often else pytest.mark.nightly) for row in rows]


def train(start, tmp_path, fault, limit, *options, **variables):
    script = tmp_path / "train.py"
    script.write_text(TRAINS)
    return [start(rank, [str(script), fault, str(limit)], "--grace=3s", *options, **variables) for rank in range(3)]


@pytest.mark.torch
@pytest.mark.parametrize(("fault", "says", "culprit", "launcher"), [
    *rarely([(*row, "native") for row in FAULTS], ["loads"]),
    *rarely([(*row, "torchrun") for row in FAULTS], ["is stopped"]),
])
def test_when_torchs_timeout_fires_the_rank_that_hangs_is_named_with_its_line(start, tmp_path, torch, fault, says, culprit, launcher):
    nodes = train(start, tmp_path, fault, 6, RANKSHIM_LAUNCHER=launcher)
    codes = [node.wait(LONG) for node in nodes]
    assert codes == [124 if rank == culprit else 76 for rank in range(3)], [node.transcript() for node in nodes]
    says = says.replace("{others}", r"ranks \d[- and]+2 waited in all_reduce \(train.py:\d+\) until their timeout of 6.0 s")
    for node in nodes:
        assert re.search(rf"node {culprit} \(job-node-{culprit}\) hung: {says}", last_line(node)), node.transcript()
        assert "[R42]" in last_line(node)
        assert node.report()["hang"]["kind"] in ("missing", "stopped")


@pytest.mark.torch
@pytest.mark.parametrize(("fault", "says", "code"), rarely([
    *((fault, rf"node {culprit} \(job-node-{culprit}\) hung: {says}", "R42") for fault, says, culprit in FAULTS),
    ("broadcasts", r"the ranks' collectives do not match \(number \d+ of default_pg\): rank 1 is in broadcast \(train.py:\d+\), and ranks 0 and 2 in all_reduce \(train.py:\d+\)", "R43"),
    ("waits in a circle", r"the job hung: ranks 0-1 waited for \S+ s for each other in a circle, so the order of their collectives differs", "R43"),
], ["sleeps", "waits in a circle"]))
def test_hang_timeout_ends_a_job_whose_collectives_no_longer_end(start, tmp_path, torch, fault, says, code):
    nodes = train(start, tmp_path, fault, 1800, "--hang-timeout=5s")
    codes = [node.wait(LONG) for node in nodes]
    assert set(codes) <= {76, 124} and 124 in codes, [node.transcript() for node in nodes]
    says = says.replace("{others}", r"ranks \d[- and]+2 waited in all_reduce \(train.py:\d+\) for \S+ s")
    for node in nodes:
        assert re.search(says, last_line(node)) and f"[{code}]" in last_line(node), node.transcript()
    assert "rankshim: rank" in nodes[0].stderr  # the stacks
    assert {len(group["stack"]) > 0 for group in nodes[0].report()["hang"]["groups"]} == {True}


EVALUATES = """\
import os, time, torch, torch.distributed as dist

rank = int(os.environ["RANK"])
dist.init_process_group("gloo")
for step in range(300):
    time.sleep(0.1)
    if step == 100 and rank == 0:
        while not os.path.exists(os.environ["GOES_ON"]):
            time.sleep(0.01)  # evaluates
    dist.all_reduce(torch.ones(1))
"""


@pytest.mark.torch
def test_a_long_evaluation_is_a_warning_and_a_line_when_the_job_goes_on(start, tmp_path, torch):
    script, goes_on = tmp_path / "train.py", tmp_path / "goes_on"
    script.write_text(EVALUATES)
    nodes = [start(rank, [str(script)], "--hang-notice=4s", GOES_ON=str(goes_on)) for rank in range(3)]
    notice = nodes[0].wait_line("no collective has ended for", LONG)
    assert re.search(r"ranks 1-2 wait in all_reduce \(train.py:\d+\) for rank 0 on node 0 \(job-node-0\).*train.py:\d+", notice.text), notice.text
    goes_on.touch()
    nodes[0].wait_line("collectives continue after", LONG)
    assert [node.wait(LONG) for node in nodes] == [0, 0, 0], [node.transcript() for node in nodes]
    assert nodes[0].stderr.count("no collective has ended for") <= 2  # after 4 s, and after 8
    assert all("no collective" not in node.stderr for node in nodes[1:])


ALONE = """\
import os, sys, time, torch, torch.distributed as dist

dist.init_process_group("gloo", init_method="file://" + sys.argv[1] + os.environ["RANK"], rank=0, world_size=1)
while not os.path.exists(sys.argv[2]):
    dist.all_reduce(torch.ones(1))
    time.sleep(0.05)
"""


@pytest.mark.torch
def test_a_process_group_of_one_in_a_job_of_two_nodes_is_a_warning(start, tmp_path, torch):
    script, over = tmp_path / "train.py", tmp_path / "over"
    script.write_text(ALONE)
    nodes = [start(rank, [str(script), f"{tmp_path}/init", str(over)], "--hang-notice=2s", nodes=2) for rank in range(2)]
    for node in nodes:
        node.wait_line("this node trains alone: the default process group of rank", LONG)
    over.touch()
    assert [node.wait(LONG) for node in nodes] == [0, 0]
    assert all("trained alone (a process group of 1 in a job of 2 nodes)" in last_line(node) for node in nodes)
