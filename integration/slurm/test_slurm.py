"""rankshim under a real Slurm: slurmctld, munged and two slurmd on this machine."""

import importlib.util
import json
import pathlib
import sys

import pytest

from lib.events import until
from lib.process import PATH
from lib.requirements import cannot
from lib.results import results

HERE = pathlib.Path(__file__).resolve().parent
ALLREDUCE = str(HERE.parent / "kubeflow" / "workers" / "allreduce.py")


def trained(process, world):
    assert process.code == 0, process.transcript()
    found = results(process)
    assert sorted(found) == list(range(world)), process.transcript()
    assert {result["world"] for result in found.values()} == {str(world)}
    assert len({result["loss"] for result in found.values()}) == 1
    return found


@pytest.mark.torch
@pytest.mark.usefixtures("torch")
def test_srun_trains_with_one_task_for_each_process(cluster, rankshim):
    per_process = cluster.run("srun", "-N2", "-n3", rankshim, "--", ALLREDUCE)
    found = trained(per_process, 3)
    assert [found[rank]["local_rank"] for rank in range(3)] == ["0", "1", "0"]
    assert "rank 2 of 3 on slurm-tasks, master node0:" in per_process.stderr


@pytest.mark.nightly  # the tests of a batch script have one task for each node
@pytest.mark.torch
@pytest.mark.usefixtures("torch")
def test_srun_trains_with_one_task_for_each_node(cluster, rankshim):
    per_node = cluster.run("srun", "-N2", "--ntasks-per-node=1", rankshim, "--", ALLREDUCE)
    trained(per_node, 2)
    assert "node 1 (env SLURM_NODEID) of 2 nodes on slurm, 1 worker, master node0:" in per_node.stderr


# As slurm_train.sh starts it, with rankshim in front. Its --launcher slurm divides by the number of GPUs; pytorch takes what
# rankshim sets.
@pytest.mark.nightly
@pytest.mark.torch
@pytest.mark.usefixtures("torch")
def test_openmmlabs_train_py_trains_with_one_task_for_each_process(cluster, rankshim):
    tools = pathlib.Path(sys.prefix) / "share" / "mmpretrain" / "mmpretrain" / ".mim" / "tools"
    if importlib.util.find_spec("mmengine") is None or not (tools / "train.py").exists():
        cannot("mmengine and mmpretrain's tools are not there (scripts/setup nightly puts them into .venv)")
    project = HERE.parent / "openmmlab" / "project"
    done = cluster.run("env", f"PYTHONPATH={project}", "srun", "-N2", "-n3", "--kill-on-bad-exit=1", rankshim, "--",
                       str(tools / "train.py"), str(project / "config.py"), "--work-dir=work", "--launcher=pytorch")
    trained(done, 3)
    assert "GPU number: 3" in done.stdout


def test_a_batch_script_is_distinguished_from_its_steps_and_a_step_may_be_part_of_the_job(cluster, rankshim):
    code, lines = cluster.batch(f"""#!/bin/bash
"{rankshim}" -- train.py
echo "alone $?"
srun -N2 --ntasks-per-node=1 bash -c 'eval "$("{rankshim}" env)" && echo "step $NODE_RANK of $NNODES at $MASTER_ADDR"'
srun -N1 -n1 -w node1 "{rankshim}" explain --format json -- true
""", "--ntasks-per-node=1")
    assert code == 0 and "alone 78" in lines, lines
    assert {"step 0 of 2 at node0", "step 1 of 2 at node0"} <= set(lines)
    part = json.loads("\n".join(lines[lines.index("{"):]))
    assert part["platform"] == "slurm-step"
    assert part["topology"]["nnodes"]["value"] == "1"


def test_the_examples_batch_script_starts_every_node(cluster, rankshim):
    example = (HERE.parents[1] / "examples" / "slurm" / "job.sbatch").read_text()
    (cluster.folder / "rankshim").symlink_to(rankshim)
    (cluster.folder / "train.py").write_text("""import os, sys
sys.stdout.write(f"node {os.environ['NODE_RANK']} of {os.environ['NNODES']} {sys.argv[1:]}\\n")
""")
    # There is no GPU here, and a script that does not train needs no launcher.
    script = "".join(line for line in example.splitlines(keepends=True) if "--gpus-per-node" not in line)
    environment = {"RANKSHIM_LAUNCHER": "none", "PATH": f"{cluster.folder}:{PATH}"}
    code, lines = cluster.batch(script, environment=environment)
    assert code == 0 and {f"node {rank} of 2 ['--epochs', '10']" for rank in (0, 1)} <= set(lines), lines


@pytest.mark.parametrize(("code", "restarts"), [(75, 1), pytest.param(1, 0, marks=pytest.mark.nightly)])
def test_the_examples_batch_script_is_requeued_when_a_node_did_not_come_and_for_no_other_code(cluster, code, restarts):
    """A stand-in for rankshim ends with the code. Slurm starts a requeued job two minutes later; nobody waits for that."""
    example = (HERE.parents[1] / "examples" / "slurm" / "job.sbatch").read_text()
    (cluster.folder / "job.sbatch").write_text(
        "".join(line for line in example.splitlines(keepends=True) if "--gpus-per-node" not in line))
    (cluster.folder / "rankshim").write_text(f"#!/bin/sh\nexit {code}\n")
    (cluster.folder / "rankshim").chmod(0o755)
    submitted = cluster.run("sbatch", "--parsable", "--nodes=2", "job.sbatch", environment={"PATH": f"{cluster.folder}:{PATH}"})
    job = submitted.stdout.strip()

    def shown():
        return cluster.run("scontrol", "show", "job", job).stdout

    until(lambda: "Restarts=1" in shown() or "JobState=FAILED" in shown(), "the job ends or is requeued", 120)
    assert f"Restarts={restarts}" in shown(), shown()
