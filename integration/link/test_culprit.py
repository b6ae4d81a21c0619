"""Who is to blame where every failure is a victim's: real gloo on three nodes, and the evidence of all of them."""

import os
import pathlib
import re
import signal

import pytest
from lib.process import last_line, shell
from lib.requirements import cannot

LONG = 120

# All-reduces until something happens to rank 1. The group's timeout is short: torch's own is half an hour.
TRAINS = """\
import atexit, datetime, os, signal, sys, time, torch, torch.distributed as dist

rank, fault = int(os.environ["RANK"]), sys.argv[1]
limit = datetime.timedelta(seconds=6)
dist.init_process_group("gloo")
group = dist.new_group(timeout=limit)

class Data(torch.utils.data.IterableDataset):
    def __iter__(self):
        yield torch.ones(1)
        time.sleep(1000 if rank == 1 else 0)
        yield torch.ones(1)

batches = iter(torch.utils.data.DataLoader(Data(), num_workers=1, batch_size=None)) if fault == "loads" else iter(torch.ones(2, 1))
for step in range(2):
    batch = next(batches)
    if step == 1 and rank == 1:
        if fault == "sleeps" or fault == "misses a barrier":
            time.sleep(1000)
        if fault == "is stopped":
            os.kill(os.getpid(), signal.SIGSTOP)
        if fault == "is frozen":
            with open(sys.argv[2] + "/cgroup.procs", "w") as processes:
                processes.write("0")
            with open(sys.argv[2] + "/cgroup.freeze", "w") as freeze:
                freeze.write("1")
        if fault == "raises late":
            while not os.path.exists(sys.argv[2]):
                time.sleep(0.05)
            raise ValueError("the loss is nan")
        if fault == "exits early":
            os._exit(0)
        if fault == "differs":
            batch = torch.ones(7)
        if fault == "raises":
            raise ValueError("the loss is nan")
    if step == 1 and fault == "leaves slowly" and rank == 3:
        # The others lose it, and the worker beside it has ended before it.
        atexit.register(lambda: (dist.destroy_process_group(), time.sleep(1000)))
        raise ValueError("the loss is nan")
    if step == 1 and fault == "both raise" and rank != 0:
        raise ValueError(f"the loss of {rank} is nan")
    if step == 1 and fault == "is drained":
        print("WAITS", flush=True)
        while True:
            dist.all_reduce(batch)
    if step == 1 and fault == "misses a barrier":
        dist.monitored_barrier(group, timeout=limit)
    dist.all_reduce(batch, group=group)
    print("STEP", step, flush=True)
"""

WAITED = r"rank 1 (is|was) .*train.py:\d+.*; ranks 0 and 2 waited in .*train.py:\d+"
LEFT = r"rank 1 exited 0 after \S+ s while (rank 0|rank 2|ranks 0 and 2) .*waited.*: it ran fewer iterations"


@pytest.fixture
def freezer():
    """A control group (v2) whose processes can be frozen, though KILL ends them."""
    mount = next((pathlib.Path(line.split()[1]) for line in pathlib.Path("/proc/mounts").read_text().splitlines()
                  if line.split()[2] == "cgroup2"), None)
    if mount is None:
        cannot("no cgroup v2 is mounted")
    group = mount / f"rankshim-{os.getpid()}"
    group.mkdir()
    yield group
    group.rmdir()


@pytest.mark.torch
@pytest.mark.parametrize(("fault", "says", "codes"), [
    # By day test_hangs.py has a hang that torch's timeout ends.
    pytest.param("sleeps", f"node 1 (job-node-1) hung: {WAITED}", [76, 124, 76], marks=pytest.mark.nightly),
    pytest.param("is stopped", f"node 1 (job-node-1) hung: {WAITED}", [76, 124, 76], marks=pytest.mark.nightly),
    ("exits early", f"node 1 (job-node-1) exited early: {LEFT}", [76, 76, 76]),
    pytest.param("is frozen", f"node 1 (job-node-1) hung: {WAITED}", [76, 124, 76], marks=pytest.mark.nightly),
    pytest.param("loads", f"node 1 (job-node-1) hung: {WAITED}", [76, 124, 76], marks=pytest.mark.nightly),
    pytest.param("misses a barrier", f"node 1 (job-node-1) hung: {WAITED}", [76, 124, 76], marks=pytest.mark.nightly),
])
def test_the_node_that_all_others_waited_for_is_the_one_that_is_named(start, tmp_path, torch, freezer, fault, says, codes):
    script = tmp_path / "train.py"
    script.write_text(TRAINS)
    nodes = [start(rank, [str(script), fault, str(freezer)], "--grace=3s") for rank in range(3)]
    for node in nodes:
        node.wait_line("STEP 0", LONG, stream="stdout")
    assert [node.wait(LONG) for node in nodes] == codes, [node.transcript() for node in nodes]
    before, _, after = says.partition("(job-node-1) ")
    for node in nodes:
        assert re.search(re.escape(before + "(job-node-1) ") + after, last_line(node)), node.transcript()
        assert node.report()["root_cause"]["node_rank"] == 1


def codes_and_lines(nodes):
    return [node.wait(LONG) for node in nodes], [last_line(node) for node in nodes]


