"""The whole job is started again in place (--job-restarts): the same pods, the same port, all nodes together."""

import json
import os
import signal
import textwrap

import pytest
from lib.events import until
from lib.process import Process, clean_environment, last_line, shell

LONG = 120


def fails(when, how="exit 3", rank=1):
    """Says which attempt it is; the worker of `rank` fails in those that fit."""
    return shell(f"echo UP $RANK $RANKSHIM_ATTEMPT $TORCHELASTIC_RESTART_COUNT; [ $RANK != {rank} ] || ! {when} || {how}")


def run(start, command, *options, **variables):
    nodes = [start(rank, command, *options, **variables) for rank in range(3)]
    codes = [node.wait(LONG) for node in nodes]
    return nodes, codes


def test_a_worker_that_fails_once_makes_all_nodes_start_again_and_the_job_ends_well(start):
    nodes, codes = run(start, fails("[ $RANKSHIM_ATTEMPT = 0 ]"), "--job-restarts=3")
    assert codes == [0, 0, 0], [node.transcript() for node in nodes]
    for rank, node in enumerate(nodes):
        assert node.stdout.endswith(f"UP {rank} 1 1\n")
        assert "next: restart 1 of 3" in node.stderr
        report = node.report()
        assert report["attempt"] == 1
        past = report["past_attempts"]
        assert [(one["attempt"], one["exit_code"]) for one in past] == [(0, 3 if rank == 1 else 76)]
        assert "exited with code 3" in past[0]["verdict"]


def test_the_lines_for_programs_have_the_attempt(start):
    nodes, codes = run(start, fails("[ $RANKSHIM_ATTEMPT = 0 ]"), "--job-restarts=3", "--log-format=json")
    assert codes == [0, 0, 0], [node.transcript() for node in nodes]
    for node in nodes:
        lines = [json.loads(line) for line in node.stderr.splitlines()]
        assert "attempt" not in lines[0] and lines[-1]["attempt"] == 1


def test_a_worker_that_always_fails_ends_the_job_when_the_restarts_are_used(start):
    nodes, codes = run(start, fails("true"), "--job-restarts=2")
    assert codes == [76, 3, 76]
    assert nodes[1].stdout == "UP 1 0 0\nUP 1 1 1\nUP 1 2 2\n"
    for node in nodes:
        assert node.report()["attempt"] == 2
        assert "2 of 2 restarts are used (--job-restarts)" in last_line(node)


@pytest.mark.parametrize(("how", "code", "options", "why"), [
    ("exit 2", 2, [], "exit code 2 is permanent (--permanent)"),
    ("kill -KILL $$", 137, ["--permanent=signal"], "signal is permanent (--permanent)"),
])
def test_a_permanent_failure_is_not_tried_again(start, how, code, options, why):
    nodes, codes = run(start, fails("true", how), "--job-restarts=2", *options)
    assert codes == [76, code, 76]
    for rank, node in enumerate(nodes):
        assert f"UP {rank} 1" not in node.stdout
        assert why in last_line(node)


def test_the_same_exception_of_the_same_rank_twice_within_a_minute_of_the_start_ends_the_job(start, tmp_path):
    script = tmp_path / "train.py"
    script.write_text(textwrap.dedent("""\
        import os
        if os.environ["RANK"] == "1":
            raise ValueError("no such dataset")
        import time
        time.sleep(1000)
        """))
    nodes, codes = run(start, [str(script)], "--job-restarts=5")
    assert codes == [76, 1, 76]
    for node in nodes:
        assert "the same exception has ended it twice in a row" in last_line(node)
        assert node.report()["attempt"] == 1


@pytest.mark.parametrize("lost", [0, 2])
def test_a_node_whose_pid_1_is_killed_comes_back_and_joins_the_next_attempt(start, lost):
    waits_once = shell("echo UP $RANK $RANKSHIM_ATTEMPT; [ $RANKSHIM_ATTEMPT != 0 ] || exec sleep 1000")
    nodes = [start(rank, waits_once, "--job-restarts=1") for rank in range(3)]
    for node in nodes:
        node.wait_line("UP", 30)
    nodes[lost].signal(signal.SIGKILL)
    nodes[lost].wait(20)
    nodes[lost] = start(lost, waits_once, "--job-restarts=1")  # as its kubelet does
    for rank, node in enumerate(nodes):
        assert node.wait(LONG) == 0, node.transcript()
        assert f"UP {rank} 1\n" in node.stdout
        assert node.report()["attempt"] == 1


