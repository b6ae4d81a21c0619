"""Who hangs: real gloo on three nodes, looked at when torch's own timeout fires, and by rankshim's own time."""

import ctypes
import json
import os
import re
import time

import pytest
from lib.events import until
from lib.hangs import GRID, REPORTS, START, STORES, TRAINS
from lib.process import clean_environment, last_line, run

LONG = 120

# What happens, where the rank that hangs is then, and which one it is. Each node has one rank.
FAULTS = [
    ("sleeps", r"in train.py:\d+, in the kernel's \S+", 1),
    ("loads", r"in load_batch \(train.py:\d+\), which called __next__.*above \S+ \(pid \d+\), which is in __iter__ \(train.py:\d+\).*", 1),
    ("is stopped", r"stopped by a signal or a debugger, in train.py:\d+", 1),
    ("holds the GIL", r"in train.py:\d+, in a C call that holds the GIL, in the kernel's \S+", 1),
    ("searches", r"in train.py:\d+, which called match, in a C call that holds the GIL.*", 1),
    ("validates", r"in validate \(train.py:\d+\), in the kernel's \S+", 0),
]
BY_TIMEOUT = r"until their timeout of 6.0 s"
BY_HANG_TIMEOUT = r"for \S+ s"


def ends_the_job(place, culprit, until):
    """The sentence of the end, where one rank of three hangs."""
    return (rf"node {culprit} \(job-node-{culprit}\) hung: rank {culprit} (is|was) {place}; "
            rf"ranks \d[- and]+2 waited in all_reduce \(train.py:\d+\) {until}")


def is_noticed(place, culprit):
    """The same while the job goes on."""
    return (rf"ranks \d[- and]+2 wait in all_reduce \(train.py:\d+\) for rank {culprit} on node {culprit} \(job-node-{culprit}\), "
            rf"which is {place}")


def rarely(rows, often):
    """The rows as parameters; those that do not begin with one of `often` run at night."""
    return [pytest.param(*row, marks=[] if row[0] in often else pytest.mark.nightly) for row in rows]


def train(start, tmp_path, fault, limit, *options, **variables):
    return run_script(start, tmp_path, TRAINS, [fault, str(limit)], *options, **variables)


def run_script(start, tmp_path, text, words, *options, nodes=3, **variables):
    script = tmp_path / "train.py"
    script.write_text(text)
    return [start(rank, [str(script), *words], "--grace=3s", *options, nodes=nodes, **variables) for rank in range(nodes)]


@pytest.mark.torch
@pytest.mark.parametrize(("fault", "place", "culprit", "launcher"), [
    *rarely([(*row, "native") for row in FAULTS], ["loads"]),
    *rarely([(*row, "torchrun") for row in FAULTS], []),
])
def test_when_torchs_timeout_fires_the_rank_that_hangs_is_named_with_its_line(start, tmp_path, torch, fault, place, culprit, launcher):
    nodes = train(start, tmp_path, fault, 6, RANKSHIM_LAUNCHER=launcher)
    codes = [node.wait(LONG) for node in nodes]
    assert codes == [124 if rank == culprit else 76 for rank in range(3)], [node.transcript() for node in nodes]
    for node in nodes:
        assert re.search(ends_the_job(place, culprit, BY_TIMEOUT), last_line(node)), node.transcript()
        assert "[R42]" in last_line(node)
        assert node.report()["hang"]["kind"] in ("missing", "stopped")


MISMATCH = (r"the ranks' collectives do not match \(number \d+ of default_pg\): rank 1 is in broadcast \(train.py:\d+\), "
            r"and ranks 0 and 2 in all_reduce \(train.py:\d+\)")
CYCLE = r"for each other in a cycle, so the order of their collectives differs"
ENDS = [
    *((fault, ends_the_job(place, culprit, BY_HANG_TIMEOUT), "R42") for fault, place, culprit in FAULTS),
    ("broadcasts", MISMATCH, "R43"),
    ("waits in a circle", rf"the job hung: ranks 0-1 waited for \S+ s {CYCLE}", "R43"),
]


@pytest.mark.torch
@pytest.mark.parametrize(("fault", "says", "code", "launcher"), [
    *rarely([(*row, launcher) for launcher in ("native", "torchrun") for row in ENDS], []),
])
def test_hang_timeout_ends_a_job_whose_collectives_no_longer_end(start, tmp_path, torch, fault, says, code, launcher):
    nodes = train(start, tmp_path, fault, 1800, "--hang-timeout=5s", RANKSHIM_LAUNCHER=launcher)
    codes = [node.wait(LONG) for node in nodes]
    assert set(codes) <= {76, 124} and 124 in codes, [node.transcript() for node in nodes]
    for node in nodes:
        assert re.search(says, last_line(node)) and f"[{code}]" in last_line(node), node.transcript()
    assert "rankshim: rank" in nodes[0].stderr  # the stacks
    assert {len(group["stack"]) > 0 for group in nodes[0].report()["hang"]["groups"]} == {True}


