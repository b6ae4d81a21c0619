"""Linked nodes (--link): all agree before anything is launched, and the first failure ends all, by name.

Three pods with their own network, host name and process ids, a real name server, and sh or torchrun as what is started.
"""

import contextlib
import json
import os
import re
import signal
import subprocess
import time

import pytest
from lib.events import until
from lib.process import last_line, shell
from link.conftest import PORT

LONG = 120
CLOSE_WAIT = "08"  # in /proc/net/tcp
PATIENCE = ("8s", "80s", "80s")  # node 0 gives up first, and tells the others


WAITS = shell("echo UP $RANK $WORLD_SIZE; exec sleep 1000")


def test_all_launch_together_when_the_last_one_is_here_and_end_well_together(start):
    first, second = start(0, shell("echo UP $RANK $WORLD_SIZE")), start(1, shell("echo UP $RANK $WORLD_SIZE"))
    first.wait_line("waiting for 1 of 3 nodes: node 2", 20)
    second.wait_line("waiting for 1 of 3 nodes: node 2", 20)
    assert not first.stdout and not second.stdout, "nothing is launched before all are here"
    third = start(2, shell("echo UP $RANK $WORLD_SIZE"))
    for rank, node in enumerate((first, second, third)):
        assert node.wait(30) == 0, node.transcript()
        assert node.stdout == f"UP {rank} 3\n"
    report = first.report()
    assert [(node["host"], node["state"]) for node in report["nodes"]] == [(f"job-node-{rank}", "done") for rank in range(3)]
    assert [[(worker["rank"], worker["exit_code"]) for worker in node["worker_ends"]] for node in report["nodes"]] == [
        [(rank, 0)] for rank in range(3)]


def test_nodes_of_different_sizes_have_ranks_that_follow_each_other(start):
    nodes = [start(rank, shell("echo UP $RANK $WORLD_SIZE"), RANKSHIM_NPROC_PER_NODE=str(rank + 1)) for rank in range(3)]
    for node in nodes:
        assert node.wait(30) == 0, node.transcript()
    assert [sorted(node.stdout.split("\n")[:-1]) for node in nodes] == [["UP 0 6"], ["UP 1 6", "UP 2 6"],
                                                                        ["UP 3 6", "UP 4 6", "UP 5 6"]]


@pytest.mark.parametrize(("end", "code", "what"), [("exit 3", 3, "exited with code 3"), ("kill -KILL $$", 137, "was killed by SIGKILL")])
@pytest.mark.parametrize("culprit", [0, 2])
def test_the_failure_of_one_worker_ends_all_nodes_with_its_name(start, culprit, end, code, what):
    nodes = {rank: start(rank, WAITS if rank != culprit else shell(f"echo UP; trap '{end}' USR1; while :; do sleep 0.05; done"))
             for rank in range(3)}
    for node in nodes.values():
        node.wait_line("UP", 30)
    before = time.monotonic()
    nodes[culprit].signal(signal.SIGUSR1)
    for rank, node in nodes.items():
        node.code = node.wait(20)
        if rank == culprit:
            continue
        assert node.code == 76, node.transcript()
        line = last_line(node)
        assert f"node {culprit} (job-node-{culprit}) failed: rank {culprit} {what}" in line
        root = node.report()["root_cause"]
        assert (root["who"], root["host"], root["node_rank"], root["exit_code"]) == ("node", f"job-node-{culprit}", culprit, code)
    assert nodes[culprit].code == code, "the culprit keeps its own code"
    assert time.monotonic() - before < 20, "long before any time-out"


@pytest.mark.nightly
def test_a_node_that_strict_stops_because_it_trains_alone_tells_the_others_why(start):
    alone = ["sh", "-c", "env LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 WORLD_SIZE=1 sleep 1000; exit 3"]
    nodes = [start(rank, alone if rank == 1 else WAITS, "--strict", RANKSHIM_LAUNCHER="none", RANKSHIM_LINK="on")
             for rank in range(3)]
    assert nodes[1].wait(LONG) == 78, nodes[1].transcript()
    for node in (nodes[0], nodes[2]):
        assert node.wait(20) == 76, node.transcript()
        assert "stopped: node 1 (job-node-1) failed: this node trains alone: worker " in last_line(node)


