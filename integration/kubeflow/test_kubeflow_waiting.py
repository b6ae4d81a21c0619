"""Waiting for the master, as its pods do while records and ports appear."""

import re
import signal
import sys
import time

import pytest

from lib.events import until
from lib.kubeflow import PORT, operator_1_5, operator_1_9
from lib.network import DNS_ADDRESS, SEARCH, has_ipv6
from lib.requirements import needs_strace

MASTER = "job-master-0"
# Waits as a script does, without an interpreter that has torch.
NEVER_STARTED = ["--wait=port", "--", "true"]
UNREACHABLE, TERMINATED = 75, 143
# rankshim's line about a wait; its exact wording is not tested.
WAITING = rf"(?i)wait.*{MASTER}"

LISTEN = """
import socket
server = socket.create_server(("", int(PORT)), family=socket.AF_INET6, dualstack_ipv6=True)
print("listening", flush=True)
taken = []
while True:
    taken.append(server.accept()[0])
    if CLOSES: taken.pop().close()
    print("accepted", flush=True)
"""


def listen(node, *, closes=False):
    """A listener on the master's port; with `closes` it takes connections and ends them, as a mesh's
    proxy does whose upstream is not there."""
    program = LISTEN.replace("PORT", PORT).replace("CLOSES", str(closes))
    listener = node.start_beside([sys.executable, "-I", "-S", "-c", program], name="listener")
    listener.wait_line("listening")
    return listener


@pytest.fixture
def cluster(network):
    """A master and a worker; the name server is for the test to choose."""
    network.master, network.worker = network.node(MASTER), network.node("job-worker-0")
    return network


def worker_env(master=MASTER):
    return operator_1_5(1, 2, master)


@pytest.mark.alone
def test_a_program_starts_as_soon_as_the_masters_record_appears(cluster, rankshim):
    dns = cluster.dns()
    worker = cluster.worker.start([rankshim, "--", "sh", "-c", "echo STARTED $NODE_RANK"], worker_env())
    waiting = worker.wait_line(WAITING, stream="stderr")
    assert not worker.stdout, "started before the master's name was known"
    dns.publish(MASTER, cluster.master)
    published = time.monotonic()
    started = worker.wait_line("STARTED 1", stream="stdout")
    assert worker.wait() == 0
    assert waiting.at < published < started.at
    # A loop with `sleep 2` would take longer. The limit is generous, because the machine may be busy.
    assert started.at - published < 3


def test_the_master_waits_for_its_own_name_too(cluster, rankshim):
    dns = cluster.dns()
    # A pod whose own name is not in its /etc/hosts: torchrun on the master connects by name as well.
    cluster.master.hosts("127.0.0.1 localhost\n")
    master = cluster.master.start([rankshim, "--", "echo", "STARTED"], operator_1_5(0, 2, MASTER))
    master.wait_line(WAITING)
    dns.publish(MASTER, cluster.master)
    master.wait_line("STARTED")
    assert master.wait() == 0


def test_a_master_whose_address_is_localhost_waits_for_nothing(cluster, rankshim):
    cluster.dns()
    master = cluster.master.run([rankshim, "--", "echo", "STARTED"], operator_1_5(0, 2, "localhost"))
    assert (master.code, master.stdout) == (0, "STARTED\n")
    assert not re.search("(?i)waiting", master.stderr)


# The forms in which a pod may have its master's name, and how each is found.
NAMES = {
    "a pod's name, by the search list": MASTER,
    "a name and its namespace": f"{MASTER}.default.svc",
    "the full name": f"{MASTER}.default.svc.cluster.local",
    "the full name with a trailing dot": f"{MASTER}.default.svc.cluster.local.",
}


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES.keys())
def test_names_are_found_as_a_resolver_would(cluster, rankshim, name):
    cluster.dns().publish(MASTER, cluster.master)
    done = cluster.worker.run([rankshim, "wait", "--wait=dns", "--wait-timeout=60s"], worker_env(name))
    assert done.code == 0, done.transcript()


def questions(dns, name, times):
    """All names that were asked for so far, as soon as this one was, for A and AAAA, so many times: the server's log comes
    to us a moment later."""
    def asked():
        return [query.split()[1] for query in dns.queries()]

    return until(lambda: (names := asked()).count(name) >= times and names, "the name server's log")


def test_few_dots_are_tried_with_the_search_list_first_and_many_dots_as_they_are(cluster, rankshim):
    dns = cluster.dns()
    full = f"{MASTER}.default.svc.cluster.local"  # four dots: fewer than ndots:5
    dns.publish(MASTER, cluster.master)
    assert cluster.worker.run([rankshim, "wait", "--wait=dns"], worker_env(full)).code == 0
    asked = questions(dns, full, 2)
    assert asked[0] == f"{full}.default.svc.cluster.local" and asked[-1] == full
    cluster.worker.resolv_conf(f"search {SEARCH}\nnameserver {DNS_ADDRESS}\noptions ndots:2\n")
    assert cluster.worker.run([rankshim, "wait", "--wait=dns"], worker_env(full)).code == 0
    assert set(questions(dns, full, 4)[len(asked):]) == {full}