NOTICES = [
    *((fault, is_noticed(place, culprit), "R42") for fault, place, culprit in FAULTS),
    ("broadcasts", MISMATCH, "R43"),
    ("waits in a circle", rf"ranks 0-1 wait {CYCLE}", "R43"),
]
# Looks that wake nobody go with the pings: every two seconds then, and the numbers move for six.
NOTICE = ["--hang-notice=2s", "--link-timeout=6s"]


@pytest.mark.nightly
@pytest.mark.torch
@pytest.mark.parametrize(("fault", "says", "code", "launcher"), [(*row, launcher) for launcher in ("native", "torchrun") for row in NOTICES])
def test_hang_notice_warns_of_who_hangs_and_where_and_status_shows_it(start, tmp_path, rankshim, torch, fault, says, code, launcher):
    script = tmp_path / "train.py"
    script.write_text(TRAINS)
    for rank in range(3):
        (tmp_path / str(rank)).mkdir()
    nodes = [start(rank, [str(script), fault, "1800"], "--grace=3s", *NOTICE, f"--run-dir={tmp_path}/{rank}", RANKSHIM_LAUNCHER=launcher)
             for rank in range(3)]
    nodes[0].wait_line(rf"warning: no collective has completed for \S+ s: {says}.*\[{code}\]$", LONG)
    assert all("no collective" not in node.stderr for node in nodes[1:])
    assert all(node.popen.poll() is None for node in nodes)  # it is no end
    of_all, _, of_node_2 = ("\n".join(json.loads(run([rankshim, "status", "--stacks", f"--run-dir={tmp_path}/{rank}"],
                                                     clean_environment()).stdout)["lines"]) for rank in range(3))
    assert re.search(says, of_all), of_all
    assert re.search(r"^rank 2: .*train.py:\d+", of_node_2, re.M) and not re.search(r"^ranks? [01]\b.*:", of_node_2, re.M), of_node_2


# Each rank waits in a group of two for the next one.
THREE_GROUPS = START + """
limit = datetime.timedelta(seconds=float(sys.argv[1]))
groups = [dist.new_group(ranks, timeout=limit) for ranks in ([0, 1], [1, 2], [0, 2])]
steps()
for number in (rank, rank - 1):
    dist.all_reduce(x, group=groups[number])
steps()
"""
RECEIVES = START + """
steps()
dist.recv(x, (rank + 1) % 3)
"""
CIRCLES = [
    ("two groups", TRAINS, r"ranks 0-1 waited for each other in a cycle, so the order of their collectives differs"),
    ("three groups", THREE_GROUPS, r"ranks 0-2 waited for each other in a cycle, so the order of their collectives differs"),
    ("receives", RECEIVES, r"ranks 0-2 waited in recv \(train.py:\d+\) for each other, so their sends and receives do not match"),
]


@pytest.mark.torch
@pytest.mark.parametrize(("circle", "script", "says", "launcher"), [
    *rarely([(*row, "native") for row in CIRCLES], []),
    *rarely([(*row, "torchrun") for row in CIRCLES], []),
])
def test_when_torchs_timeout_fires_in_a_circle_of_waits_no_rank_is_to_blame(start, tmp_path, torch, circle, script, says, launcher):
    words = ["waits in a circle", "6"] if script == TRAINS else ["6", str(tmp_path)]
    nodes = run_script(start, tmp_path, script, words, RANKSHIM_LAUNCHER=launcher)
    assert [node.wait(LONG) for node in nodes] == [124, 124, 124], [node.transcript() for node in nodes]
    for node in nodes:
        assert re.search(f"the job hung: {says}", last_line(node)) and "[R43]" in last_line(node), node.transcript()
        assert node.report()["hang"]["kind"] == "order"


GRID_WAITS = (r"node 1 \(job-node-1\) hung: rank 3 (is|was) in step \(train.py:\d+\), in the kernel's \S+; "
              r"ranks 0-2 waited in all_reduce \(train.py:\d+\) {}")
GRID_IS_WAITED_FOR = (r"ranks 0-2 wait in all_reduce \(train.py:\d+\) for rank 3 on node 1 \(job-node-1\), "
                      r"which is in step \(train.py:\d+\), in the kernel's \S+")


