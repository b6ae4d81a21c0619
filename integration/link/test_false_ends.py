"""The connection of a node that lives is ended by a firewall or a mesh's proxy, which refuses others in its name: with spares too, the
node has the time to come back."""

import sys
import time

import pytest

from link.pods import PORT, kill, listening, ranks

pytestmark = pytest.mark.nightly
# Passes on whatever is redirected to it, as another user, whose own connections are not. Both sides keep their addresses.
PROXY = """
import encodings.idna, os, socket, struct, threading  # all before it becomes another user, who may not read them
SO_ORIGINAL_DST = 80  # linux/netfilter_ipv4.h
server = socket.create_server(("", 15001))
os.setuid(1337)
print("listening", flush=True)

def pass_on(one, other):
    try:
        while data := one.recv(4096):
            other.sendall(data)
    except OSError:
        pass
    for end in (one, other):
        try: end.shutdown(socket.SHUT_RDWR)
        except OSError: pass

def serve(inside):
    port, address = struct.unpack("!2xH4s8x", inside.getsockopt(socket.SOL_IP, SO_ORIGINAL_DST, 16))
    try:
        outside = socket.create_connection((socket.inet_ntoa(address), port))
    except OSError:
        return inside.close()
    threading.Thread(target=pass_on, args=(inside, outside), daemon=True).start()
    pass_on(outside, inside)

while True:
    threading.Thread(target=serve, args=(server.accept()[0],), daemon=True).start()
"""


def rule(node, *words):
    """Adds a rule to a node's firewall."""
    assert node.start_beside(["iptables", *words], name="iptables").wait() == 0


@pytest.mark.parametrize("refusal", ["tcp-reset", "icmp-port-unreachable"])
def test_a_node_whose_connection_and_port_a_firewall_rejects_comes_back(pods, refusal):
    all = pods.start_all("--link-timeout=3s", "--log-level=debug")
    (door,) = (port for port in listening(all[1]) if port != int(PORT))
    node = pods.nodes[1]
    rule(node, "-A", "INPUT", "-p", "tcp", "--dport", str(door), "-j", "REJECT", "--reject-with", refusal)
    rule(node, "-A", "INPUT", "-p", "tcp", "-s", pods.nodes[0].address, "--sport", PORT, "--tcp-flags", "RST", "NONE", "-j", "REJECT",
         "--reject-with", "tcp-reset")
    all[0].wait_line(f"the link: connection . of {node.address} has ended: Connection reset by peer", 30)
    time.sleep(3)  # by then it would be lost
    pods.end_well(all)
    assert {one[-1] for process in all for one in ranks(process)} == {0}


@pytest.mark.parametrize("index", [0, 1])
def test_a_node_whose_proxy_crashes_comes_back_once_that_runs_again(pods, index):
    def start():
        proxy = pods.node(index).start_beside([sys.executable, "-c", PROXY], name="proxy")
        proxy.wait_line("listening")
        return proxy

    proxy = start()
    rule(pods.nodes[index], "-t", "nat", "-A", "OUTPUT", "-p", "tcp", "-m", "owner", "!", "--uid-owner", "1337", "-j", "REDIRECT",
         "--to-ports", "15001")
    all = pods.start_all()
    kill(proxy)
    start()
    time.sleep(3)  # by then a node would be lost
    pods.end_well(all)
    assert {one[-1] for process in all for one in ranks(process)} == {0}