@pytest.mark.torch
@pytest.mark.nightly  # by day test_readme.py compares the last lines of three nodes
def test_two_last_lines_never_point_at_each_other(start, tmp_path, torch):
    script = tmp_path / "train.py"
    script.write_text(TRAINS)
    codes, lines = codes_and_lines([start(rank, [str(script), "raises"], "--grace=3s", nodes=2) for rank in range(2)])
    assert codes == [76, 1], lines
    assert "node 1 (job-node-1) failed: rank 1 " in lines[0] and "ValueError: the loss is nan" in lines[0]
    assert "ValueError: the loss is nan" in lines[1] and "node 0" not in lines[1]


@pytest.mark.torch
@pytest.mark.nightly
@pytest.mark.parametrize("launcher", ["native", "torchrun"])
def test_a_victim_that_ends_before_its_culprit_of_the_same_node_does_not_hide_it(start, tmp_path, torch, launcher):
    script = tmp_path / "train.py"
    script.write_text(TRAINS)
    two = {"RANKSHIM_NPROC_PER_NODE": "2", "RANKSHIM_LAUNCHER": launcher}
    nodes = [start(rank, [str(script), "leaves slowly"], "--grace=3s", nodes=2, **two) for rank in range(2)]
    codes = [node.wait(LONG) for node in nodes]
    assert codes[0] == 76 and codes[1] not in (0, 76), [node.transcript() for node in nodes]
    for node in nodes:
        assert re.search(r"rank 3 .*ValueError: the loss is nan", last_line(node)), node.transcript()


@pytest.mark.torch
@pytest.mark.nightly
def test_of_two_failures_all_nodes_name_the_same_one(start, tmp_path, torch):
    script = tmp_path / "train.py"
    script.write_text(TRAINS)
    codes, lines = codes_and_lines([start(rank, [str(script), "both raise"], "--grace=3s") for rank in range(3)])
    first = 1 if codes[1] == 1 else 2
    assert codes == [76, 1, 76] if first == 1 else [76, 76, 1], lines
    for rank, line in enumerate(lines):
        assert f"ValueError: the loss of {first} is nan" in line
        assert rank == first or f"node {first} (job-node-{first}) failed: rank {first} " in line


@pytest.mark.torch
@pytest.mark.nightly
def test_a_mismatch_of_collectives_is_said_in_torchs_words_by_all(start, tmp_path, torch):
    """Every rank compares its own with the others' and raises. The one that most of them name is named, whoever raised first."""
    script = tmp_path / "train.py"
    script.write_text(TRAINS)
    nodes = [start(rank, [str(script), "differs"], "--grace=3s", TORCH_DISTRIBUTED_DEBUG="DETAIL") for rank in range(3)]
    codes, lines = codes_and_lines(nodes)
    assert codes == [76, 1, 76], lines
    for rank, line in enumerate(lines):
        assert "Detected mismatch between collectives on ranks. Rank 1 is running" in line, nodes[rank].transcript()
        assert "node 1 (job-node-1) failed: rank 1 " in line


@pytest.mark.torch
@pytest.mark.nightly  # by day test_whole_job.py drains a node
def test_a_drained_node_is_named_whichever_of_its_victims_ends_first(start, tmp_path, torch):
    """Its worker dies of the TERM at once, in the middle of a collective."""
    script = tmp_path / "train.py"
    script.write_text(TRAINS)
    nodes = [start(rank, [str(script), "is drained"], "--grace=3s") for rank in range(3)]
    for node in nodes:
        node.wait_line("WAITS", LONG)
    nodes[1].signal(signal.SIGTERM)
    codes, lines = codes_and_lines(nodes)
    assert codes == [76, 143, 76], lines
    for line in (lines[0], lines[2]):
        assert "node 1 (job-node-1) was stopped (SIGTERM)" in line


@pytest.mark.torch
@pytest.mark.nightly
def test_a_culprit_that_fails_long_after_its_victims_is_named_before(start, tmp_path, torch):
    """It raises only when the others have given up, as one that saves for long before."""
    script = tmp_path / "train.py"
    script.write_text(TRAINS)
    nodes = [start(rank, [str(script), "raises late", f"{tmp_path}/go"], "--grace=3s") for rank in range(3)]
    nodes[1].wait_line("this node is stopped too", LONG)
    (tmp_path / "go").touch()
    for node in nodes:
        node.wait(LONG)
        assert re.search(rf"node 1 \(job-node-1\) hung: {WAITED}", last_line(node)), node.transcript()


def test_a_node_0_that_loses_all_others_at_once_looks_at_its_own_network(start, cluster):
    waits = shell("echo UP; exec sleep 1000")
    nodes = [start(rank, waits, "--link-timeout=5s", "--grace=1s") for rank in range(3)]
    for node in nodes:
        node.wait_line("UP", 30, stream="stdout")
    cluster[0].namespace.ip("link", "set", "eth0", "down")
    for node in nodes:
        assert node.wait(60) == 76, node.transcript()
    assert "the connections to all 2 other nodes ended: look at this node's own network" in last_line(nodes[0])
    for node in nodes[1:]:
        assert "node 0 (job-node-0) was lost: " in last_line(node)