@pytest.mark.torch
@pytest.mark.parametrize(("level", "launcher"), rarely([(0, "native"), (0, "torchrun"), (3, "native"), (3, "torchrun")], []))
def test_of_groups_of_two_by_two_the_rank_that_nobody_waits_behind_is_named(start, tmp_path, torch, level, launcher):
    """Only rank 3 waits for nobody: 1 and 2 wait for it, 0 waits for 2."""
    options = ["--hang-timeout=5s"] if level else []
    nodes = run_script(start, tmp_path, GRID, ["1800" if level else "6"], *options, nodes=2,
                       RANKSHIM_LAUNCHER=launcher, RANKSHIM_NPROC_PER_NODE="2")
    assert [node.wait(LONG) for node in nodes] == [76, 124], [node.transcript() for node in nodes]
    for node in nodes:
        assert re.search(GRID_WAITS.format(r"for \S+ s" if level else "until their timeout"), last_line(node)), node.transcript()


@pytest.mark.nightly
@pytest.mark.torch
@pytest.mark.parametrize("launcher", ["native", "torchrun"])
def test_of_groups_of_two_by_two_the_notice_names_the_same_rank(start, tmp_path, torch, launcher):
    nodes = run_script(start, tmp_path, GRID, ["1800"], *NOTICE, nodes=2, RANKSHIM_LAUNCHER=launcher, RANKSHIM_NPROC_PER_NODE="2")
    nodes[0].wait_line(rf"no collective has completed for \S+ s: {GRID_IS_WAITED_FOR} \[R42\]$", LONG)


@pytest.mark.nightly
@pytest.mark.torch
@pytest.mark.parametrize("level", [0, 3])
def test_of_a_torchrun_in_a_shell_the_worker_that_hangs_beside_a_victim_is_named(start, tmp_path, torch, level):
    (tmp_path / "train.py").write_text(GRID)
    command = ["sh", "-c", f"torchrun {tmp_path}/train.py {1800 if level else 6}; exit $?"]
    options = ["--link=on", *(["--hang-timeout=5s"] if level else [])]
    nodes = [start(rank, command, *options, nodes=2, RANKSHIM_LAUNCHER="auto", RANKSHIM_NPROC_PER_NODE="2") for rank in range(2)]
    assert [node.wait(LONG) for node in nodes] == [76, 124], [node.transcript() for node in nodes]
    for node in nodes:
        assert re.search(GRID_WAITS.format(r"for \S+ s" if level else "until their timeout"), last_line(node)), node.transcript()


# Nodes without a link. In an elastic job torchrun chooses which of them has ranks 2 and 3.
APART = {
    "elastic": {"nodes": "1:2", "RANKSHIM_LAUNCHER": "torchrun"},
    "torchrun": {"nodes": 2, "RANKSHIM_LAUNCHER": "torchrun", "RANKSHIM_LINK": "off"},
    "native": {"nodes": 2, "RANKSHIM_LAUNCHER": "native", "RANKSHIM_LINK": "off"},
}


def start_apart(start, tmp_path, how, limit, *options):
    script = tmp_path / "train.py"
    script.write_text(GRID)
    return [start(rank, [str(script), limit], "--grace=3s", f"--run-dir={tmp_path}/{rank}", *options, RANKSHIM_NPROC_PER_NODE="2", **APART[how])
            for rank in range(2)]


@pytest.mark.nightly
@pytest.mark.torch
@pytest.mark.parametrize("level", [0, 3])
@pytest.mark.parametrize("how", APART)
def test_of_nodes_without_a_link_the_one_that_has_the_rank_that_hangs_names_it(start, tmp_path, torch, how, level):
    nodes = start_apart(start, tmp_path, how, "1800" if level else "6", *(["--hang-timeout=5s"] if level else []))
    codes = [node.wait(LONG) for node in nodes]
    assert sorted(codes) == [1, 124], [node.transcript() for node in nodes]
    culprit, victim = nodes[codes.index(124)], nodes[codes.index(1)]
    says = (r"hung: rank 3 (is|was) in step \(train.py:\d+\), in the kernel's \S+; rank 2 waited in all_reduce \(train.py:\d+\) "
            + (BY_HANG_TIMEOUT if level else "until its timeout of 6.0 s"))
    assert re.search(says, last_line(culprit)), culprit.transcript()
    assert re.search(r"(lost|waiting for) its peers?.*: rank [01] .*; see (that node's report|the other nodes' reports)", last_line(victim)), victim.transcript()