@pytest.mark.parametrize("last", ["exec sleep 1000", "exec python3 -c 'import socket, time; socket.create_server((\"\", 29500)); time.sleep(1000)'"])
def test_a_container_that_is_started_anew_shows_at_once_that_the_one_before_is_lost(start, last):
    """Whether node 0's workers have the master's port or nobody has it."""
    script = shell(f"echo UP $RANK $RANKSHIM_ATTEMPT; [ $RANKSHIM_ATTEMPT = 0 ] || exit 0; [ $RANK != 0 ] || {last}; exec sleep 1000")
    nodes = [start(rank, script, "--job-restarts=1") for rank in range(3)]
    for node in nodes:
        node.wait_line("UP", 30)
    nodes[2].signal(signal.SIGKILL)
    nodes[2].wait(20)
    nodes[2] = start(2, script, "--job-restarts=1")
    for rank, node in enumerate(nodes):
        assert node.wait(LONG) == 0, node.transcript()
        assert f"UP {rank} 1\n" in node.stdout
    assert "node 2 (job-node-2) was lost: its connection ended, and it was restarted" in nodes[1].stderr


def test_node_0_may_come_back_in_another_place(start, cluster, network):
    """All but node 0 seek it where it was, before they ask for its name again."""
    waits_once = shell("echo UP $RANK $RANKSHIM_ATTEMPT; [ $RANKSHIM_ATTEMPT != 0 ] || exec sleep 1000")
    nodes = [start(rank, waits_once, "--job-restarts=1") for rank in range(3)]
    for node in nodes:
        node.wait_line("UP", 30)
    cluster.append(network.node("job-node-0"))
    nodes[0].signal(signal.SIGKILL)
    nodes[0].wait(20)
    network.records.publish("job-node-0", cluster[3])
    nodes[0] = start(0, waits_once, "--job-restarts=1", place=3)
    for node in nodes:
        assert node.wait(LONG) == 0, node.transcript()


def test_a_stop_from_outside_is_not_tried_again(start):
    nodes = [start(rank, shell("echo UP; exec sleep 1000"), "--job-restarts=5") for rank in range(3)]
    for node in nodes:
        node.wait_line("UP", 30)
    nodes[1].signal(signal.SIGTERM)
    assert [node.wait(30) for node in nodes] == [76, 143, 76]
    assert all("started again" not in node.stderr for node in nodes)


@pytest.mark.parametrize(("rank", "number", "launcher", "code", "why"), [
    (1, signal.SIGTERM, "native", 3, "exited with code 3"),
    (2, signal.SIGTERM, "native", 143, "node 1 (job-node-1) failed"),
    (2, signal.SIGINT, "native", 130, "node 1 (job-node-1) failed"),
    (2, signal.SIGTERM, "none", 143, "node 1 (job-node-1) failed"),
])
def test_a_stop_of_a_node_that_waits_for_node_0_is_its_end_and_the_others_name_it(
        start, shim, tmp_path, rank, number, launcher, code, why):
    """Node 0 takes its time to stop. The program of node 2 has ended with 0 meanwhile, as one that saves does."""
    slow = f"trap 'echo LATE; until [ -e {tmp_path}/go ]; do sleep 0.05; done; exit 0' TERM; touch {tmp_path}/0"
    fails = f"until [ -e {tmp_path}/0 ] && [ -e {tmp_path}/2 ]; do sleep 0.05; done; exit 3"
    saves = f"trap 'exit 0' TERM; touch {tmp_path}/2"
    script = shell(f"case $NODE_RANK in 0) {slow};; 1) {fails};; 2) {saves};; esac; while :; do sleep 0.05; done")
    folders = [tmp_path / f"run{rank}" for rank in range(3)]
    for folder in folders:
        folder.mkdir()
    nodes = [start(node, script, "--job-restarts=5", f"--run-dir={folders[node]}", RANKSHIM_LAUNCHER=launcher) for node in range(3)]
    nodes[0].wait_line("LATE", 30)

    def has_ended():
        status = shim("status", f"--run-dir={folders[0]}")
        return status.wait(20) == 0 and "exit_code" in json.loads(status.stdout)["nodes"][rank]

    until(has_ended, "node 0 knows that the node has ended")
    stopped = nodes.pop(rank)
    stopped.signal(number)
    assert stopped.wait(30) == code, stopped.transcript()
    assert f"{number.name} arrived while this node waited for the others" in last_line(stopped)
    assert why in last_line(stopped)
    (tmp_path / "go").touch()
    for node in nodes:
        assert node.wait(30) in (3, 76), node.transcript()
        assert f"not restarted: node {rank} (job-node-{rank}) was stopped ({number.name})" in last_line(node)
        assert "with code 3" in last_line(node)


