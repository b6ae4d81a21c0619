"""The three lines at the top of README.md: the last one of each node's log when a worker of one node has failed."""

import re
import signal

import pytest

from lib.documents import REPOSITORY
from lib.kubeflow import operator_1_9

LONG = 300
PODS = ("mnist-master-0", "mnist-worker-0", "mnist-worker-1")
# It fails when the test says so.
TRAIN = """import os, signal, time
def fail(*_): raise ValueError("the loss is nan")
signal.signal(signal.SIGUSR1, fail)
print("UP", os.environ["RANK"], flush=True)
time.sleep(1000)
"""


def shape(line):
    """A line without what differs each time."""
    return re.sub(r"pid \d+", "pid 0", re.sub(r"after (\d+ min )?[\d.]+ s", "after 0 s", line))


def shown():
    """{pod: the line that README shows of it}."""
    block = re.search(r"^```text\n(mnist-master-0 .*?)^```", (REPOSITORY / "README.md").read_text(), re.M | re.S)[1]
    return {pod: shape(line) for pod, line in (line.split(maxsplit=1) for line in block.splitlines())}


@pytest.mark.torch
@pytest.mark.usefixtures("torch")
def test_each_of_three_nodes_says_what_the_readme_shows(network, rankshim, tmp_path):
    (tmp_path / "train.py").write_text(TRAIN)
    dns, nodes = network.dns(), [network.node(name) for name in PODS]
    for node in nodes:
        dns.publish(node.hostname, node)
    running = [node.start([rankshim, "--link", "auto", "--", "train.py"], operator_1_9(rank, 3, PODS[0], 1), cwd=tmp_path)
               for rank, node in enumerate(nodes)]
    for process in running:
        process.wait_line("UP", LONG)
    running[2].signal(signal.SIGUSR1)
    assert [process.wait(LONG) for process in running] == [76, 76, 1]
    last = {pod: shape(process.stderr.strip().splitlines()[-1]) for pod, process in zip(PODS, running)}
    assert last == shown()