@pytest.mark.nightly
@pytest.mark.torch
@pytest.mark.parametrize("how", APART)
def test_nodes_without_a_link_warn_and_show_who_hangs_among_their_own_workers(start, tmp_path, rankshim, torch, how):
    for rank in range(2):
        (tmp_path / str(rank)).mkdir()
    nodes = start_apart(start, tmp_path, how, "1800", "--hang-notice=2s")
    own = r"rank 2 waits in all_reduce \(train.py:\d+\) for rank 3 .*, which is in step \(train.py:\d+\), in the kernel's \S+"
    others = r"rank [01] waits in all_reduce \(train.py:\d+\) .*for ranks that this node cannot see"
    until(lambda: [sum(bool(re.search(rf"warning: no collective has completed for .*: {says}", node.stderr)) for node in nodes)
                   for says in (own, others)] == [1, 1], "both warnings", LONG)
    shown = [run([rankshim, "status", "--stacks", f"--run-dir={tmp_path}/{rank}"], clean_environment()).stdout for rank in range(2)]
    assert [sum(bool(re.search(says, text)) for text in shown) for says in (own, others)] == [1, 1], shown


# What a program must do itself that no launcher has given its rank.
RANKS = 'import os\nos.environ.update(RANK=os.environ["NODE_RANK"], WORLD_SIZE=os.environ["NNODES"])\n'


@pytest.mark.nightly
@pytest.mark.torch
@pytest.mark.parametrize("level", [0, 3])
@pytest.mark.parametrize(("fault", "place", "culprit"), [FAULTS[0], FAULTS[1]], ids=["sleeps", "loads"])
def test_of_a_python_program_that_is_linked_the_one_that_hangs_is_named(start, tmp_path, torch, fault, place, culprit, level):
    (tmp_path / "train.py").write_text(RANKS + TRAINS)
    command = ["python3", f"{tmp_path}/train.py", fault, "1800" if level else "6"]
    options = ["--link=on", "--grace=3s", *(["--hang-timeout=5s"] if level else [])]
    nodes = [start(rank, command, *options, RANKSHIM_LAUNCHER="auto") for rank in range(3)]
    assert [node.wait(LONG) for node in nodes] == [124 if rank == culprit else 76 for rank in range(3)], [node.transcript() for node in nodes]
    for node in nodes:
        assert re.search(ends_the_job(place, culprit, BY_HANG_TIMEOUT if level else BY_TIMEOUT), last_line(node)), node.transcript()


SPAWNS = """\
import datetime, os, sys, time, torch, torch.distributed as dist, torch.multiprocessing as mp

def work(local_rank, limit):
    rank = int(os.environ["NODE_RANK"]) * 2 + local_rank
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=4, timeout=datetime.timedelta(seconds=limit))
    for step in range(1000):
        time.sleep(0.1)
        if step == 40 and rank == 3:
            time.sleep(1000)  # here
        dist.all_reduce(torch.ones(1))

if __name__ == "__main__":
    mp.start_processes(work, args=(float(sys.argv[1]),), nprocs=2, start_method=sys.argv[2])
"""


# How many nodes and workers on each, the script, how it is started, and what is said of the rank that hangs.
PROGRAMS = {
    "torchrun": (2, 2, GRID, ["sh", "-c", "torchrun {} 1800; exit $?"], GRID_IS_WAITED_FOR),
    "python": (3, 1, RANKS + TRAINS, ["python3", "{}", "sleeps", "1800"], is_noticed(*FAULTS[0][1:])),
    "torch.multiprocessing": (2, 2, SPAWNS, ["python3", "{}", "1800", "spawn"],
                              r"ranks 0-2 wait in all_reduce \(train.py:11\) for rank 3 on node 1 \(job-node-1\), "
                              r"which is in work \(train.py:10\), in the kernel's \S+"),
}


@pytest.mark.nightly
@pytest.mark.torch
@pytest.mark.parametrize("program", PROGRAMS)
def test_of_programs_that_are_linked_a_notice_and_status_name_the_one_that_hangs(start, tmp_path, rankshim, torch, program):
    count, workers, script, command, says = PROGRAMS[program]
    (tmp_path / "train.py").write_text(script)
    nodes = []
    for rank in range(count):
        (tmp_path / str(rank)).mkdir()
        nodes.append(start(rank, [word.format(tmp_path / "train.py") for word in command], "--link=on", f"--run-dir={tmp_path}/{rank}",
                           *NOTICE, nodes=count, RANKSHIM_LAUNCHER="auto", RANKSHIM_NPROC_PER_NODE=str(workers)))
    nodes[0].wait_line(rf"warning: no collective has completed for \S+ s: {says}.*\[R42\]$", LONG)
    shown = run([rankshim, "status", "--stacks", f"--run-dir={tmp_path}/0"], clean_environment()).stdout
    assert re.search(says, shown), shown