def test_a_stop_of_a_program_that_then_ends_with_0_keeps_all_from_starting_again(start, tmp_path):
    """It has had a TERM because of node 1 before, and the signal that is no stop ends nothing."""
    saves = f"trap 'echo LATE' TERM; trap 'echo USR' USR1; touch {tmp_path}/0; until [ -e {tmp_path}/go ]; do sleep 0.05; done; exit 0"
    script = shell(f"case $NODE_RANK in 0) {saves};; 1) until [ -e {tmp_path}/0 ]; do sleep 0.05; done; exit 3;; "
                   "2) exec sleep 1000;; esac")
    nodes = [start(rank, script, "--job-restarts=5", RANKSHIM_LAUNCHER="none", RANKSHIM_LINK="on") for rank in range(3)]
    nodes[0].wait_line("LATE", 30)
    nodes[1].signal(signal.SIGUSR1)
    nodes[0].signal(signal.SIGTERM)
    nodes[0].wait_line("LATE", 30, since=len(nodes[0].lines))
    (tmp_path / "go").touch()
    assert [node.wait(30) for node in nodes] == [0, 3, 76], [node.transcript() for node in nodes]
    for node in nodes[1:]:
        assert "not restarted: node 0 (job-node-0) was stopped (SIGTERM)" in last_line(node)


@pytest.mark.parametrize("stopped", [0, 2])
def test_a_node_that_is_stopped_while_all_meet_again_is_named_by_the_others(start, cluster, stopped):
    """Node 1 does not come back, so that the others wait. A signal that is no stop was for the last command."""
    script = shell("echo UP $RANK $RANKSHIM_ATTEMPT; exec sleep 1000")
    nodes = [start(rank, script, "--job-restarts=5") for rank in range(3)]
    for node in nodes:
        node.wait_line("UP", 30)
    nodes[1].signal(signal.SIGKILL)
    for node in (nodes[0], nodes[2]):
        node.wait_line("waiting for 1 of 3 nodes: node 1", 60)
    nodes[stopped].signal(signal.SIGUSR1)
    nodes[stopped].signal(signal.SIGTERM)
    assert nodes[stopped].wait(30) == 143, nodes[stopped].transcript()
    assert "SIGTERM while waiting for the other nodes" in last_line(nodes[stopped])
    other = nodes[2 - stopped]
    assert other.wait(30) == 76, other.transcript()
    assert f"node {stopped} (job-node-{stopped}) was stopped (SIGTERM)" in last_line(other)
    cause = other.report()["root_cause"]
    assert (cause["who"], cause["node_rank"], cause["host"]) == ("node", stopped, f"job-node-{stopped}")
    assert nodes[stopped].report()["root_cause"] is None, "a stop is no failure"
    for node in (other, nodes[stopped]):
        assert [past["attempt"] for past in node.report()["past_attempts"]] == [0]


def test_attempts_that_end_soon_are_followed_by_a_pause_for_all_nodes_and_a_stop_ends_it(start):
    nodes = [start(rank, fails("true"), "--job-restarts=9") for rank in range(3)]
    for node in nodes:
        node.wait_line("restart 2 of 9, after a pause of 2", 60)
    nodes[2].signal(signal.SIGTERM)
    for rank, node in enumerate(nodes):
        assert node.wait(30) == (143 if rank == 2 else 76), node.transcript()
        assert f"UP {rank} 2" not in node.stdout
    assert "UP 1 1 1" in nodes[1].stdout  # which ends each attempt, maybe before the others have printed


def test_a_lone_nodes_pause_ends_with_a_stop(rankshim):
    with Process([rankshim, "--platform=none", "--job-restarts=9", "--", "sh", "-c", "echo UP; exit 3"], clean_environment()) as node:
        node.wait_line("restart 2 of 9, after a pause of 2", 30)
        node.signal(signal.SIGTERM)
        assert node.wait(30) == 143
        assert "SIGTERM before the next attempt" in last_line(node)
        assert node.stdout == "UP\nUP\n"