def test_a_node_that_never_comes_is_named_on_every_node(start):
    nodes = [start(rank, WAITS, RANKSHIM_WAIT_TIMEOUT=PATIENCE[rank]) for rank in (0, 1)]
    for node in nodes:
        assert node.wait(90) == 75, node.transcript()
        assert "1 of 3 nodes did not join in time: node 2; waited " in last_line(node)
        assert f" at job-node-0:29500 (this node has RANKSHIM_NNODES=3, RANKSHIM_NODE_RANK={nodes.index(node)}, RANKSHIM_MASTER_PORT=29500:" in last_line(node)
        assert not node.stdout


def test_a_rank_given_twice_is_refused_on_all_nodes_with_both_names(start):
    nodes = [start(0, WAITS), start(1, WAITS), start(1, WAITS, place=2)]
    for node in nodes:
        assert node.wait(30) == 78, node.transcript()
        assert "two nodes have the rank 1" in last_line(node)
        assert "job-node-1" in last_line(node) and "job-node-2" in last_line(node)
        assert not node.stdout, "nothing was launched"


def test_two_nodes_with_the_rank_0_are_both_told(start, cluster):
    """The second one listens too; where the master's name leads it learns of the first."""
    nodes = [start(0, WAITS), start(0, WAITS, place=1), start(2, WAITS)]
    for node in nodes:
        assert node.wait(30) == 78, node.transcript()
        assert f"two nodes have the rank 0: node 0 (job-node-0, {cluster[0].address}) and node 0 (job-node-1," in last_line(node)
        assert not node.stdout


def test_a_node_0_whose_masters_name_leads_to_another_job_for_a_while_harms_neither(start, cluster, network):
    cluster[0].hosts("127.0.0.1 localhost\n")
    network.records.publish("job-node-0", cluster[2])
    other = start(0, WAITS, place=2, nodes=2, RANKSHIM_RUN_ID="another", RANKSHIM_MASTER_ADDR="job-node-2")
    other.wait_line("waiting for 1 of 2 nodes", 30)
    stale = start(0, WAITS, nodes=2, RANKSHIM_LOG_LEVEL="debug")
    stale.wait_line("leads to no other node 0 of this job: node 0 .* has run id", 30)
    network.records.publish("job-node-0", cluster[0])
    nodes = [stale, start(1, WAITS, nodes=2), other, start(1, WAITS, place=1, nodes=2, RANKSHIM_RUN_ID="another", RANKSHIM_MASTER_ADDR="job-node-2")]
    for node in nodes:
        node.wait_line("UP", 30)


def test_nodes_that_disagree_about_their_number_are_refused(start):
    nodes = [start(0, WAITS), start(1, WAITS, nodes=4), start(2, WAITS)]
    for node in nodes:
        assert node.wait(30) == 78, node.transcript()
        assert "RANKSHIM_NNODES" in last_line(node)
        assert not node.stdout


@pytest.mark.parametrize("launched", [{}, {"RANKSHIM_LAUNCHER": "none", "RANKSHIM_LINK": "on"}], ids=["workers", "a program"])
def test_a_drained_node_takes_the_others_along_by_a_code_that_can_be_tried_again(start, launched):
    nodes = [start(rank, WAITS, "--exit-map=peer=143", **launched) for rank in range(3)]
    for node in nodes:
        node.wait_line("UP", 30)
    nodes[1].signal(signal.SIGTERM)
    assert nodes[1].wait(20) == 143
    for node in (nodes[0], nodes[2]):
        assert node.wait(20) == 143, node.transcript()
        assert "node 1 (job-node-1) was stopped" in last_line(node)


@pytest.mark.parametrize("stopped", [0, 1])
def test_a_node_that_ended_well_may_be_stopped_while_it_waits_and_the_others_go_on(start, tmp_path, stopped):
    works = shell(f"echo UP; until [ -e {tmp_path}/go ]; do sleep 0.05; done")
    nodes = [start(rank, shell("echo UP") if rank == stopped else works) for rank in range(3)]
    for node in nodes:
        node.wait_line("UP", 30)
    until(lambda: len(nodes[stopped].tree()) == 1, "its command has ended")
    nodes[stopped].signal(signal.SIGTERM)
    assert nodes[stopped].wait(20) == 143
    assert last_line(nodes[stopped]).endswith("; SIGTERM arrived while this node waited for the others")
    if stopped == 0:
        for node in nodes[1:]:
            node.wait_line("warning: node 0 exited 0 and was then stopped; the nodes are no longer linked", 20)
    (tmp_path / "go").touch()
    for rank, node in enumerate(nodes):
        if rank != stopped:
            assert node.wait(20) == 0, node.transcript()


