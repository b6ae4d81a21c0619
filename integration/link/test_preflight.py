"""rankshim preflight: a check on all nodes, before the job."""

import pytest
from lib.process import last_line


@pytest.fixture
def check(start):
    """check(CMD, VARIABLE=VALUE): the three nodes' rankshims, when they have ended."""

    def check(command, **variables):
        nodes = [start(rank, [], "preflight", "--check", command, dashes=False, **variables) for rank in range(3)]
        for node in nodes:
            node.code = node.wait(60)
        return nodes

    return check


def test_a_check_that_succeeds_on_all_nodes_succeeds(check):
    nodes = check("echo CHECKED $NODE_RANK")
    assert [node.code for node in nodes] == [0, 0, 0], [node.transcript() for node in nodes]
    assert [node.stdout for node in nodes] == [f"CHECKED {rank}\n" for rank in range(3)]


def test_all_nodes_say_which_failed_the_check_and_how_after_it_has_run_on_each(check):
    nodes = check("sleep 0.$NODE_RANK; echo CHECKED $NODE_RANK; exit $((NODE_RANK * 3))")
    assert [node.code for node in nodes] == [76, 3, 6], [node.transcript() for node in nodes]
    assert [node.stdout for node in nodes] == [f"CHECKED {rank}\n" for rank in range(3)], "no node was ended for another"
    for node in nodes:
        line = last_line(node)
        assert "node 1 (job-node-1) failed: /bin/sh exited with code 3 after" in line
        assert "node 2 (job-node-2) failed: /bin/sh exited with code 6 after" in line


def test_the_jobs_own_settings_do_not_start_the_check_more_than_once(check):
    nodes = check("echo CHECKED; exit 3", RANKSHIM_JOB_RESTARTS="5", RANKSHIM_NPROC_PER_NODE="2", RANKSHIM_PRE_START="echo HOOK")
    assert [node.code for node in nodes] == [3, 3, 3]
    assert [node.stdout for node in nodes] == ["CHECKED\n"] * 3


@pytest.mark.parametrize(("words", "code", "what"), [
    (["preflight"], 64, "preflight needs a check"),
    (["preflight", "--check=exit 3", "x"], 64, "unexpected argument"),
    (["preflight", "--check=exit 3"], 3, "sh exited with code 3"),
    (["preflight", "--check=kill -KILL $$"], 137, "SIGKILL"),
])
def test_on_a_lone_node_it_is_the_checks_own_end(shim, words, code, what):
    done = shim(*words)
    assert done.wait(20) == code, done.transcript()
    assert what in done.stderr