def test_what_an_attempt_leaves_in_shared_memory_is_gone_before_the_next(cluster, rankshim):
    script = shell("ls /dev/shm | grep -e nccl -e psm; echo $RANKSHIM_ATTEMPT; "
                   "for name in nccl- psm_; do echo x >/dev/shm/$name$RANKSHIM_ATTEMPT; done; [ $RANKSHIM_ATTEMPT = 1 ] || exit 3")
    own = ["unshare", "--ipc", "--mount", "sh", "-c", 'mount -t tmpfs none /dev/shm; echo x >/dev/shm/nccl-before; exec "$@"', "sh"]
    node = cluster[0].start([*own, rankshim, "--job-restarts=1", "--nnodes=1", "--", *script], {})
    assert node.wait(30) == 0, node.transcript()
    assert node.stdout == "nccl-before\n0\nnccl-before\npsm_0\n1\n"
    assert "removed what the last attempt left: 1 file of 0 MiB in /dev/shm (nccl-0)" in node.stderr
    assert "may have left 1 file of 0 MiB in /dev/shm (psm_0)" in node.stderr


def test_different_numbers_of_restarts_are_refused(start):
    """Else the nodes that are started again would wait for the others in vain."""
    nodes = [start(rank, shell("echo UP"), *(["--job-restarts=2"] if rank != 2 else [])) for rank in range(3)]
    for node in nodes:
        assert node.wait(30) == 78, node.transcript()
        assert 'has --job-restarts none, node 0 (job-node-0) has 2' in last_line(node).replace('"', "")


def test_each_attempt_inherits_the_same_descriptors_and_limits(cluster, rankshim, tmp_path):
    """The link raises the limit of open files on node 0, and the secondary work closes what was passed on."""
    folders = [tmp_path / f"run{rank}" for rank in range(2)]
    nodes = []
    for rank, folder in enumerate(folders):
        folder.mkdir()
        inner = (f'echo $RANKSHIM_ATTEMPT $(ulimit -Sn) >&7; until "{rankshim}" status --run-dir={folder} >&2; do sleep 0.05; done; '
                 f"until [ -s {folders[0]}/seven -a -s {folders[1]}/seven ]; do sleep 0.05; done; "  # the first failure ends both
                 "[ $RANKSHIM_ATTEMPT = 1 ] || exit 3; exit 0")
        options = f"--job-restarts=1 --run-dir={folder} --nnodes=2 --node-rank={rank} --master-addr=job-node-0"
        nodes.append(cluster[rank].start(
            ["bash", "-c", f"ulimit -Sn 100; exec 7>>{folder}/seven; exec \"{rankshim}\" {options} -- sh -c '{inner}'"], {}))
    for node in nodes:
        assert node.wait(LONG) == 0, node.transcript()
    for folder in folders:
        assert (folder / "seven").read_text() == "0 100\n1 100\n"


ACCELERATOR_IN_USE = """
mkdir {0}; mount -t tmpfs none {0}; cp -a /dev/null /dev/urandom {0}; touch {0}/nvidia0; mount --bind {0} /dev
exec 9</dev/nvidia0; sleep 1000 & exec 9<&-; exec "$@"
"""  # by a process of the container that is not the command's


@pytest.mark.parametrize("end", ["it is free", "a stop comes"])
def test_before_the_next_attempt_rankshim_waits_for_an_accelerator_that_is_in_use(cluster, rankshim, tmp_path, end):
    script = shell("echo UP $RANKSHIM_ATTEMPT; [ $RANKSHIM_ATTEMPT = 1 ] || exit 3")
    node = cluster[0].start(["bash", "-c", ACCELERATOR_IN_USE.format(tmp_path / "dev"), "bash", rankshim, "--job-restarts=1",
                             "--nnodes=1", "--", *script], {})
    node.wait_line(r"for the accelerators, which are in use \(/dev/nvidia0: \w+ \(pid \d+\)\)", 30)
    if end == "it is free":
        until(lambda: "sleep 1000" in node.tree().values(), "the process beside the job is there")
        os.kill(next(pid for pid, command in node.tree().items() if command == "sleep 1000"), signal.SIGKILL)
        assert node.wait(30) == 0, node.transcript()
        assert node.stdout == "UP 0\nUP 1\n"
    else:
        node.signal(signal.SIGTERM)
        assert node.wait(30) == 143, node.transcript()
        assert node.stdout == "UP 0\n"
        assert last_line(node).endswith("SIGTERM before the next attempt; nothing was started; this was restart 1 of 1; "
                                        "the attempt before: sh exited with code 3 after 0.0 s")


