"""The connection of a node that lives is ended by a firewall or a mesh's proxy, which refuses others in its name: with spares too, the
node has the time to come back."""

import time

import pytest

from link import mesh
from link.pods import PORT, kill, listening, ranks

pytestmark = pytest.mark.nightly


def rule(node, *words):
    """Adds a rule to a node's firewall."""
    assert node.start_beside(["iptables", *words], name="iptables").wait() == 0


@pytest.mark.parametrize("refusal", ["tcp-reset", "icmp-port-unreachable"])
def test_a_node_whose_connection_and_port_a_firewall_rejects_comes_back(pods, refusal):
    all = pods.start_all("--link-timeout=3s", "--log-level=debug")
    (listens_at,) = (port for port in listening(all[1]) if port != int(PORT))
    node = pods.nodes[1]
    rule(node, "-A", "INPUT", "-p", "tcp", "--dport", str(listens_at), "-j", "REJECT", "--reject-with", refusal)
    rule(node, "-A", "INPUT", "-p", "tcp", "-s", pods.nodes[0].address, "--sport", PORT, "--tcp-flags", "RST", "NONE", "-j", "REJECT",
         "--reject-with", "tcp-reset")
    # A write may take the RST, and the read after it then sees an end.
    all[0].wait_line(f"the link: connection . of {node.address} has ended: (Connection reset by peer|the other side closed it)", 30)
    time.sleep(3)  # by then it would be lost
    pods.end_well(all)
    assert {one[-1] for process in all for one in ranks(process)} == {0}


@pytest.mark.parametrize("index", [0, 1])
def test_a_node_whose_proxy_crashes_comes_back_once_that_runs_again(pods, index):
    proxy = mesh.start(pods.node(index))
    mesh.redirect(pods.nodes[index])
    all = pods.start_all()
    kill(proxy)
    mesh.start(pods.node(index))
    time.sleep(3)  # by then a node would be lost
    pods.end_well(all)
    assert {one[-1] for process in all for one in ranks(process)} == {0}
