"""Before the launch: who is in the way of a job, and which node cannot take part, is named on all nodes; nobody else ends for it."""

import os
import pathlib
import re
import resource
import sys

import pytest

from lib.events import until
from lib.process import last_line, shell
from link.conftest import MASTER, PORT

LONG = 120
UP = shell("echo UP; exec sleep 1000")
SHORTLY = {"RANKSHIM_WAIT_TIMEOUT": "8s"}


def all_up(nodes):
    for node in nodes:
        node.wait_line("^UP", LONG)
        assert "without a link" not in node.stderr


# --- strangers ---


def test_a_node_of_another_job_in_the_place_of_one_that_is_late_is_refused_alone(start, cluster):
    """As many have come as are waited for. It goes on looking for its own node 0 until its time is over."""
    first, third = start(0, UP), start(2, UP)
    first.wait_line("waiting for 1 of 3 nodes: node 1", LONG)
    other = start(1, UP, RANKSHIM_RUN_ID="another", RANKSHIM_REPORT="", **SHORTLY)
    says = f"node 1 (job-node-1, {cluster[1].address}) has run id another, node 0 has another; "
    for node in (first, other):
        node.wait_line(re.escape(says), LONG)
    all_up([first, start(1, UP), third])
    assert other.wait(LONG) == 75, other.transcript()
    assert f"node 0 at {MASTER}:{PORT} was not reached in time: {says}" in last_line(other)
    assert not other.stdout


def test_a_node_with_another_run_id_is_named_when_the_time_is_over(start, cluster):
    nodes = [start(rank, UP, RANKSHIM_RUN_ID="another" if rank == 2 else "one", **SHORTLY) for rank in range(3)]
    says = f"node 2 (job-node-2, {cluster[2].address}) has run id another, node 0 has another; "
    for rank, node in enumerate(nodes):
        assert node.wait(LONG) == 75, node.transcript()
        assert says in last_line(node)
        assert not node.stdout
        if rank != 2:
            assert "1 of 3 nodes did not join in time: node 2; " in last_line(node)


@pytest.mark.parametrize("stale", ["another job's node 0", "an older attempt's node 0"])
def test_a_masters_name_that_leads_to_a_stranger_for_a_while_is_asked_for_again(start, cluster, network, stale):
    requeued = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_JOB_NUM_NODES": "3", "SLURM_STEP_NUM_NODES": "3",
                "SLURM_STEP_NODELIST": "job-node-[0-2]", "SLURM_NTASKS": "3", "SLURM_RESTART_COUNT": "1"}
    cluster.append(network.node("stranger"))
    network.records.publish(MASTER, cluster[3])
    differs = {"RANKSHIM_RUN_ID": "another"} if stale.startswith("another") else {"SLURM_RESTART_COUNT": "0"}
    stranger = start(0, UP, place=3, **{**requeued, **differs})
    until(lambda: stranger.listens(PORT), "the stranger listens")
    nodes = [start(rank, UP, **requeued) for rank in (1, 2)]
    for node in nodes:
        node.wait_line(r"waiting for node 0 at .*: node \d \(job-node-\d, .*\) has (run id|attempt 1, node 0 \(stranger\))", LONG)
    network.records.publish(MASTER, cluster[0])
    all_up([*nodes, start(0, UP, **requeued)])
    assert not stranger.stdout
    assert stranger.popen.poll() is None, "it waits, too"


# --- a busy port ---

HOLDS = ("import socket, sys\ns = socket.create_server(('0.0.0.0', int(sys.argv[1])))\nprint('HOLDS', flush=True)\nkept = []\n"
         "while True: kept.append(s.accept())")


@pytest.fixture
def hold(cluster):
    """hold(): a process on node 0's network that has the master's port, outside node 0's own processes."""

    def hold():
        process = cluster[0].start_beside([sys.executable, "-c", HOLDS, str(PORT)], name="a holder")
        process.wait_line("HOLDS", LONG)
        return process

    return hold


IN_USE = f"waiting for the master's port {PORT}, which a process of user 0 in another container holds"


@pytest.mark.parametrize("options", [[], ["--link=on"], ["--job-restarts=1"]], ids=" ".join)
def test_a_masters_port_that_is_busy_is_waited_for(start, hold, options):
    holder = hold()
    nodes = [start(rank, UP, *options, nodes=2) for rank in range(2)]
    nodes[0].wait_line(IN_USE, LONG)
    nodes[1].wait_line("the port accepts the connection and does not answer", LONG)
    holder.kill()
    all_up(nodes)


