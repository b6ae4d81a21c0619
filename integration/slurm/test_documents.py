"""The shell blocks of the documents that need Slurm are run in a batch script of a real Slurm, with a real torchrun.

Real: munged, slurmctld, slurmd, sbatch, srun, scontrol, and torchrun of PyTorch. pyxis (pyxis.c, a plugin for the real srun)
and Apptainer (bin/apptainer) are stand-ins; neither is in a package.
"""

import pathlib
import shutil
import subprocess

import pytest

from lib.documents import REPOSITORY, shell
from lib.process import PATH
from lib.requirements import cannot
from slurm.conftest import HERE, Cluster

# A worker that prints its rank without importing torch, which takes seconds, and by one write, because several may write
# at once.
WORKER = """import os, sys
sys.stdout.write("RESULT %(RANK)s of %(WORLD_SIZE)s, local %(LOCAL_RANK)s\\n" % os.environ)
"""


def results(batch):
    """What the workers of a batch script print, sorted; it must have succeeded."""
    code, lines = batch
    assert code == 0, lines
    return sorted(line for line in lines if line.startswith("RESULT "))


@pytest.mark.nightly
@pytest.mark.torch
@pytest.mark.usefixtures("torch")
def test_the_lines_above_srun_and_rankshim_alone_start_the_same_nodes(cluster, rankshim):
    (cluster.folder / "rankshim").symlink_to(rankshim)
    (cluster.folder / "train.py").write_text(WORKER)
    environment = {"PATH": f"{cluster.folder}:{PATH}"}
    halves = shell("examples/slurm/README.md", "What to change").halves()
    before = results(cluster.batch(halves["before"], "--ntasks-per-node=1", environment=environment))
    assert before == sorted(f"RESULT {rank} of 16, local {rank % 8}" for rank in range(16))
    # There is no accelerator here, so rankshim starts one worker on each node.
    after = results(cluster.batch(halves["after"], "--ntasks-per-node=1", environment=environment))
    assert after == ["RESULT 0 of 2, local 0", "RESULT 1 of 2, local 0"]


def test_the_guide_and_the_example_show_the_same_change():
    assert shell("docs/slurm.md", "Change the batch script").text == shell("examples/slurm/README.md", "What to change").text


@pytest.fixture
def with_containers(slurm, network, rankshim, tmp_path):
    """A Slurm whose srun has pyxis' options, and an image for it; beside it Apptainer and an image."""
    if shutil.which("cc") is None or not pathlib.Path("/usr/include/slurm/spank.h").exists():
        cannot("missing: cc, slurm/spank.h (scripts/setup installs them)")
    plugin = tmp_path / "pyxis.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", "-o", plugin, HERE / "pyxis.c"], check=True)
    (tmp_path / "train.py").write_text("import os\nprint('RESULT %(NODE_RANK)s of %(NNODES)s' % os.environ)\n")
    (tmp_path / "mnist.sif").touch()
    return Cluster(network.node("head"), tmp_path, shared=rankshim, plugins=f"required {plugin} registry.example mnist:v1\n")


def test_a_container_of_pyxis_and_one_of_apptainer_start_the_rankshim_that_all_nodes_have(with_containers):
    environment = {"PATH": f"{HERE}/bin:{PATH}", "RANKSHIM_LAUNCHER": "none"}  # torchrun adds nothing here but seconds
    block = shell("docs/slurm.md", "Containers without rankshim").text
    found = results(with_containers.batch(block, "--ntasks-per-node=1", environment=environment))
    assert found == ["RESULT 0 of 2"] * 2 + ["RESULT 1 of 2"] * 2
    # Without the mount a container has no rankshim.
    for option in (" --container-mounts=/opt/rankshim:/opt/rankshim:ro", " --bind /opt/rankshim"):
        (line,) = [line for line in block.splitlines() if option in line]
        code, lines = with_containers.batch(line.replace(option, ""), "--ntasks-per-node=1", environment=environment)
        assert code != 0 and any("/opt/rankshim/rankshim: No such file or directory" in line for line in lines), lines


def test_the_batch_scripts_for_containers_start_every_node(with_containers):
    environment = {"PATH": f"{HERE}/bin:{PATH}", "RANKSHIM_LAUNCHER": "none"}
    for name in ("pyxis", "apptainer"):
        script = (REPOSITORY / "examples" / "slurm" / f"{name}.sbatch").read_text()
        lines = [line for line in script.splitlines(keepends=True) if "--gpus-per-node" not in line]  # there is none here
        found = results(with_containers.batch("".join(lines), environment=environment))
        assert found == ["RESULT 0 of 2", "RESULT 1 of 2"], name


def test_a_task_prolog_lets_every_task_find_rankshim(slurm, network, rankshim, tmp_path):
    """The block is run as root of a machine with a folder /etc of its own, and its line is for this Slurm."""
    inside = 'mkdir -p "$0/etc/slurm" && mount --bind "$0/etc" /etc && eval "$1" && cat /etc/slurm/slurm.conf'
    block = shell("docs/slurm.md", "Install it on every node").text
    done = subprocess.run(["unshare", "--mount", "sh", "-ec", inside, tmp_path, block], cwd=REPOSITORY, capture_output=True,
                          text=True)
    if "unshare failed" in done.stderr or "permission denied" in done.stderr:
        cannot(f"no mount namespace: {done.stderr}")
    assert done.returncode == 0, done.stderr
    line = done.stdout.strip().replace("/etc/", f"{tmp_path}/etc/")
    cluster = Cluster(network.node("head"), tmp_path, shared=rankshim, line=line)
    code, lines = cluster.batch("srun rankshim -- sh -c 'echo RESULT $NODE_RANK of $NNODES'\n", "--ntasks-per-node=1")
    assert code == 0 and {"RESULT 0 of 2", "RESULT 1 of 2"} <= set(lines), lines