@pytest.mark.parametrize("lost", [0, 2])
def test_a_node_whose_pid_1_is_killed_ends_the_job(start, lost):
    nodes = [start(rank, WAITS) for rank in range(3)]
    for node in nodes:
        node.wait_line("UP", 30)
    nodes[lost].signal(signal.SIGKILL)
    for rank, node in enumerate(nodes):
        if rank == lost:
            continue
        assert node.wait(40) == 76, node.transcript()
        assert f"node {lost}" in last_line(node)


def test_a_stop_of_the_whole_job_is_no_failure_of_another_node(start):
    nodes = [start(rank, WAITS) for rank in range(3)]
    for node in nodes:
        node.wait_line("UP", 30)
    for node in nodes:
        with contextlib.suppress(ProcessLookupError):  # it has heard of the first one's stop, and has ended for it
            node.signal(signal.SIGTERM)
    for rank, node in enumerate(nodes):
        assert node.wait(20) in ((143,) if rank == 0 else (143, 76)), node.transcript()
        assert " failed" not in last_line(node) and " was lost" not in last_line(node)


def test_a_program_is_linked_only_where_that_is_asked_for(start):
    alone = start(0, shell("echo UP"), RANKSHIM_LAUNCHER="none")
    assert alone.wait(20) == 0
    nodes = [start(rank, shell("echo UP"), RANKSHIM_LAUNCHER="none", RANKSHIM_LINK="on") for rank in range(3)]
    for node in nodes:
        assert node.wait(30) == 0, node.transcript()
        assert "all 3 nodes are here" in node.stderr


def test_the_status_of_node_0_shows_who_is_missing_and_then_all_nodes(start, cluster, rankshim):
    first, second = start(0, WAITS, RANKSHIM_RUN_DIR="/run"), start(1, WAITS, RANKSHIM_RUN_DIR="/dev/shm")
    first.wait_line("waiting for 1 of 3", 20)

    def status(node=first):
        argv = ["nsenter", "--pid", "--mount", f"--target={node.init}", rankshim, "status"]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        return json.loads(done.stdout)

    assert status()["waiting_for"] == "waiting for 1 of 3 nodes: node 2"
    third = start(2, WAITS)
    for node in (first, second, third):
        node.wait_line("UP", 30)
    assert [node["state"] for node in status()["nodes"]] == ["running"] * 3
    assert "waiting_for" not in status()
    assert status(second)["phase"] == "run" and "waiting_for" not in status(second)


def test_a_node_0_without_rankshim_is_recognised_and_the_job_goes_on(start, cluster):
    answers = ("import socket\ns=socket.create_server(('0.0.0.0', 29500)); print('UP', flush=True); kept=[]\n"
               "while True:\n kept.append(s.accept()[0])\n if len(kept[-1].recv(6)) == 6: kept[-1].sendall(b'\\1' + bytes(7))")
    other = cluster[0].start_beside(["python3", "-c", answers], name="a store")
    other.wait_line("UP", 20)
    node, must = start(1, shell("echo UP")), start(2, shell("echo UP"), RANKSHIM_LINK="on")
    assert node.wait(LONG) == 0, node.transcript()  # after 10 s: the store could be another job's
    (line,) = [line for line in node.stderr.splitlines() if "continues without a link" in line]
    assert "warning: " in line and line.endswith("; --link on makes this an error")
    assert must.wait(LONG) == 78, must.transcript()


def test_a_node_0_that_is_silent_for_longer_than_any_answer_takes_is_waited_for(start):
    """It is stopped, as by a debugger or a cgroup without time: the kernel accepts for it."""
    first = start(0, WAITS, nodes=2)
    until(lambda: first.listens(PORT), "node 0 listens")
    first.signal(signal.SIGSTOP)
    second = start(1, WAITS, nodes=2)
    until(lambda: first.connections(PORT, CLOSE_WAIT) >= 5, "the other node has connected again and again", 60)
    assert "waiting for node 0 at job-node-0:29500: the port accepts the connection and does not answer" in second.stderr
    assert "without a link" not in second.stderr and not second.stdout
    first.signal(signal.SIGCONT)
    for node in (first, second):
        node.wait_line("UP . 2", 30)
        node.wait_line("all 2 nodes are here", LONG)


