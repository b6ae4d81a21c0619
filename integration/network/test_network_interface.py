"""Nodes whose names do not resolve to their addresses: gloo needs the name of the interface."""

import pathlib

import pytest

from lib.events import until
from lib.network import has_ipv6
from lib.requirements import cannot
from lib.results import results

pytestmark = [pytest.mark.torch, pytest.mark.usefixtures("torch")]

ALLREDUCE = str(pathlib.Path(__file__).resolve().parents[1] / "kubeflow" / "workers" / "allreduce.py")
JOB = 180
PORT = "23456"


def variables(rank, master, more=None):
    """The variables of a job that was started by hand, the same on every node."""
    return {"NNODES": "2", "NODE_RANK": str(rank), "NPROC_PER_NODE": "1", "MASTER_ADDR": master, "MASTER_PORT": PORT,
            "OMP_NUM_THREADS": "1", **(more or {})}


@pytest.fixture
def strangers(network):
    """Two nodes: the first knows its own name as Debian writes it, at loopback, the second not at all."""
    nodes = [network.node("host-a"), network.node("host-b")]
    nodes[0].hosts("127.0.0.1 localhost\n127.0.1.1 host-a\n")
    nodes[1].hosts("127.0.0.1 localhost\n")
    network.dns()
    return nodes


def ended(processes):
    for process in processes:
        assert process.wait(JOB) == 0, process.transcript()
    found = {rank: result for process in processes for rank, result in results(process).items()}
    assert sorted(found) == [0, 1]
    assert {result["world"] for result in found.values()} == {"2"}


@pytest.mark.nightly  # the next test has the harder case, and the last the variable
def test_nodes_train_together_though_their_own_names_lead_nowhere(strangers, rankshim):
    master = strangers[0].address
    processes = [
        node.start([rankshim, "--log-level=debug", "--launcher=native", "--", ALLREDUCE], variables(rank, master))
        for rank, node in enumerate(strangers)
    ]
    ended(processes)
    for process in processes:
        assert "this node's interface to the other nodes is eth0" in process.stderr


def test_nodes_train_together_though_their_own_names_lead_to_another_card(strangers, rankshim):
    for node, address in zip(strangers, ("172.17.0.1", "172.18.0.1"), strict=True):  # docker's bridge, and a card without the others
        node.namespace.ip("link", "add", "docker0", "type", "bridge")
        node.namespace.ip("addr", "add", f"{address}/16", "dev", "docker0")
        node.namespace.ip("link", "set", "docker0", "up")
    strangers[0].hosts("127.0.0.1 localhost\n172.17.0.1 host-a\n")
    strangers[1].hosts("127.0.0.1 localhost\n172.18.0.1 host-b\n")
    processes = [
        node.start([rankshim, "--log-level=debug", "--launcher=native", "--", ALLREDUCE], variables(rank, strangers[0].address))
        for rank, node in enumerate(strangers)
    ]
    ended(processes)
    for process in processes:
        assert "this node's interface to the other nodes is eth0" in process.stderr


# What SkyPilot's users write, and a trial on one node before it, which must stay there. (Alone, torchrun asks for the address
# of its own name, which host-b does not have.)
SCRIPT = """set -eu
[ $NODE_RANK = 1 ] || torchrun --standalone --nproc_per_node=1 -m lone
torchrun --nnodes=2 --nproc_per_node=1 --rdzv_backend=c10d --rdzv_endpoint=$MASTER_ADDR:$MASTER_PORT ALLREDUCE
"""


@pytest.mark.nightly
def test_a_script_with_c10d_trains_together_though_the_nodes_own_names_lead_nowhere(strangers, rankshim, tmp_path):
    (tmp_path / "lone.py").write_text("import os\nprint('LONE', os.environ['WORLD_SIZE'], flush=True)\n")
    (tmp_path / "run.sh").write_text(SCRIPT.replace("ALLREDUCE", ALLREDUCE))
    processes = [
        node.start([rankshim, "--", "bash", "run.sh"], variables(rank, strangers[0].address), cwd=tmp_path)
        for rank, node in enumerate(strangers)
    ]
    ended(processes)
    assert "LONE 1" in processes[0].stdout.splitlines()


@pytest.mark.nightly  # torch looks for the host for a minute
def test_the_same_script_alone_finds_no_host(strangers, rankshim, tmp_path):
    (tmp_path / "run.sh").write_text(SCRIPT.replace("ALLREDUCE", ALLREDUCE).replace("[ $NODE_RANK = 1 ] ||", "true ||"))
    processes = [
        node.start([rankshim, "--no-export-pet", "--", "bash", "run.sh"], variables(rank, strangers[0].address), cwd=tmp_path)
        for rank, node in enumerate(strangers)
    ]
    assert all(process.wait(JOB) != 0 for process in processes)
    assert "C10d store has failed" in processes[0].stderr


@pytest.mark.nightly
def test_without_rankshim_the_same_nodes_cannot_reach_each_other(strangers):
    processes = [
        node.start(["python", ALLREDUCE],
                   {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": strangers[0].address, "MASTER_PORT": PORT,
                    "OMP_NUM_THREADS": "1"})
        for rank, node in enumerate(strangers)
    ]
    # One of them logs it, the other hangs.
    until(lambda: any("connectFullMesh failed" in process.stderr for process in processes), "gloo gives up", JOB)
    assert not results(processes[0]) and not results(processes[1])


def test_the_interface_is_what_the_command_gets(strangers, rankshim):
    shown = strangers[1].run([rankshim, "--wait=none", "--", "env"], variables(1, strangers[0].address))
    assert "GLOO_SOCKET_IFNAME=eth0" in shown.stdout.splitlines()
    chosen = strangers[1].run([rankshim, "--wait=none", "--", "env"],
                              variables(1, strangers[0].address, {"GLOO_SOCKET_IFNAME": "ib0"}))
    assert "GLOO_SOCKET_IFNAME=ib0" in chosen.stdout.splitlines()
    strangers[1].hosts(f"127.0.0.1 localhost\n{strangers[1].address} host-b\n")
    known = strangers[1].run([rankshim, "--wait=none", "--", "env"], variables(1, strangers[0].address))
    assert "SOCKET_IFNAME" not in known.stdout


@pytest.mark.nightly
def test_nodes_that_have_only_ipv6_train_together(network, rankshim):
    if not has_ipv6():
        cannot("new network namespaces get no IPv6")
    nodes = [network.node("host-a"), network.node("host-b")]
    for node in nodes:
        node.namespace.ip("-4", "addr", "flush", "dev", "eth0")
        node.hosts("::1 localhost\n")
        node.resolv_conf("")
    processes = [
        node.start([rankshim, "--", "python", ALLREDUCE], variables(rank, nodes[0].address6))
        for rank, node in enumerate(nodes)
    ]
    ended(processes)
