"""rankshim under real Open MPI and MPICH, on one node and on two."""

import pathlib
import shutil

import pytest

from lib.hangs import TRAINS
from lib.mpi import OPEN_MPI, ssh
from lib.process import clean_environment
from lib.requirements import cannot
from lib.results import results

pytestmark = [pytest.mark.torch, pytest.mark.usefixtures("torch")]

ALLREDUCE = str(pathlib.Path(__file__).resolve().parents[1] / "kubeflow" / "workers" / "allreduce.py")
JOB = 180
MPICH = ("mpiexec.mpich",)


@pytest.fixture(params=["open-mpi", pytest.param("mpich", marks=pytest.mark.nightly)])
def mpi(request):
    """The launcher's name, as the profiles have it."""
    program = (OPEN_MPI if request.param == "open-mpi" else MPICH)[0]
    if shutil.which(program, path=clean_environment()["PATH"]) is None:
        cannot(f"missing: {program} (scripts/setup installs it)")
    return request.param


def start(node, argv, variables):
    """A launcher on the node's network, outside its other namespaces, where its stand-in for ssh works."""
    node.namespace.ip("route", "replace", "unreachable", "default")  # a name server is not to be waited for
    exact = [f"{name}={value}" for name, value in clean_environment(variables).items()]
    return node.start_beside(["env", "-i", *exact, *argv], name=argv[0])


def trained(process, rankshim_says):
    assert process.wait(JOB) == 0, process.transcript()
    found = results(process)
    assert sorted(found) == [0, 1], process.transcript()
    assert {result["world"] for result in found.values()} == {"2"}
    assert rankshim_says in process.stderr
    return found


@pytest.mark.nightly
def test_processes_of_one_node_train_together(mpi, network, rankshim):
    node = network.node("alone")
    launcher = OPEN_MPI if mpi == "open-mpi" else MPICH
    process = start(node, [*launcher, "-n", "2", rankshim, "--", ALLREDUCE], {"OMP_NUM_THREADS": "1"})
    platform = "open-mpi" if mpi == "open-mpi" else "hydra"
    found = trained(process, f"rank 1 of 2 on {platform}, master ")
    assert [found[rank]["local_rank"] for rank in (0, 1)] == ["0", "1"]


@pytest.mark.nightly
def test_of_one_rankshim_for_each_process_none_blames_the_rank_that_only_waited(mpi, network, rankshim, tmp_path):
    script = tmp_path / "train.py"
    script.write_text(TRAINS)
    launcher = OPEN_MPI if mpi == "open-mpi" else MPICH
    process = start(network.node("alone"), [*launcher, "-n", "3", rankshim, "--", script, "sleeps", "6"], {"OMP_NUM_THREADS": "1"})
    process.wait_line(r"rankshim: error: \S+ exited with code 1 .*Error: Timed out .*; "
                      r"another rank is to blame: run rankshim once per node to learn which$", JOB)


def test_the_one_process_of_each_node_is_its_launcher(mpi, network, rankshim, tmp_path):
    nodes = [network.node("first"), network.node("second")]
    shell = ssh(tmp_path / "ssh", {node.address: node for node in nodes})
    hosts = [node.address for node in nodes]
    if mpi == "open-mpi":
        launcher = [*OPEN_MPI, "--mca", "plm_rsh_agent", shell, "--host", ",".join(f"{host}:1" for host in hosts)]
    else:
        launcher = [*MPICH, "-launcher", "ssh", "-launcher-exec", shell, "-hosts", ",".join(hosts), "-ppn", "1"]
    # Neither has the address of rank 0.
    lost = start(nodes[0], [*launcher, "-n", "2", rankshim, "--", ALLREDUCE], {})
    assert lost.wait(JOB) == 78, lost.transcript()
    assert "MASTER_ADDR" in lost.stderr
    # dist_train.sh reads these, and starts the node's workers itself.
    program = ["bash", "-uc", "echo node $NODE_RANK of $NNODES at $MASTER_ADDR"]
    job = start(nodes[0], [*launcher, "-n", "2", rankshim, "--wait=none", f"--master-addr={hosts[0]}", "--", *program],
                 {})
    assert job.wait(JOB) == 0, job.transcript()
    assert sorted(job.stdout.splitlines()) == [f"node {rank} of 2 at {hosts[0]}" for rank in (0, 1)]
    # A script that joins by itself takes the variables into its shell.
    script = f'eval "$("{rankshim}" env --master-addr={hosts[0]})" && exec python -u "{ALLREDUCE}"'
    if mpi == "open-mpi":
        command = [rankshim, f"--master-addr={hosts[0]}", "--", ALLREDUCE]
    else:
        command = ["bash", "-c", script]
    process = start(nodes[0], [*launcher, "-n", "2", *command],
                    {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "eth0"})
    trained(process, "of 2 nodes on open-mpi, 1 worker" if mpi == "open-mpi" else "")