def test_a_node_without_the_jobs_token_takes_no_part(start, tmp_path):
    for name in ("right", "wrong"):
        (tmp_path / name).write_text(f"the {name} secret of this job")
    nodes = [start(rank, WAITS, f"--job-token-file={tmp_path}/{'wrong' if rank == 2 else 'right'}", RANKSHIM_WAIT_TIMEOUT=PATIENCE[rank % 2])
             for rank in range(3)]
    assert nodes[2].wait(90) == 75, nodes[2].transcript()
    assert "has another token, or belongs to another job; give all nodes the same --job-token-file" in last_line(nodes[2])
    for node in nodes[:2]:
        assert node.wait(90) == 75, node.transcript()
        assert re.search(r"time: node 2; node 2 \(job-node-2, .*\) did not prove that it knows the job's token", last_line(node))
        assert not node.stdout


@pytest.mark.parametrize("lost", [0, 2])
def test_a_pod_that_is_killed_is_lost_after_2_seconds_where_the_workers_do_not_communicate(start, lost):
    nodes = [start(rank, WAITS) for rank in range(3)]
    for node in nodes:
        node.wait_line("UP", 30)
    nodes[lost].signal(signal.SIGKILL)
    killed = time.monotonic()
    for node in nodes[:lost] + nodes[lost + 1:]:
        assert node.wait(30) == 76, node.transcript()
        assert f"node {lost} (job-node-{lost}) was lost: its connection ended" in last_line(node)
        assert "within 2 s" in last_line(node)
    assert time.monotonic() - killed < 8  # less than where something between the nodes could have ended it


def test_a_network_that_is_gone_for_a_moment_ends_nobody(start, cluster, tmp_path):
    nodes = [start(rank, shell(f"echo UP; until [ -e {tmp_path}/go ]; do sleep 0.05; done")) for rank in range(3)]
    for node in nodes:
        node.wait_line("UP", 30)
    cluster[2].namespace.ip("link", "set", "eth0", "down")
    time.sleep(3)  # longer than a node that was killed has to come back
    cluster[2].namespace.ip("link", "set", "eth0", "up")
    (tmp_path / "go").touch()
    for node in nodes:
        assert node.wait(60) == 0, node.transcript()


def test_a_node_whose_network_is_cut_is_lost_and_ends_itself_too(start, cluster):
    nodes = [start(rank, WAITS, "--link-timeout=5s") for rank in range(3)]
    for node in nodes:
        node.wait_line("UP", 30)
    cluster[2].namespace.ip("link", "set", "eth0", "down")
    for node in nodes:
        assert node.wait(60) == 76, node.transcript()
    assert "node 2 (job-node-2) was lost" in last_line(nodes[0])
    assert "node 0 (job-node-0) was lost" in last_line(nodes[2])


def test_a_node_0_whose_rankshim_is_stopped_is_lost_and_nobody_waits_for_its_word(start):
    nodes = [start(rank, WAITS, "--link-timeout=3s") for rank in range(3)]
    for node in nodes:
        node.wait_line("UP", 30)
    nodes[0].signal(signal.SIGSTOP)
    for node in nodes[1:]:
        assert node.wait(60) == 76, node.transcript()
        assert "node 0 (job-node-0) was lost: its rankshim has not answered for 3 s" in last_line(node)
    nodes[0].signal(signal.SIGCONT)
    assert nodes[0].wait(60) == 76, nodes[0].transcript()
    assert re.search(r"node 0 \(job-node-0\) was lost: its rankshim was suspended for [\d.]+ s", last_line(nodes[0]))


@pytest.mark.parametrize("count", [2, 3])
def test_another_node_whose_rankshim_is_stopped_is_lost_and_says_itself_that_it_did_not_run(start, count):
    nodes = [start(rank, WAITS, "--link-timeout=3s", nodes=count) for rank in range(count)]
    for node in nodes:
        node.wait_line("UP", 30)
    nodes[1].signal(signal.SIGSTOP)
    for node in nodes[:1] + nodes[2:]:
        assert node.wait(60) == 76, node.transcript()
        assert "node 1 (job-node-1) was lost: its rankshim has not answered for 3 s, and it did not reconnect within 10 s" in last_line(node)
    nodes[1].signal(signal.SIGCONT)
    assert nodes[1].wait(60) == 76, nodes[1].transcript()
    assert re.search(r"node 1 \(job-node-1\) was lost: its rankshim was suspended for [\d.]+ s, ", last_line(nodes[1]))


