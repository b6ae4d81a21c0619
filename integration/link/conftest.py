"""Three pods with their own network, host name and process ids, and a real name server."""

import json

import pytest
from link.pods import Pods

MASTER, PORT = "job-node-0", 29500


@pytest.fixture
def cluster(network):
    """Three nodes whose names are known."""
    return network.job(3)


@pytest.fixture
def start(cluster, rankshim, tmp_path):
    """start(RANK, COMMAND, OPTION..., VARIABLE=VALUE): one node's rankshim."""

    def start(rank, command, *options, place=None, nodes=3, dashes=True, **variables):
        node = cluster[rank if place is None else place]
        environment = {"RANKSHIM_NODE_RANK": str(rank), "RANKSHIM_NNODES": str(nodes), "RANKSHIM_NPROC_PER_NODE": "1",
                       "RANKSHIM_MASTER_ADDR": MASTER, "RANKSHIM_MASTER_PORT": str(PORT), "RANKSHIM_LINK": "auto",
                       "RANKSHIM_LAUNCHER": "native", "RANKSHIM_REPORT": f"{tmp_path}/{node.hostname}.json", **variables}
        process = node.start([rankshim, *options, *(["--"] if dashes else []), *command], environment)
        process.report = lambda: json.loads((tmp_path / f"{node.hostname}.json").read_text())
        return process

    return start


@pytest.fixture
def pods(network, rankshim, tmp_path):
    """Five pods of a job with spares, of which three train."""
    return Pods(network, rankshim, tmp_path)