def test_a_socket_that_cannot_be_watched_for_a_moment_is_tried_again(cluster, rankshim, tmp_path):
    """The kernel refuses epoll_ctl(2) where memory or a user's watches are used up."""
    needs_strace()
    cluster.dns().publish(MASTER, cluster.master)
    trace = tmp_path / "trace"

    def calls(*injection):
        strace = ["strace", "-qq", "-o", str(trace), "-e", "trace=epoll_ctl,connect", *injection]
        done = cluster.worker.run([*strace, rankshim, "wait", "--wait=dns"], worker_env())
        assert done.code == 0, done.transcript()
        return trace.read_text().splitlines()

    lines = calls()
    asks = next(number for number, line in enumerate(lines) if "htons(53)" in line)
    before = sum(line.startswith("epoll_ctl(") for line in lines[:asks])
    for call in (before + 1, before + 2):  # the sockets for A and for AAAA
        assert "(INJECTED)" in "".join(calls("-e", f"inject=epoll_ctl:error=ENOSPC:when={call}"))


def test_the_hosts_file_is_enough(cluster, rankshim):
    dns = cluster.dns()
    cluster.worker.hosts(f"127.0.0.1 localhost\n{cluster.master.address} {MASTER}.job {MASTER}\n")
    assert cluster.worker.run([rankshim, "wait", "--wait=dns"], worker_env()).code == 0
    assert dns.queries() == []


def test_an_address_needs_no_name_server(cluster, rankshim):
    listen(cluster.master)
    done = cluster.worker.run([rankshim, "wait", "--wait=port"], worker_env(cluster.master.address))
    assert done.code == 0, done.transcript()


def test_an_ipv6_only_master_is_found_and_reached(cluster, rankshim):
    if not has_ipv6():
        pytest.skip("no IPv6 in this kernel")
    cluster.dns().publish(MASTER, cluster.master.address6)
    listen(cluster.master)
    done = cluster.worker.run([rankshim, "wait", "--wait=port", "--wait-timeout=60s"], worker_env())
    assert done.code == 0, done.transcript()
    for literal in (cluster.master.address6, f"[{cluster.master.address6}]"):
        done = cluster.worker.run([rankshim, "wait", "--wait=port", "--wait-timeout=60s"], worker_env(literal))
        assert done.code == 0, done.transcript()


def test_an_address_that_does_not_answer_does_not_hide_one_that_does(cluster, rankshim):
    cluster.dns().publish(MASTER, "10.244.0.99", cluster.master.address)
    listen(cluster.master)
    done = cluster.worker.run([rankshim, "wait", "--wait=port", "--wait-timeout=60s"], worker_env())
    assert done.code == 0, done.transcript()


def test_a_line_is_logged_when_the_reason_changes_from_the_name_to_the_port(cluster, rankshim, tmp_path):
    dns = cluster.dns()
    worker = cluster.worker.start([rankshim, "wait", "--wait=port", f"--run-dir={tmp_path}"], worker_env())
    worker.wait_line(rf"{WAITING}:{PORT}: no such name")
    named = len(worker.lines)
    dns.publish(MASTER, cluster.master)
    worker.wait_line(rf"{MASTER}:{PORT}: resolves to {cluster.master.address}, port closed", since=named)
    closed = len(worker.lines)
    listener = listen(cluster.master)
    assert worker.wait() == 0
    listener.wait_line("accepted")
    # A line for each, whatever the number of tries was.
    assert (named, closed, len(worker.lines)) == (1, 2, 3), worker.transcript()
    assert f"{MASTER}:{PORT} is open" in worker.lines[-1].text


def test_a_port_that_takes_and_drops_connections_is_not_open(cluster, rankshim):
    cluster.dns().publish(MASTER, cluster.master)
    listener = listen(cluster.master, closes=True)
    worker = cluster.worker.start([rankshim, "wait", "--wait=port", "--wait-timeout=4s"], worker_env())
    listener.wait_line("accepted")
    assert worker.wait() == UNREACHABLE
    last = worker.stderr.splitlines()[-1]
    assert f"{MASTER}:{PORT} not reached" in last and "the port accepts and closes the connection" in last, last


def test_a_name_that_never_appears_ends_in_75_with_what_was_asked(cluster, rankshim):
    cluster.dns()
    worker = cluster.worker.run([rankshim, "--wait-timeout=3s", "--", "echo", "STARTED"], worker_env())
    assert worker.code == UNREACHABLE
    assert worker.stdout == ""
    last = worker.stderr.splitlines()[-1]
    assert MASTER in last and DNS_ADDRESS in last and re.search("(?i)(NXDOMAIN|no such name).* \\[R26]$", last)