def test_a_node_whose_network_recovers_late_hears_of_the_failure_and_does_not_blame_node_0(start, cluster, tmp_path):
    fails = shell(f"echo UP; [ $RANK = 1 ] || exec sleep 1000; until [ -e {tmp_path}/go ]; do sleep 0.05; done; exit 3")
    nodes = [start(rank, fails) for rank in range(3)]
    for node in nodes:
        node.wait_line("UP", 30)
    cluster[2].namespace.ip("link", "set", "eth0", "down")
    (tmp_path / "go").touch()
    assert nodes[1].wait(30) == 3
    nodes[0].wait_line("this node is stopped too", 30)
    until(lambda: "sleep 1000" not in nodes[0].tree().values(), "node 0's command has ended")
    time.sleep(2)  # longer than node 0 waits for those that it has told
    cluster[2].namespace.ip("link", "set", "eth0", "up")
    for node in (nodes[0], nodes[2]):
        assert node.wait(60) == 76, node.transcript()
        assert "node 1 (job-node-1) failed" in last_line(node)


@pytest.mark.torch
@pytest.mark.nightly  # test_readme.py has a torchrun that rankshim starts
@pytest.mark.parametrize("command", [pytest.param([], id="a script"), pytest.param(["torchrun"], id="torchrun by its name")])
def test_with_torchrun_the_failure_of_a_worker_ends_the_others_with_its_exception(start, tmp_path, torch, command):
    script = tmp_path / "train.py"
    script.write_text("import os, signal, time\n"
                      "def fail(*_): raise ValueError('boom')\n"
                      "signal.signal(signal.SIGUSR1, fail)\n"
                      "print('UP', os.environ['RANK'], flush=True)\n"
                      "time.sleep(1000)\n")
    nodes = [start(rank, [*command, str(script)], RANKSHIM_LAUNCHER="auto") for rank in range(3)]
    for node in nodes:
        node.wait_line("UP", LONG)
    nodes[2].signal(signal.SIGUSR1)
    told = [node.wait_line("this node is stopped too", LONG) for node in nodes[:2]]
    failed = nodes[2].wait_line("ValueError: boom", LONG)
    assert max(line.at for line in told) - failed.at < 15, "the others do not wait for a time-out"
    assert nodes[2].wait(LONG) == 1, nodes[2].transcript()
    for node in nodes[:2]:
        assert node.wait(LONG) == 76, node.transcript()
        assert "node 2 (job-node-2) failed: rank 2 exited with code 1: ValueError: boom" in last_line(node)


SAVES_TOGETHER = """\
import os, signal, sys, torch, torch.distributed as dist
asked = []
signal.signal(signal.SIGTERM, lambda *_: asked.append(True))
dist.init_process_group("gloo")
for step in range(10**6):
    stops = torch.tensor([len(asked)])
    dist.all_reduce(stops)
    if stops.item():
        open(os.path.join(sys.argv[1], os.environ["RANK"]), "w").write(str(step))
        print("SAVED", step, flush=True)
        break
    if step == 0:
        print("UP", flush=True)
dist.barrier()
"""


@pytest.mark.torch
@pytest.mark.parametrize("launcher", ["native", pytest.param("torchrun", marks=pytest.mark.nightly)])
def test_a_drain_of_one_node_lets_all_nodes_save_one_checkpoint_together(start, tmp_path, torch, launcher):
    script = tmp_path / "train.py"
    script.write_text(SAVES_TOGETHER)
    nodes = [start(rank, [str(script), str(tmp_path)], "--grace=60s", RANKSHIM_LAUNCHER=launcher) for rank in range(3)]
    for node in nodes:
        node.wait_line("UP", LONG)
    nodes[1].signal(signal.SIGTERM)
    codes = [node.wait(LONG) for node in nodes]
    assert codes == [76, 143, 76], [node.transcript() for node in nodes]
    assert len({(tmp_path / str(rank)).read_text() for rank in range(3)}) == 1