@pytest.mark.torch
@pytest.mark.parametrize(("name", "level"), [
    pytest.param(name, level, marks=[] if (name, level) == ("early return", 3) else pytest.mark.nightly)
    for name in REPORTS for level in (0, 3)
])
def test_hangs_of_public_reports_come_out_right(start, tmp_path, torch, name, level):
    """lib/hangs.py has their sources."""
    report = REPORTS[name]
    options = ["--hang-timeout=5s"] if level else []
    nodes = run_script(start, tmp_path, START + report.script, ["1800" if level else "6", str(tmp_path)], *options)
    for node in nodes:
        node.wait(LONG)
    for node in nodes:
        assert re.search(report.says if level or not report.ends else report.ends, last_line(node)), node.transcript()


IN_NO_COLLECTIVE = r"in new_group \(train.py:\d+\), in no collective: torch's store on node 0 \(job-node-0\) does not answer"
STORE_IS_WAITED_FOR = rf"ranks 0-2 wait {IN_NO_COLLECTIVE}"
STORE_HUNG = rf"the job hung: ranks 0-2 waited for \S+ s {IN_NO_COLLECTIVE}"
STOPPED = r"stopped by a signal or a debugger, in train.py:\d+"
RANK_0_IS_WAITED_FOR = rf"ranks 1-2 wait in new_group \(train.py:\d+\) for rank 0 on node 0 \(job-node-0\), which is {STOPPED}"
RANK_0_HUNG = rf"node 0 \(job-node-0\) hung: rank 0 (is|was) {STOPPED}; ranks 1-2 waited in new_group \(train.py:\d+\)"


@pytest.mark.nightly
@pytest.mark.torch
@pytest.mark.parametrize("level", [1, 2, 3])
@pytest.mark.parametrize(("host", "launcher"), [("server", "native"), ("agent", "torchrun"), ("rank", "native"), ("rank", "torchrun")])
def test_where_torchs_store_is_silent_its_host_is_named(start, tmp_path, rankshim, torch, host, launcher, level):
    """At no level 0: torch waits for the store without a timeout."""
    options = {1: [], 2: NOTICE, 3: ["--hang-timeout=5s"]}[level]
    for rank in range(3):
        (tmp_path / str(rank)).mkdir()
    script = tmp_path / "train.py"
    script.write_text(STORES)
    nodes = [start(rank, [str(script), "1800", str(tmp_path), host], "--grace=3s", f"--run-dir={tmp_path}/{rank}", *options,
                   RANKSHIM_LAUNCHER=launcher) for rank in range(3)]
    waits, ends = (RANK_0_IS_WAITED_FOR, RANK_0_HUNG) if host == "rank" else (STORE_IS_WAITED_FOR, STORE_HUNG)

    def status(rank):
        return run([rankshim, "status", "--stacks", f"--run-dir={tmp_path}/{rank}"], clean_environment()).stdout

    if level == 1:
        until(lambda: re.search(waits, status(0)), "who is waited for", LONG)
        assert re.search(r"rank 1 waits in new_group \(train.py:\d+\) for ranks that this node cannot see", status(1)), status(1)
    elif level == 2:
        nodes[0].wait_line(rf"warning: no collective has completed for \S+ s: {waits}", LONG)
    else:
        codes = [node.wait(LONG) for node in nodes]
        assert codes == ([124, 76, 76] if host == "rank" else [124, 124, 124]), [node.transcript() for node in nodes]
        for node in nodes:
            assert re.search(ends, last_line(node)), node.transcript()


@pytest.mark.nightly
@pytest.mark.torch
@pytest.mark.parametrize("level", [0, 3])
@pytest.mark.parametrize("method", ["spawn", "fork", "forkserver"])
def test_of_processes_that_torch_multiprocessing_starts_the_one_that_hangs_is_named(start, tmp_path, torch, method, level):
    (tmp_path / "train.py").write_text(SPAWNS)
    command = ["python3", f"{tmp_path}/train.py", "1800" if level else "6", method]
    options = ["--link=on", "--grace=3s", *(["--hang-timeout=5s"] if level else [])]
    nodes = [start(rank, command, *options, nodes=2, RANKSHIM_LAUNCHER="auto", RANKSHIM_NPROC_PER_NODE="2") for rank in range(2)]
    assert [node.wait(LONG) for node in nodes] == [76, 124], [node.transcript() for node in nodes]
    says = (r"node 1 \(job-node-1\) hung: rank 3 (is|was) in work \(train.py:10\).*; ranks 0-2 waited in all_reduce \(train.py:11\) "
            + (BY_HANG_TIMEOUT if level else BY_TIMEOUT))
    for node in nodes:
        assert re.search(says, last_line(node)), node.transcript()


