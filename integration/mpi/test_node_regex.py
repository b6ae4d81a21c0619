"""Open MPI's processes find rank 0's node by the regex of nodes that their mpirun hands on, where no hostfile is to be
read, as in the workers of a Kubeflow MPIJob."""

import json
import os
import shutil
import subprocess
import tempfile

import pytest

from lib.process import clean_environment
from lib.requirements import cannot

LONG = 60
# In place of ssh: the command, under the host name that it was to go to.
SHELL = """#!/bin/bash
while [[ $1 == -* ]]; do shift; done
host=$1
shift
exec unshare --uts bash -c 'hostname "$1"; shift; exec bash -c "$*"' x "$host" "$@"
"""


@pytest.fixture
def masters(rankshim, tmp_path):
    """The master that each process finds, by its rank, of a job that mpirun starts from the host `head`."""
    if os.geteuid() != 0:
        cannot("host names need root")
    if shutil.which("mpirun.openmpi", path=clean_environment()["PATH"]) is None:
        cannot("missing: mpirun.openmpi (scripts/setup installs it)")
    shell = tmp_path / "ssh"
    shell.write_text(SHELL)
    shell.chmod(0o755)

    # Open MPI's folders have the names of the hosts, which two tests may use at once. The path of tmp_path is too long.
    own = tempfile.TemporaryDirectory(prefix="ompi-")

    def find(hosts, *options):
        command = ["mpirun.openmpi", "--allow-run-as-root", "--mca", "plm_rsh_agent", str(shell), "--mca",
                   "oob_tcp_if_include", "lo", "-host", hosts, *options, rankshim, "explain", "--format=json"]
        done = subprocess.run(
            ["unshare", "--uts", "bash", "-c", 'hostname head; exec "$@"', "x", *command],
            env=clean_environment({"OMPI_MCA_orte_keep_fqdn_hostnames": "1", "TMPDIR": own.name}),
            capture_output=True,
            text=True,
            timeout=LONG,
        )
        assert done.returncode == 0, done.stderr
        decoder, found, rest = json.JSONDecoder(), {}, done.stdout.strip()
        while rest:
            document, end = decoder.raw_decode(rest)
            topology = document["topology"]
            # One process of a node is its launcher.
            number = topology["rank"] if document["granularity"] == "process" else topology["node_rank"]
            found[int(number["value"])] = topology["master_addr"]["value"]
            rest = rest[end:].strip()
        return found

    with own:
        yield find


def test_the_head_does_not_train(masters):
    hosts = "job-worker-0.job:2,job-worker-1.job:2"
    assert masters(hosts) == dict.fromkeys(range(4), "job-worker-0.job")


def test_the_head_trains_too(masters):
    assert masters("a09:1,a10:1,head:1,b:1") == dict.fromkeys(range(4), "head")


def test_not_all_hosts_train(masters):
    assert masters("a09:1,a10:1,a11:1", "-n", "2") == dict.fromkeys(range(2), "a09")