def test_a_port_that_never_opens_ends_in_75_with_the_port(cluster, rankshim):
    cluster.dns().publish(MASTER, cluster.master)
    worker = cluster.worker.run([rankshim, "--wait-timeout=3s", *NEVER_STARTED], worker_env())
    assert worker.code == UNREACHABLE
    last = worker.stderr.splitlines()[-1]
    assert PORT in last and MASTER in last and re.search("(?i)refused.* \\[R28]$", last)


@pytest.mark.parametrize("behaviour, words", [("servfail", "(?i)servfail|server failure"),
                                             ("silent", "(?i)no answer|timed? ?out|timeout")])
def test_a_broken_name_server_is_distinguished_from_an_unknown_name(cluster, rankshim, behaviour, words):
    dns = cluster.broken_dns(behaviour)
    worker = cluster.worker.start([rankshim, "wait", "--wait=dns", "--wait-timeout=3s"], worker_env())
    dns.wait_query(f"{MASTER}.default.svc.cluster.local")
    assert worker.wait() == UNREACHABLE
    last = worker.stderr.splitlines()[-1]
    assert DNS_ADDRESS in last and re.search(words, last) and last.endswith(" [R27]"), last
    assert not re.search("(?i)NXDOMAIN|no such name", last)


def test_no_name_server_there_at_all_ends_in_75_too(cluster, rankshim):
    worker = cluster.worker.run([rankshim, "wait", "--wait=dns", "--wait-timeout=2s"], worker_env())
    assert worker.code == UNREACHABLE
    assert DNS_ADDRESS in worker.stderr.splitlines()[-1]


@pytest.mark.alone
def test_a_cached_negative_answer_delays_by_its_own_time_only(cluster, rankshim):
    dns = cluster.caching_dns(negative_ttl=2)
    worker = cluster.worker.start([rankshim, "wait", "--wait=dns"], worker_env())
    worker.wait_line(WAITING)
    dns.publish(MASTER, cluster.master)
    published = time.monotonic()
    assert worker.wait() == 0
    assert worker.ended - published < 2 + 3


@pytest.mark.alone
@pytest.mark.parametrize("number, code", [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129),
                                          (signal.SIGUSR1, 138)])
def test_a_signal_while_waiting_for_the_name_ends_it_at_once(cluster, rankshim, number, code):
    cluster.dns()
    worker = cluster.worker.start([rankshim, *NEVER_STARTED], worker_env())
    worker.wait_line(WAITING)
    sent = time.monotonic()
    worker.signal(number)
    assert worker.wait() == code
    assert worker.ended - sent < 1


@pytest.mark.alone
@pytest.mark.parametrize("broken", ["closed port", "silent server"])
def test_a_term_ends_every_other_kind_of_waiting_too(cluster, rankshim, broken):
    dns = cluster.dns() if broken == "closed port" else cluster.broken_dns("silent")
    if broken == "closed port":
        dns.publish(MASTER, cluster.master)
    worker = cluster.worker.start([rankshim, *NEVER_STARTED], worker_env())
    if broken == "closed port":
        worker.wait_line(WAITING)
    else:
        dns.wait_query(f"{MASTER}.default.svc.cluster.local")
    sent = time.monotonic()
    worker.signal(signal.SIGTERM)
    assert worker.wait() == TERMINATED
    assert worker.ended - sent < 1


def test_waiting_works_as_a_plain_process_as_well(cluster, rankshim):
    """Not as PID 1: in the node's network, without a PID namespace."""
    cluster.worker.start_beside(["true"], name="nothing").wait()
    env = [f"{name}={value}" for name, value in worker_env(cluster.master.address).items()]
    waiting = cluster.worker.start_beside(["env", *env, rankshim, "wait", "--wait=port"], name="waiting")
    waiting.wait_line("(?i)wait")
    listen(cluster.master)
    assert waiting.wait() == 0


@pytest.mark.parametrize("options", [["--wait=none"], ["--platform=none"]])
def test_a_node_that_is_set_not_to_wait_does_not(cluster, rankshim, options):
    cluster.dns()
    done = cluster.worker.run([rankshim, *options, "--", "echo", "STARTED"], worker_env())
    assert (done.code, done.stdout) == (0, "STARTED\n")


def test_a_node_alone_waits_for_nothing(cluster, rankshim):
    done = cluster.worker.run([rankshim, "--", "echo", "STARTED"], {})
    assert (done.code, done.stdout) == (0, "STARTED\n")
    assert "waiting" not in done.stderr


def test_a_worker_started_by_the_newer_operator_waits_for_the_same_master(cluster, rankshim):
    dns = cluster.dns()
    worker = cluster.worker.start([rankshim, "--", "sh", "-c", "echo STARTED $NODE_RANK of $NNODES"],
                                  operator_1_9(1, 2, MASTER, workers_per_node=1))
    worker.wait_line(WAITING)
    questions(dns, f"{MASTER}.default.svc.cluster.local", 4)  # its second look
    assert not worker.stdout, "started before the master's name was known"
    dns.publish(MASTER, cluster.master)
    worker.wait_line("STARTED 1 of 2")
    assert worker.wait() == 0