RAISES = START + """
steps()
if rank == 1:
    threading.Thread(target=time.sleep, args=(1000,)).start()
    raise ValueError("boom")
steps()
"""


@pytest.mark.nightly
@pytest.mark.torch
def test_of_a_rank_that_has_raised_and_does_not_exit_the_exception_is_named(start, tmp_path, torch):
    nodes = run_script(start, tmp_path, RAISES, ["1800", str(tmp_path)], "--hang-timeout=5s")
    assert [node.wait(LONG) for node in nodes] == [76, 1, 76], [node.transcript() for node in nodes]
    for node in nodes:
        assert re.search(r"rank 1 exited with code 1.*ValueError: boom", last_line(node)), node.transcript()


SLEEPS = START + """
steps()
if rank == 1:
    time.sleep(1000)
steps()
"""


@pytest.mark.torch
@pytest.mark.parametrize(("options", "code", "says"), [
    (["--exit-map=hang=42", "--job-restarts=2", "--permanent=hang"], 42,
     r"; not restarted: hang is permanent \(--permanent\); --exit-map changes the exit code to 42 \[R42\]$"),
    pytest.param(["--job-restarts=2"], 124,
                 r"; not restarted: it has hung twice in a row at the same lines and the same collective \[R42\]$",
                 marks=pytest.mark.nightly),
], ids=["permanent", "tried again"])
def test_a_hang_has_an_exit_code_and_a_restart_of_its_own(start, tmp_path, torch, options, code, says):
    nodes = run_script(start, tmp_path, SLEEPS, ["1800", str(tmp_path)], "--hang-timeout=5s", *options, nodes=2)
    assert [node.wait(LONG) for node in nodes] == [76, code], [node.transcript() for node in nodes]
    for node in nodes:
        assert re.search(r"node 1 \(job-node-1\) hung: rank 1 (is|was) in train.py:\d+, in the kernel's \S+; "
                         r"rank 0 waited in all_reduce \(train.py:\d+\) for \S+ s", last_line(node)), node.transcript()
    assert re.search(says, last_line(nodes[1])), nodes[1].transcript()
    assert "rankshim: rank" in nodes[0].stderr  # the stacks
    assert nodes[0].stderr.count("next: restart") == options.count("--job-restarts=2") - options.count("--permanent=hang")


EVALUATES = """\
import os, time, torch, torch.distributed as dist

rank = int(os.environ["RANK"])
dist.init_process_group("gloo")
for step in range(160):
    time.sleep(0.1)
    if step == 80 and rank == 0:
        while not os.path.exists(os.environ["GOES_ON"]):
            time.sleep(0.01)  # evaluates
    dist.all_reduce(torch.ones(1))
"""


@pytest.mark.torch
def test_a_long_evaluation_is_a_warning_and_a_line_when_the_job_goes_on(start, tmp_path, torch):
    script, goes_on = tmp_path / "train.py", tmp_path / "goes_on"
    script.write_text(EVALUATES)
    nodes = [start(rank, [str(script)], *NOTICE, nodes=2, GOES_ON=str(goes_on)) for rank in range(2)]
    notice = nodes[0].wait_line("no collective has completed for", LONG)
    assert re.search(r"rank 1 waits in all_reduce \(train.py:\d+\) for rank 0 on node 0 \(job-node-0\).*train.py:\d+", notice.text), notice.text
    goes_on.touch()
    nodes[0].wait_line("collectives continue after", LONG)
    assert [node.wait(LONG) for node in nodes] == [0, 0], [node.transcript() for node in nodes]
    assert nodes[0].stderr.count("no collective has completed for") <= 2  # after 2 s, and after 4
    assert "no collective" not in nodes[1].stderr


# Node 0 fails twice in a row, and is put aside: it keeps the roster then, and has no rank.
FAILS_TWICE = """\
import os, socket, sys, time
if socket.gethostname() == "job-node-0":
    sys.exit(3)
"""


def put_node_0_aside(pods, script, *words, options=()):
    """All three nodes, of which the last two train in the third attempt."""
    (pods.folder / "train.py").write_text(FAILS_TWICE + script)
    pods.count, pods.train = 3, 2
    how = {"command": [str(pods.folder / "train.py"), *words], "RANKSHIM_JOB_RESTARTS": "2", "RANKSHIM_RESTART_PAUSE": "0"}
    all = [pods.start(index, *options, **how) for index in range(3)]
    all[0].wait_line("waits as a spare", 30)
    return all


