"""rankshim under a real Slurm: slurmctld, munged and two slurmd on this machine."""

import json
import pathlib
import shutil
import sys

import pytest

from lib.events import until
from lib.process import clean_environment
from lib.requirements import cannot
from lib.results import results

HERE = pathlib.Path(__file__).resolve().parent
ALLREDUCE = str(HERE.parent / "kubeflow" / "workers" / "allreduce.py")
TOOLS = ("munged", "slurmctld", "slurmd", "srun", "sbatch")
JOB = 180


class Cluster:
    """Two Slurm nodes that share one network; srun() is the user."""

    def __init__(self, node, folder):
        self.folder = folder
        self._node = node
        node.hosts(f"127.0.0.1 localhost\n{node.address} {node.hostname} node0 node1\n")
        node.resolv_conf("nameserver 127.0.0.1\n")  # nobody answers there, at once
        self.daemons = node.start([str(HERE / "cluster.sh"), str(folder)], {}, name="slurm")
        self.daemons.wait_line("^ready$", 120)

    def run(self, *argv):
        """A command of Slurm's to its end; .code is its exit code."""
        return self._node.run(list(argv), {"SLURM_CONF": f"{self.folder}/slurm.conf", "OMP_NUM_THREADS": "1"},
                              timeout=JOB, cwd=self.folder, name=argv[0])


@pytest.fixture
def cluster(network, tmp_path):
    missing = [tool for tool in TOOLS if shutil.which(tool, path=clean_environment()["PATH"]) is None]
    if missing:
        cannot(f"missing: {', '.join(missing)} (scripts/setup installs them)")
    return Cluster(network.node("head"), tmp_path)


def trained(process, world):
    assert process.code == 0, process.transcript()
    found = results(process)
    assert sorted(found) == list(range(world)), process.transcript()
    assert {result["world"] for result in found.values()} == {str(world)}
    assert len({result["loss"] for result in found.values()}) == 1
    return found


@pytest.mark.torch
@pytest.mark.usefixtures("torch")
def test_srun_trains_with_one_task_per_node_and_with_one_per_process(cluster, rankshim):
    per_node = cluster.run("srun", "-N2", "--ntasks-per-node=1", rankshim, "--", ALLREDUCE)
    trained(per_node, 2)
    assert "node 1 (env SLURM_NODEID) of 2 nodes on slurm, 1 worker, master node0:" in per_node.stderr
    per_process = cluster.run("srun", "-N2", "-n3", rankshim, "--", ALLREDUCE)
    found = trained(per_process, 3)
    assert [found[rank]["local_rank"] for rank in range(3)] == ["0", "1", "0"]
    assert "rank 2 of 3 on slurm-tasks, master node0:" in per_process.stderr


# As slurm_train.sh starts it, with rankshim in front. Its --launcher slurm divides by the number of GPUs; pytorch takes what
# rankshim sets.
@pytest.mark.nightly
@pytest.mark.torch
@pytest.mark.usefixtures("torch")
def test_openmmlabs_train_py_trains_with_one_task_for_each_process(cluster, rankshim):
    tools = pathlib.Path(sys.prefix) / "share" / "mmpretrain" / "mmpretrain" / ".mim" / "tools"
    if not (tools / "train.py").exists():
        cannot("mmpretrain's tools are not there (scripts/setup puts them into .venv)")
    project = HERE.parent / "openmmlab" / "project"
    done = cluster.run("env", f"PYTHONPATH={project}", "srun", "-N2", "-n3", "--kill-on-bad-exit=1", rankshim, "--",
                       str(tools / "train.py"), str(project / "config.py"), "--work-dir=work", "--launcher=pytorch")
    trained(done, 3)
    assert "GPU number: 3" in done.stdout


def test_a_batch_script_is_distinguished_from_its_steps_and_a_step_may_be_part_of_the_job(cluster, rankshim):
    script = cluster.folder / "job.sh"
    script.write_text(f"""#!/bin/bash
{rankshim} -- train.py
echo "alone $?"
srun -N2 --ntasks-per-node=1 bash -c 'eval "$({rankshim} env)" && echo "step $NODE_RANK of $NNODES at $MASTER_ADDR"'
srun -N1 -n1 -w node1 {rankshim} explain --format json -- true
echo end
""")
    submitted = cluster.run("sbatch", "-N2", "--ntasks-per-node=1", "--output=out", str(script))
    assert submitted.code == 0, submitted.transcript()
    out = cluster.folder / "out"
    until(lambda: out.exists() and out.read_text().endswith("end\n"), "the batch script ends", JOB)
    lines = out.read_text().splitlines()[:-1]
    assert "alone 78" in lines, lines
    assert {"step 0 of 2 at node0", "step 1 of 2 at node0"} <= set(lines)
    part = json.loads("\n".join(lines[lines.index("{"):]))
    assert part["platform"] == "slurm"
    assert part["topology"]["nnodes"]["value"] == "1"


def test_the_examples_batch_script_starts_every_node(cluster, rankshim):
    example = (HERE.parents[1] / "examples" / "slurm" / "job.sbatch").read_text()
    (cluster.folder / "rankshim").symlink_to(rankshim)
    (cluster.folder / "train.py").write_text("""import os, sys
sys.stdout.write(f"node {os.environ['NODE_RANK']} of {os.environ['NNODES']} {sys.argv[1:]}\\n")
""")
    script = cluster.folder / "job.sbatch"
    # There is no GPU here, and a script that does not train needs no launcher.
    lines = [line for line in example.splitlines() if "--gpus-per-node" not in line]
    lines.insert(-1, f"export RANKSHIM_LAUNCHER=none PATH={cluster.folder}:$PATH")
    script.write_text("\n".join([*lines, "echo end", ""]))
    submitted = cluster.run("sbatch", "--nodes=2", "--output=out", str(script))
    assert submitted.code == 0, submitted.transcript()
    out = cluster.folder / "out"
    until(lambda: out.exists() and out.read_text().endswith("end\n"), "the batch script ends", JOB)
    assert {f"node {rank} of 2 ['--epochs', '10']" for rank in (0, 1)} <= set(out.read_text().splitlines())