IS_STORE = ("import socket\ns = socket.create_server(('0.0.0.0', int(sys.argv[1])))\nprint('HOLDS', flush=True)\nkept = []\n"
            "while True:\n kept.append(s.accept()[0])\n if len(kept[-1].recv(6)) == 6: kept[-1].sendall(b'\\1' + bytes(7))")


def test_nodes_whom_another_jobs_store_answers_find_their_own_node_0(start, cluster):
    store = cluster[0].start_beside([sys.executable, "-c", "import sys\n" + IS_STORE, str(PORT)], name="another job's store")
    store.wait_line("HOLDS", LONG)
    nodes = [start(rank, UP) for rank in range(3)]
    for node in nodes:
        node.wait_line(IN_USE, LONG)  # node 0 says so to all
    store.kill()
    all_up(nodes)
    for node in nodes:
        node.wait_line("all 3 nodes are here", LONG)  # it may be read later than what stdout had after it


@pytest.mark.parametrize("again", [False, True], ids=["at first", "in a restart"])
def test_a_masters_port_that_stays_busy_ends_all_nodes_with_75(start, hold, tmp_path, again):
    fails = shell(f"echo UP; until [ -e {tmp_path}/go ]; do sleep 0.05; done; exit $RANK")
    holder = None if again else hold()
    nodes = [start(rank, fails, "--job-restarts=1", "--grace=1s", nodes=2, **SHORTLY) for rank in range(2)]
    if again:
        all_up(nodes)
        holder = hold()
        (tmp_path / "go").touch()
    assert [node.wait(LONG) for node in nodes] == [75, 75], [node.transcript() for node in nodes]
    assert f"node 0 cannot listen on the master's port {PORT}, which a process of user 0 in another container holds: " in last_line(nodes[0])
    assert f"node 0 at {MASTER}:{PORT} was not reached in time: the port accepts the connection and does not answer" in last_line(nodes[1])
    holder.kill()


def test_the_holder_of_the_masters_port_is_named_where_it_is_in_the_same_container(cluster, rankshim):
    held = f"'{sys.executable}' -c \"{HOLDS}\" {PORT} >/held & until [ -s /held ]; do sleep 0.05; done; exec \"$@\""
    mounts = "mount -t tmpfs none /mnt; cd /mnt; " + held.replace("/held", "/mnt/held")
    environment = {"RANKSHIM_NODE_RANK": "0", "RANKSHIM_NNODES": "2", "RANKSHIM_LAUNCHER": "native", "RANKSHIM_MASTER_ADDR": MASTER,
                   "RANKSHIM_MASTER_PORT": str(PORT), **SHORTLY}
    node = cluster[0].start(["sh", "-c", mounts, "sh", rankshim, "--", *UP], environment)
    assert node.wait(LONG) == 75, node.transcript()
    assert re.search(rf"the master's port {PORT}, which python\S* \(pid \d+\) holds: .* \[R31\]$", last_line(node))


def test_a_number_of_nodes_that_no_job_has_is_refused(start):
    node = start(0, UP, nodes=10**9)
    assert node.wait(LONG) == 78, node.transcript()
    assert "RANKSHIM_NNODES=1000000000, and at most 65536 nodes can be linked: " in last_line(node)


# --- a node that cannot take part ---

# What is started, where, with which code it ends, and what all say.
FAILURES = {
    "a missing command": (["no-such-program"], {}, 127, "no-such-program was not found"),
    "a pre-start hook": (UP, {"RANKSHIM_PRE_START": "exit 7"}, 7, "the pre-start hook "),
    "an unknown variable": (UP, {"RANKSHIM_NO_SUCH": "1"}, 78, "unknown variable RANKSHIM_NO_SUCH"),
    "a value that cannot be read": (UP, {"RANKSHIM_GRACE": "soon"}, 78, "RANKSHIM_GRACE=soon is not "),
    "no accelerators": (UP, {"RANKSHIM_NPROC_PER_NODE": "gpu"}, 78, "RANKSHIM_NPROC_PER_NODE=gpu"),
}


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("failure", FAILURES)
def test_a_node_that_cannot_take_part_ends_all_at_once_by_its_name(start, failure, rank):
    command, variables, code, says = FAILURES[failure]
    others = [start(other, UP) for other in range(3) if other != rank]
    others[-1].wait_line("waiting for ", LONG)  # node 0, or for it
    failed = start(rank, command, **variables)
    assert failed.wait(LONG) == code, failed.transcript()
    for node in others:
        assert node.wait(LONG) == 76, node.transcript()
        assert f"node {rank} (job-node-{rank}) failed: " in last_line(node) and says in last_line(node)
        assert node.report()["root_cause"]["node_rank"] == rank
        assert node.report()["root_cause"]["exit_code"] == code