def test_a_hub_that_is_a_spare_shows_what_all_ranks_do(pods):
    all = put_node_0_aside(pods, """
def sleeps(): time.sleep(1000)
print("ATTEMPT", os.environ["RANKSHIM_ATTEMPT"], flush=True)
sleeps()
""")
    for process in all[1:]:
        process.wait_line("ATTEMPT 2", 30)

    def shows():
        lines = pods.status(all[0], "--stacks")["lines"]
        return any(re.match(r"ranks 0-1: in sleeps \(train.py:\d+\)", line) for line in lines)

    until(shows, "both ranks' lines")


@pytest.mark.nightly
@pytest.mark.torch
@pytest.mark.parametrize("level", [2, 3])
def test_a_hub_that_is_a_spare_watches_for_hangs(pods, torch, level):
    option = "--hang-timeout=5s" if level == 3 else "--hang-notice=4s"
    # Looks that wake nobody are seconds apart, and several must see that the numbers move.
    all = put_node_0_aside(pods, START + """
steps(150)
if rank == 1:
    while not os.path.exists(folder + "/goes_on"):
        time.sleep(1)
steps(150)
""", "1800", str(pods.folder), options=[option])
    says = r"rank 1 on node (\d) \(job-node-\d\), which is in train.py:\d+|node (\d) \(job-node-\d\) hung: rank 1 (?:is|was) in train.py:\d+"
    if level == 2:
        notice = all[0].wait_line("no collective has completed for", LONG)
        assert re.search(says, notice.text), notice.text
        (pods.folder / "goes_on").touch()
        all[0].wait_line("collectives continue after", LONG)
        assert [process.wait(LONG) for process in all] == [0, 0, 0], [process.transcript() for process in all]
        return
    codes = [process.wait(LONG) for process in all]
    culprit = int(re.search(says, last_line(all[0])).group(2))
    assert codes == [124 if index == culprit else 76 for index in range(3)], [process.transcript() for process in all]


ALONE = """\
import os, sys, time, torch, torch.distributed as dist

dist.init_process_group("gloo", init_method=sys.argv[1], rank=0, world_size=1)
while not os.path.exists(sys.argv[2]):
    dist.all_reduce(torch.ones(1))
    time.sleep(0.05)
"""


@pytest.mark.torch
@pytest.mark.parametrize("method", ["file://{}/init{}", pytest.param("env://", marks=pytest.mark.nightly)])
def test_a_process_group_of_one_in_a_job_of_two_nodes_is_a_warning(start, tmp_path, torch, method):
    script, over = tmp_path / "train.py", tmp_path / "over"
    script.write_text(ALONE)
    nodes = [start(rank, [str(script), method.format(tmp_path, rank), str(over)], "--hang-notice=2s", nodes=2) for rank in range(2)]
    for node in nodes:
        node.wait_line("this node trains alone: the default process group of rank", LONG)
    over.touch()
    assert [node.wait(LONG) for node in nodes] == [0, 0]
    assert all("trained alone (a process group of 1 in a job of 2 nodes)" in last_line(node) for node in nodes)


# What a rank does while the others wait for it, and is no hang: until a file is there.
BUSY = """\
import os, sys, time, torch, torch.distributed as dist

rank, folder = int(os.environ["RANK"]), sys.argv[1]
dist.init_process_group("gloo")
print("begins", flush=True)

def is_there(name):
    return os.path.exists(folder + "/" + name)

def evaluate():
    while not is_there("evaluate"):
        torch.ones(300, 300) @ torch.ones(300, 300)

def save():
    with open(folder + "/checkpoint", "wb", buffering=0) as file:
        while not is_there("save"):
            file.write(bytes(200_000))
            time.sleep(0.5)

def poll():
    while not is_there("poll"):
        time.sleep(0.05)

def compile(graph, inputs):
    while not is_there("compile"):
        time.sleep(0.05)
    return graph.forward

for what in sys.argv[2:]:
    if what == "compile":
        torch.compile(torch.nn.Linear(1, 1), backend=compile if rank == 0 else "eager")(torch.ones(1))
    elif rank == 0 and what != "steps":
        globals()[what]()
    for _ in range(40):
        time.sleep(0.1)
        dist.all_reduce(torch.ones(1))
done = torch.zeros(1)
while not done:
    time.sleep(1 if rank == 2 else 0.1)  # rank 2 is slow
    done = torch.tensor(float(is_there("over")))
    dist.all_reduce(done)
"""


def run_busy(start, tmp_path, *words, options):
    return run_script(start, tmp_path, BUSY, [str(tmp_path), *words], *options)