REDUCES_FOR_EVER = """\
import os, signal, sys, time, torch, torch.distributed as dist
fails = []
signal.signal(signal.SIGUSR1, lambda *_: fails.append(True))
dist.init_process_group("gloo")
try:
    for step in range(10**9):
        dist.all_reduce(torch.ones(1))
        if step == 0:
            print("UP", flush=True)
        if fails:
            raise ValueError("the loss is nan")
finally:
    dist.destroy_process_group()
    while fails and not os.path.exists(sys.argv[1]):  # as a logger that sends its last lines
        time.sleep(0.05)
"""


@pytest.mark.torch
@pytest.mark.nightly
@pytest.mark.parametrize("launcher", ["native", "torchrun"])
def test_a_worker_whose_peers_have_noticed_its_end_before_it_is_over_is_the_one_that_is_named(start, tmp_path, torch, launcher):
    script = tmp_path / "train.py"
    script.write_text(REDUCES_FOR_EVER)
    nodes = [start(rank, [str(script), f"{tmp_path}/go"], RANKSHIM_LAUNCHER=launcher) for rank in range(3)]
    for node in nodes:
        node.wait_line("UP", LONG)
    nodes[1].signal(signal.SIGUSR1)
    for node in (nodes[0], nodes[2]):
        node.wait_line("RuntimeError: ", LONG)  # of the worker, whose peer is gone
    (tmp_path / "go").touch()
    codes = [node.wait(LONG) for node in nodes]
    assert codes == [76, 1, 76], [node.transcript() for node in nodes]
    for node in (nodes[0], nodes[2]):
        assert "stopped: node 1 (job-node-1) failed: rank 1 exited with code 1: ValueError: the loss is nan" in last_line(node)
    assert "ValueError: the loss is nan" in last_line(nodes[1])


@pytest.mark.torch
def test_a_pod_that_is_killed_while_the_workers_communicate_is_lost_and_no_other_node_is_named(start, tmp_path, torch):
    script = tmp_path / "train.py"
    script.write_text(REDUCES_FOR_EVER)
    nodes = [start(rank, [str(script)]) for rank in range(3)]
    for node in nodes:
        node.wait_line("UP", LONG)
    nodes[2].signal(signal.SIGKILL)
    for node in nodes[:2]:
        assert node.wait(LONG) == 76, node.transcript()
        assert "node 2 (job-node-2) was lost: its connection ended" in last_line(node)
    assert nodes[0].report()["nodes"][2]["state"] == "lost"


def test_the_end_of_a_program_is_told_at_once_and_not_when_what_it_left_has_ended(start, tmp_path):
    """So the program that ended first is the one that is named, and keeps its code."""
    leaves = f"(trap '' TERM; until [ -e {tmp_path}/go ]; do sleep 0.05; done) & exit 3"
    program = {"RANKSHIM_LAUNCHER": "none", "RANKSHIM_LINK": "on", "RANKSHIM_LEFTOVER_GRACE": "100s"}
    nodes = [start(rank, shell(f"echo UP; [ $NODE_RANK = 0 ] || {{ {leaves}; }}; exec sleep 1000"), nodes=2, **program) for rank in range(2)]
    line = nodes[0].wait_line("this node is stopped too", 30).text
    assert nodes[0].wait(30) == 76, nodes[0].transcript()
    (tmp_path / "go").touch()
    assert "node 1 (job-node-1) failed: sh exited with code 3 after" in line and "left behind" not in line
    assert nodes[1].wait(30) == 3, nodes[1].transcript()


@pytest.mark.torch
def test_a_torchrun_that_is_killed_is_what_is_named_and_not_the_workers_that_end_for_it(start, tmp_path, torch):
    script = tmp_path / "train.py"
    script.write_text("import signal\nprint('UP', flush=True)\nsignal.pause()\n")
    nodes = [start(rank, [str(script)], nodes=2, RANKSHIM_LAUNCHER="torchrun", OMP_NUM_THREADS="1") for rank in range(2)]
    for node in nodes:
        node.wait_line("UP", LONG)
    agent = min(pid for pid, command in nodes[1].tree().items() if "torch.distributed.run" in command)
    os.kill(agent, signal.SIGKILL)
    assert [node.wait(LONG) for node in nodes] == [76, 137], [node.transcript() for node in nodes]
    assert "node 1 (job-node-1) failed: torchrun was killed by SIGKILL after" in last_line(nodes[0])