def test_a_node_to_which_the_system_refuses_the_start_after_the_meeting_ends_all_by_its_name(start):
    """It may open no further file, and is connected already."""
    others = [start(rank, UP) for rank in (0, 2)]
    failed = others.pop()
    failed.wait_line("waiting for 1 of 3 nodes: node 1", LONG)
    opened = {int(name) for name in os.listdir(f"/proc/{failed.init}/fd")}
    free = next(number for number in range(len(opened) + 1) if number not in opened)
    resource.prlimit(failed.init, resource.RLIMIT_NOFILE, (free, free))
    others.append(start(1, UP))
    assert failed.wait(LONG) == 71, failed.transcript()
    for node in others:
        assert node.wait(LONG) == 76, node.transcript()
        refused = r"node 2 \(job-node-2\) failed: the system refused .*: (Too many open files|No file descriptors available)"  # of glibc, musl
        assert re.search(refused, last_line(node))
        assert node.report()["root_cause"]["exit_code"] == 71


def test_a_node_that_lacks_memory_for_the_start_after_the_meeting_ends_all_by_its_name(start):
    """It may have no further memory, and its command's environment needs more than what is free."""
    others = [start(0, UP)]
    failed = start(2, UP, **{f"LARGE_{number}": 100_000 * "x" for number in range(16)})
    failed.wait_line("waiting for 1 of 3 nodes: node 1", LONG)
    size = int(re.search(r"VmSize:\s+(\d+) kB", pathlib.Path(f"/proc/{failed.init}/status").read_text())[1]) << 10
    resource.prlimit(failed.init, resource.RLIMIT_AS, (size, size))
    others.append(start(1, UP))
    assert failed.wait(LONG) == 71, failed.transcript()
    for node in others:
        assert node.wait(LONG) == 76, node.transcript()
        says = "node 2 (job-node-2) failed: the system refused a resource that starting the command needs: "
        assert says in last_line(node), node.transcript()


@pytest.mark.parametrize("launcher", ["none", "native"])
@pytest.mark.parametrize("rank", [0, 1])
def test_a_program_that_cannot_be_executed_on_one_node_ends_all_by_its_name(start, tmp_path, rank, launcher):
    script = tmp_path / "script"
    script.write_text("#!/no/such/shell\n")
    script.chmod(0o700)
    for program, code, says in (("/etc/passwd", 126, "/etc/passwd cannot be executed: Permission denied"),
                                (str(script), 127, f"{script} cannot be executed: its interpreter /no/such/shell was not found")):
        nodes = [start(one, [program] if one == rank else UP, RANKSHIM_LAUNCHER=launcher, RANKSHIM_LINK="on") for one in range(3)]
        failed = nodes.pop(rank)
        assert failed.wait(LONG) == code, failed.transcript()
        assert says in last_line(failed)
        for node in nodes:
            assert node.wait(LONG) == 76, node.transcript()
            assert f"node {rank} (job-node-{rank}) failed: {says}" in last_line(node)
            assert says in node.report()["root_cause"]["reason"]


@pytest.mark.parametrize("rank", [0, 1])
def test_a_node_that_cannot_take_part_waits_a_little_for_those_that_come_after_it(start, rank):
    failed = start(rank, ["no-such-program"])
    failed.wait_line("notifying the other nodes that this node cannot join, for up to 10s", LONG)
    others = [start(other, UP) for other in range(3) if other != rank]
    for node in others:
        assert node.wait(LONG) == 76, node.transcript()
        assert f"node {rank} (job-node-{rank}) failed: no-such-program was not found" in last_line(node)
    assert failed.wait(LONG) == 127, failed.transcript()


def test_where_all_nodes_fail_alike_each_ends_with_its_own_code(start):
    nodes = [start(rank, ["no-such-program"]) for rank in range(3)]
    for node in nodes:
        assert node.wait(LONG) == 127, node.transcript()
        assert "no-such-program was not found" in last_line(node)


def test_a_stop_while_the_others_are_told_spares_the_post_stop_hook_and_ends_the_hold(start):
    # What was sent before the USR1 has come before it.
    hook = "trap 'echo HOOK; exit' USR1; kill -USR1 $PPID; while :; do sleep 0.02; done"
    failed = start(1, ["no-such-program"], f"--post-stop={hook}", "--hold-on-failure=30m")
    failed.wait_line("notifying the other nodes", LONG)
    failed.signal(15)
    assert failed.wait(5) == 127, failed.transcript()
    assert failed.stdout == "HOOK\n"


def test_a_node_that_cannot_take_part_and_is_stopped_ends_at_once(start):
    failed = start(1, ["no-such-program"])
    failed.wait_line("notifying the other nodes", LONG)
    failed.signal(15)
    assert failed.wait(5) == 127, failed.transcript()