@pytest.mark.parametrize("stopped", [0, 2])
def test_a_node_that_is_stopped_before_all_meet_again_is_named_by_the_others(cluster, rankshim, tmp_path, stopped):
    """It has left the last attempt, and waits for an accelerator before it joins the next."""
    script = shell("[ $RANK != 1 ] || exit 3; exec sleep 1000")
    nodes = []
    for rank in range(3):
        waits = ["bash", "-c", ACCELERATOR_IN_USE.format(tmp_path / "dev"), "bash"] if rank == stopped else []
        nodes.append(cluster[rank].start([*waits, rankshim, "--job-restarts=5", "--launcher=native", "--nnodes=3", f"--node-rank={rank}",
                                          "--nproc-per-node=1", "--master-addr=job-node-0", "--", *script], {}))
    nodes[stopped].wait_line("for the accelerators", 30)
    nodes[stopped].signal(signal.SIGUSR1)  # which was for the last command
    nodes[stopped].signal(signal.SIGTERM)
    for rank, node in enumerate(nodes):
        assert node.wait(30) == (143 if rank == stopped else 76), node.transcript()
        if rank != stopped:
            assert f"node {stopped} (job-node-{stopped}) was stopped (SIGTERM)" in last_line(node)


def test_the_termination_log_says_nothing_of_an_attempt_that_is_over(start, tmp_path):
    """If the container is killed now, its kubelet would show that."""
    script = shell("echo UP $RANKSHIM_ATTEMPT; [ $RANKSHIM_ATTEMPT != 0 ] || [ $RANK != 1 ] || exit 3; exec sleep 1000")
    nodes = [start(rank, script, "--job-restarts=1", f"--termination-log={tmp_path}/log{rank}") for rank in range(3)]
    for node in nodes:
        node.wait_line("UP 1", 30)
    assert (tmp_path / "log2").read_text() == ""


def test_fifty_restarts_in_a_row_leave_nothing_behind(start):
    nodes, codes = run(start, fails("[ $RANKSHIM_ATTEMPT -lt 50 ]"), "--job-restarts=50", "--restart-pause=0")
    assert codes == [0, 0, 0], [node.transcript()[-3000:] for node in nodes]
    for rank, node in enumerate(nodes):
        assert node.stdout.split("\n")[-2] == f"UP {rank} 50 50"
        assert len(node.report()["past_attempts"]) == 50


def test_two_failures_in_one_moment_are_one_restart(start):
    both = shell("echo UP $RANK; [ $RANKSHIM_ATTEMPT != 0 ] || [ $RANK = 2 ] || exit 3; exit 0")
    nodes, codes = run(start, both, "--job-restarts=1")
    assert codes == [0, 0, 0], [node.transcript() for node in nodes]


def test_nodes_on_one_machine_keep_one_port_in_each_attempt(rankshim):
    """A lone native node takes another port for each attempt."""
    nodes = [Process([rankshim, "--nnodes=2", f"--node-rank={rank}", "--nproc-per-node=1", "--master-addr=127.0.0.1", "--launcher=native",
                      "--run-id=one-port", "--job-restarts=1", "--", *shell("echo $MASTER_PORT; exit $((RANK * (1 - RANKSHIM_ATTEMPT)))")],
                     clean_environment()) for rank in range(2)]
    assert [node.wait(60) for node in nodes] == [0, 0], [node.transcript() for node in nodes]
    assert len({port for node in nodes for port in node.stdout.split()}) == 1


@pytest.mark.parametrize(("options", "what"), [
    (["--max-restarts=1", "--launcher=torchrun"], "each of them starts the workers again"),
    (["--link=off"], "every node must know of a failure"),
    (["--rdzv-backend=c10d", "--launcher=torchrun"], "an elastic job's torchrun"),
])
def test_what_cannot_be_started_again_as_a_whole_is_refused(shim, options, what):
    done = shim("explain", "--nnodes=3", "--node-rank=1", "--master-addr=m", "--job-restarts=2", *options, "--", "train.py")
    assert done.wait(20) == 78
    assert what in done.stderr


@pytest.mark.nightly
@pytest.mark.torch
def test_with_torchrun_too(start, tmp_path, torch):
    script = tmp_path / "train.py"
    script.write_text(textwrap.dedent("""\
        import os, torch, torch.distributed as dist
        dist.init_process_group("gloo")
        ranks = torch.tensor([dist.get_rank()])
        dist.all_reduce(ranks)
        print("SUM", ranks.item(), os.environ["RANKSHIM_ATTEMPT"], flush=True)
        if os.environ["RANKSHIM_ATTEMPT"] == "0" and dist.get_rank() == 2:
            raise ValueError("boom")
        dist.barrier()
        dist.destroy_process_group()
        """))
    nodes, codes = run(start, [str(script)], "--job-restarts=1", RANKSHIM_LAUNCHER="torchrun")
    assert codes == [0, 0, 0], [node.transcript() for node in nodes]
    for node in nodes:
        assert node.stdout == "SUM 3 0\nSUM 3 1\n"
        assert "node 2 (job-node-2) failed" in node.stderr or node is nodes[2]