@pytest.mark.nightly
@pytest.mark.torch
@pytest.mark.parametrize(("what", "does"), [("evaluate", "works"), ("save", "works"), ("poll", "polls")])
def test_a_rank_that_works_for_longer_than_the_timeout_is_a_notice_and_no_end(start, tmp_path, torch, what, does):
    """A rank that works has four times the timeout."""
    nodes = run_busy(start, tmp_path, "steps", what, options=["--hang-notice=4s", "--hang-timeout=8s"])
    notice = nodes[0].wait_line("no collective has completed for", LONG)
    # The second notice comes after twice the time, which is the timeout.
    nodes[0].wait_line("no collective has completed for", LONG, since=nodes[0].lines.index(notice) + 1)
    says = rf"ranks 1-2 wait in all_reduce \(train.py:\d+\) for rank 0 on node 0 \(job-node-0\), which is in {what} \(.* and {does}"
    assert re.search(says, nodes[0].stderr), nodes[0].transcript()
    for name in (what, "over"):
        (tmp_path / name).touch()
    nodes[0].wait_line("collectives continue after", LONG)
    assert [node.wait(LONG) for node in nodes] == [0, 0, 0], [node.transcript() for node in nodes]


@pytest.mark.nightly
@pytest.mark.torch
def test_five_minutes_of_evaluation_are_one_notice_and_a_line_when_the_job_goes_on(start, tmp_path, torch):
    # It is known after a minute that the numbers move.
    nodes = run_busy(start, tmp_path, *(["steps"] * 20), "evaluate", options=["--hang-notice=3m", "--hang-timeout=4m"])
    nodes[0].wait_line("no collective has completed for 3 min", 420)  # looks are 48 s apart
    time.sleep(120)
    (tmp_path / "evaluate").touch()
    assert re.search(r"collectives continue after [56] min", nodes[0].wait_line("collectives continue after", LONG).text)
    (tmp_path / "over").touch()
    assert [node.wait(LONG) for node in nodes] == [0, 0, 0], [node.transcript() for node in nodes]
    assert nodes[0].stderr.count("no collective has completed for") == 1


@pytest.mark.nightly
@pytest.mark.torch
def test_nothing_is_said_of_a_compiler_in_the_first_step(start, tmp_path, torch):
    nodes = run_busy(start, tmp_path, "compile", options=["--hang-notice=1s", "--hang-timeout=2s"])
    for node in nodes:
        node.wait_line("begins", LONG)
    time.sleep(30)  # most of it in the compiler
    for name in ("compile", "over"):
        (tmp_path / name).touch()
    assert [node.wait(LONG) for node in nodes] == [0, 0, 0], [node.transcript() for node in nodes]
    assert "no collective" not in nodes[0].stderr, nodes[0].transcript()


@pytest.mark.nightly
@pytest.mark.torch
def test_a_slow_rank_is_told_by_status_and_is_no_hang(start, tmp_path, rankshim, torch):
    script = tmp_path / "train.py"
    script.write_text(BUSY)
    for rank in range(3):
        (tmp_path / str(rank)).mkdir()
    nodes = [start(rank, [str(script), str(tmp_path)], *NOTICE, RANKSHIM_RUN_DIR=f"{tmp_path}/{rank}") for rank in range(3)]

    def status():
        done = run([rankshim, "status", f"--run-dir={tmp_path}/0"], clean_environment())
        return "slow" in done.stdout and done.stdout

    assert re.search(r"slow\W+(rank )?2\b", until(status, "rank 2 is slow", LONG))
    (tmp_path / "over").touch()
    assert [node.wait(LONG) for node in nodes] == [0, 0, 0], [node.transcript() for node in nodes]
    assert "no collective" not in nodes[0].stderr


@pytest.mark.nightly
@pytest.mark.torch
def test_a_debugger_that_holds_a_rank_is_named_as_such(start, tmp_path, torch):
    seize, interrupt, detach = 0x4206, 0x4207, 17  # linux/ptrace.h
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    nodes = run_busy(start, tmp_path, "steps", options=["--hang-notice=3s"])
    nodes[1].wait_line("begins", LONG)
    worker = [pid for pid, command in nodes[1].tree().items() if "train.py" in command][-1]
    time.sleep(10)  # several looks have seen that the numbers move
    assert libc.ptrace(seize, worker, None, None) == 0 and libc.ptrace(interrupt, worker, None, None) == 0
    notice = nodes[0].wait_line("no collective has completed for", LONG)
    says = r"for rank 1 on node 1 \(job-node-1\), which is stopped by a signal or a debugger, in train.py:\d+"
    assert re.search(says, notice.text), notice.text
    os.waitpid(worker, 0x40000000)  # __WALL
    assert libc.ptrace(detach, worker, None, None) == 0
    nodes[0].wait_line("collectives continue after", LONG)
    (tmp_path / "over").touch()
    assert [node.wait(LONG) for node in nodes] == [0, 0, 0], [node.transcript() for node in nodes]
