"""The shell block of examples/ray is run as it is: a real Ray, with a head and two nodes in namespaces of their own."""

import os
import pathlib
import signal
import sys

import pytest

from lib.documents import shell
from lib.mounts import over_tmp
from lib.process import PATH
from lib.requirements import cannot

RAY = pathlib.Path(sys.prefix) / "share" / "ray" / "bin"
HEAD = ("ray start --head --block --port=6379 --num-cpus=1 --object-store-memory=80000000 --include-dashboard=false "
        "--disable-usage-stats")
STARTED = "Ray runtime started"
LONG = 90


@pytest.fixture
def node(network, rankshim):
    """Starts a script as PID 1 of a new node whose /tmp, where Ray's sockets are, is its own: node(NAME, SCRIPT)."""
    if not RAY.exists():
        cannot(f"missing: {RAY} (scripts/setup nightly makes it)")
    server = network.dns()
    environment = {"PATH": f"{os.path.dirname(rankshim)}:{RAY}:{PATH}", "OMP_NUM_THREADS": "1",
                   "HOME": "/tmp"}  # where Ray would find the token of another cluster

    def start(name, script):
        node = network.node(name)
        server.publish(name, node)
        own = over_tmp("mount -t tmpfs tmpfs /tmp; mount -t tmpfs tmpfs /dev/shm") + 'cd /tmp; exec bash -ec "$0"'
        return node.start(["sh", "-c", own, script], environment, name=name)

    return start


@pytest.mark.nightly
def test_a_node_joins_rays_cluster_without_rankshim_and_with_it_which_ends_at_a_term(node):
    halves = shell("examples/ray/README.md", "What to change").halves()
    head = node("head", HEAD)
    head.wait_line(STARTED, LONG)
    before, after = (node(name, halves[name]) for name in ("before", "after"))
    for each in (before, after):
        each.wait_line(STARTED, LONG)
    after.signal(signal.SIGTERM)
    after.wait(LONG)
    last = after.stderr.splitlines()[-1]
    assert last.startswith("rankshim: stopped (SIGTERM): ray exited with code "), last
