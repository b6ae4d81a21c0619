"""A master that is wrong on a node is said at once, by that node, where it shows; and a job whose nodes were told of two
numbers of nodes."""

import re
import sys

from lib.kubeflow import PORT, operator_1_5

MASTER = "job-master-0"
OWN, FOREIGN = ", an address of this node, ", ", no address of this node, "
# Lets 250 ms pass, and a bit, before it hangs up: a mesh's proxy that asks another one first.
LATE = f"""
import socket, sys, threading
server = socket.create_server(("", {PORT}), family=socket.AF_INET6, dualstack_ipv6=True)
print("listening", flush=True)
while True:
    connection = server.accept()[0]
    print("accepted", flush=True)
    threading.Timer(0.8, connection.close).start()
"""
STAY = LATE.replace("threading.Timer(0.8, connection.close).start()", "threading.Timer(100, connection.close).start()")
SIDECAR = """
import socket
server = socket.create_server(("", 15001))
print("listening", flush=True)
server.accept()
"""


def program(rank, nodes, master):
    """A node's variables, and a program that starts as soon as the name is there."""
    return ["--", "echo", "STARTED"], operator_1_5(rank, nodes, master)


def warnings(process):
    return [line for line in process.stderr.splitlines() if re.match("rankshim: warning: master ", line)]


def test_a_node_whose_master_is_itself_says_so_at_once(pods, rankshim):
    worker = pods[1]
    for master in (worker.address, worker.hostname):  # $(hostname -i), $HOSTNAME
        waiting = worker.start([rankshim, "wait", "--wait=port"], operator_1_5(1, 2, master))
        line = waiting.wait_line(f"warning: master {master}:{PORT} is ").text
        assert OWN in line and "this is node 1 (env RANK)" in line and "(env MASTER_ADDR)" in line
        assert "may be right if all nodes are on one machine" in line
        waiting.kill()
    told = worker.run([rankshim, "--", "echo", "STARTED"], operator_1_5(1, 2, MASTER))
    assert told.stdout == "STARTED\n" and not warnings(told)


def test_node_0_whose_master_is_another_machine_says_so_at_once(pods, rankshim):
    """Which is also what the second of two pods with rank 0 looks like."""
    master, worker = pods
    for address in (MASTER, master.address):
        second = worker.run([rankshim, "--", "echo", "STARTED"], operator_1_5(0, 2, address))
        (line,) = warnings(second)
        assert second.stdout == "STARTED\n" and FOREIGN in line and "this is node 0 (env RANK)" in line
        assert "two have this rank" in line
        right = master.run([rankshim, "--", "echo", "STARTED"], operator_1_5(0, 2, address))
        assert not warnings(right)


def test_an_endpoint_that_is_each_node_itself_is_said_on_node_1(pods, rankshim, tmp_path):
    torchrun = tmp_path / "torchrun"
    torchrun.write_text("#!/usr/bin/env python3\nimport time\ntime.sleep(1000)\n")
    torchrun.chmod(0o755)
    (tmp_path / "t.py").touch()
    command = [rankshim, "--", str(torchrun), "--nnodes=2", "--node_rank=1", f"--rdzv_endpoint=job-worker-0:{PORT}",
               str(tmp_path / "t.py")]
    pods[1].hosts(f"127.0.0.1 localhost\n{pods[1].address} job-worker-0\n")
    waiting = pods[1].start(command, operator_1_5(1, 2, MASTER))
    assert OWN in waiting.wait_line(f"warning: master job-worker-0:{PORT} is ").text
    # In a script rankshim sees it when it looks at the processes.
    script = tmp_path / "run.sh"
    script.write_text(f"{' '.join(command[2:])}\necho done\n")
    seen = pods[1].start([rankshim, "--", "bash", str(script)], operator_1_5(1, 2, MASTER))
    assert "is limited to this node (--rdzv_endpoint=job-worker-0" in seen.wait_line("warning: this node trains alone").text


def test_a_job_of_three_nodes_whose_workers_met_as_two_is_said(pods, rankshim):
    workers = "env LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 WORLD_SIZE=2 sleep 1000; exit 3"
    process = pods[1].start([rankshim, "--no-export-pet", "--", "sh", "-c", workers], operator_1_5(1, 3, MASTER))
    line = process.wait_line("warning: the nodes do not agree on their number: ").text
    assert line.endswith("has WORLD_SIZE=2, this job has 3")


def test_behind_a_sidecar_a_connection_has_to_last(pods, rankshim):
    master, worker = pods
    late = master.start_beside([sys.executable, "-I", "-S", "-c", LATE], name="late")
    late.wait_line("listening")
    command = [rankshim, "wait", "--wait=port", "--wait-timeout=10s"]
    # Without a sidecar a quarter of a second has to do.
    assert worker.run(command, operator_1_5(1, 2, MASTER)).code == 0
    sidecar = worker.start_beside([sys.executable, "-I", "-S", "-c", SIDECAR], name="sidecar")
    sidecar.wait_line("listening")
    waiting = worker.start(command, operator_1_5(1, 2, MASTER))
    said = waiting.wait_line("a mesh proxy runs in this pod").text
    assert "(port 15001)" in said and "counts after 3" in said
    waiting.wait_line("accepts and closes the connection")
    late.kill()
    stays = master.start_beside([sys.executable, "-I", "-S", "-c", STAY], name="stays")
    stays.wait_line("listening")
    assert waiting.wait() == 0, waiting.transcript()
