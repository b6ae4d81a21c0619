"""What rankshim-review says of a manifest is what happens: its pods run, with the variables that it worked out, on nodes with
their own names, and a name server that knows the names for which the manifest has a Service."""

import json
import shutil
import signal
import subprocess
import sys

import pytest
from examples.test_install import merged_by_kyverno, tool
from lib.events import PATIENCE
from lib.process import clean_environment, run
from review.running import CASES, EXAMPLES, INSTALL, REPOSITORY, pods, reviewing, said

# In place of the training: what it would be told.
TELL = ["sh", "-c", 'if [ "$NNODES" ]; then echo node ${NODE_RANK:-?} of $NNODES at $MASTER_ADDR; '
        "else echo rank ${RANK:-0} of ${WORLD_SIZE:-1} at ${MASTER_ADDR:-none}; fi"]
DIST_TRAIN = ["sh", "-c", "echo node ${NODE_RANK:-${RANK:-0}} of ${NNODES:-1} at ${MASTER_ADDR:-none}"]  # what the script reads
NO_NAME = 75


def told(nodes, master):
    return [(0, f"node {rank} of {nodes} at {master}") for rank in range(nodes)]


# What is reviewed; what is said of it (a level and a check; None: nothing that ends a job); whether names are published; and what
# happens in each pod: the exit code, and what the program is told.
HAPPENS = {
    EXAMPLES / "kubeflow-v1/job.yaml": (None, True, told(3, "mnist-master-0")),
    EXAMPLES / "kubeflow-v1/elastic.yaml": (None, True, [(0, "node ? of 2:4 at mnist-worker-0")] * 4),
    EXAMPLES / "kubeflow-v2/trainjob.yaml": (None, True, told(3, "mnist-node-0-0.mnist")),
    EXAMPLES / "kueue/job.yaml": (None, True, told(3, "mnist-master-0")),
    EXAMPLES / "cube-studio/job.yaml": (("warning", "shared_memory"), True, told(3, "pytorchjob-mnist-1a2b-master-0")),
    EXAMPLES / "openmmlab/job.yaml": (None, True, told(3, "resnet-master-0")),
    EXAMPLES / "restart/job.yaml": (None, True, told(3, "mnist-0.mnist.default.svc.cluster.local")),
    EXAMPLES / "modelarts-lite/job.yaml": (None, True, told(6, "llm-worker-0.llm")),
    EXAMPLES / "mpi/mpijob.yaml": (None, True, [  # the first of the eight processes of each pod
        (0, f"rank {rank} of 24 at mnist-worker-0.mnist.default.svc") for rank in (0, 8, 16)]),
    EXAMPLES / "volcano/svc-env.yaml": (None, True, told(3, "mnist-worker-0.mnist")),
    EXAMPLES / "volcano/pytorch.yaml": (None, True, told(3, "mnist-master-0.mnist")),
    EXAMPLES / "leaderworkerset/lws.yaml": (None, True, told(3, "mnist-0.mnist.default")),
    EXAMPLES / "jobset/jobset.yaml": (None, True, told(3, "mnist-workers-0-0.mnist.default.svc.cluster.local")),
    EXAMPLES / "indexed-job/job.yaml": (None, True, told(3, "mnist-0.mnist.default.svc.cluster.local")),
    EXAMPLES / "docker-compose/compose.yaml": (None, True, told(2, "node-0")),
    EXAMPLES / "slurm/job.sbatch": (None, True, told(3, "node1")),
    EXAMPLES / "slurm/pyxis.sbatch": (None, True, told(3, "node1")),
    EXAMPLES / "slurm/apptainer.sbatch": (None, True, told(3, "node1")),
    INSTALL / "compose/compose.yaml": (None, True, told(2, "node-0")),
    CASES / "public-compose-torchrun.yaml": (("error", "refused"), True, [(0, "node 0 of 2 at master"), (78, "")]),
    CASES / "public-deployment.yaml": (None, False, told(1, "127.0.0.1")),
    CASES / "public-llama-factory.yaml": (None, True, told(2, "node-0")),  # llamafactory-cli reads these
    CASES / "public-kueue-pod-group.yaml": (("error", "alone"), False, told(1, "127.0.0.1") * 2),
    CASES / "public-trainer-runtime.yaml": (("warning", "note"), True, told(2, "tuned-node-0-0.tuned")),
    CASES / "public-volcano-task-names.yaml": (("error", "refused"), True, [(78, "")] * 3),
    CASES / "public-tasks.sbatch": (None, True, [(0, f"rank {rank} of 16 at node1") for rank in (0, 8)]),
    CASES / "compose-slot.yaml": (("error", "refused"), False, [(78, "")] * 3),
    CASES / "alone.yaml": (("error", "alone"), False, told(1, "127.0.0.1") * 2),
    CASES / "refused.yaml": (("error", "refused"), True, [(78, "")] * 2),
    CASES / "volcano-without-svc.yaml": (("error", "refused"), False, [(78, "")] * 2),
    CASES / "batch-script.sbatch": (("error", "refused"), False, [(78, "")]),
    # Node 0 knows its own name by /etc/hosts, and waits in its launcher for who never comes.
    **{CASES / f"{name}.yaml": (("warning", "master"), False, [
        (0, "node 0 of 2 at mnist-0.mnist.default.svc.cluster.local"), (NO_NAME, "")])
       for name in ("no-service", "service-of-others", "service-with-an-address")},
    CASES / "compose-master.yaml": (("warning", "master"), True, [(0, "node 0 of 2 at node-0"), (NO_NAME, "")]),
    # The machines' name server does not know the pods' names, and the machines have others.
    CASES / "host-network.yaml": (("warning", "host_network"), False, [(NO_NAME, "")] * 2),
    # The script of the manifest is told of one node, because no rankshim translates.
    CASES / "dist-train.yaml": (("error", "bypass"), True, [(0, "node 0 of 1 at mnist-master-0"), (0, "node 1 of 1 at mnist-master-0")]),
    CASES / "same-rank.yaml": (("error", "agree"), True, [(0, "node 0 of 2 at one")] * 2),
    CASES / "fewer-gpus.yaml": (("error", "refused"), True, [(78, "")] * 2),
    CASES / "trainjob-patched.yaml": (("warning", "shared_memory"), True, [
        *told(2, "patched-node-0-0.patched"), *told(2, "other-node-0-0.other")]),
    # NNODES is of a ConfigMap that is not there: the container does not start. Without it, rankshim refuses.
    CASES / "unknown-variable.yaml": (("warning", "unknown"), True, [(78, "")] * 2),
    CASES / "trainjob-for-mpi.yaml": (("warning", "note"), True, []),
}
# As the device plugin gives them to the container.
WITH_DEVICES = ["sh", "-c", "mount -t tmpfs tmpfs /dev && cd /dev && mknod null c 1 3 && touch nvidia0 nvidia1 nvidia2 nvidia3 && "
                "cd / && exec \"$@\"", "sh"]


def command(rankshim, binary, pod):
    """The pod's command, with TELL in place of what it trains with."""
    given = binary.settings(pod.command.after, {}) if pod.command.rankshim else {}
    given.pop("pre-start", "")  # it would download
    words = [rankshim, "--wait=dns", "--wait-timeout=2s", *(f"--{name}={value}" for name, value in given.items()), "--"]
    return [*words, *TELL] if pod.command.rankshim else DIST_TRAIN


def run_pods(network, rankshim, path, published):
    """The ends of all pods: exit codes, and what their programs print."""
    binary = reviewing.Binary(rankshim)
    processes = []
    for _, pod, node in pods(network, path, published):
        words = command(rankshim, binary, pod)
        if path.name == "batch-script.sbatch":  # a program runs in a batch script, and a script is refused
            words = [rankshim, "--", "train.py"]
        before = WITH_DEVICES if path.name == "fewer-gpus.yaml" else []
        processes.append(node.start([*before, *words], {**pod.environment, **pod.command.environment}))
    binary.close()
    return [(process.wait(PATIENCE), process.stdout.strip()) for process in processes], processes


@pytest.mark.parametrize("path", HAPPENS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_pod_does_what_the_review_says(path, network, rankshim):
    expected, published, happens = HAPPENS[path]
    found = said(rankshim, path)
    assert expected in found if expected else "error" not in {level for level, _ in found}
    ended, processes = run_pods(network, rankshim, path, published)
    assert ended == happens, "\n".join(process.transcript() for process in processes)


def printed_by(name, folder):
    """What is reviewed of install/: the output of another program, or a TrainJob with the runtime that it names."""
    if name == "helm":
        shutil.copytree(INSTALL / "helm", folder / "helm")
        tool("helm")("dependency", "build", cwd=folder / "helm" / "example")
        return tool("helm")("template", "mnist", ".", cwd=folder / "helm" / "example")
    if name == "kustomize":
        return tool("kubectl")("kustomize", str(INSTALL / "kustomize" / "example"))
    if name == "kyverno":
        return json.dumps(merged_by_kyverno(folder, {}, {}))
    return (INSTALL / "kubeflow-trainer" / "runtime.yaml").read_text() + """---
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: mnist}
spec: {runtimeRef: {name: torch-rankshim}, trainer: {numNodes: 3, args: [train.py]}}
"""


PRINTED = {"helm": told(3, "mnist-master-0"), "kustomize": told(3, "mnist-master-0"),
           "kubeflow-trainer": told(3, "mnist-node-0-0.mnist"), "kyverno": told(1, "127.0.0.1")}


@pytest.mark.parametrize("name", PRINTED)
def test_a_pod_of_what_another_program_prints_does_what_the_review_says(name, network, rankshim, tmp_path):
    text = printed_by(name, tmp_path)
    environment = clean_environment({"PYTHONPATH": str(REPOSITORY / "review")})
    done = subprocess.run([sys.executable, "-m", "rankshim_review", "--rankshim", rankshim, "--format", "json", "-"], input=text,
                          env=environment, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stdout + done.stderr
    document = json.loads(done.stdout)
    assert {finding["check"] for finding in document["findings"]} == ({"restarts"} if name == "kyverno" else set())
    (job,) = document["jobs"]
    assert [f"node {pod['node_rank']} of {pod['nnodes']} at {pod['master']}" for pod in job["pods"]] == [line for _, line in PRINTED[name]]
    path = tmp_path / "printed.yaml"
    path.write_text(text)
    ended, processes = run_pods(network, rankshim, path, name != "kyverno")
    assert ended == PRINTED[name], "\n".join(process.transcript() for process in processes)


def test_a_pod_that_waits_has_a_status_and_is_not_ready(network, rankshim, tmp_path):
    """What the check `probe` says: if only ready pods have names, no pod of this job ever gets one."""
    node = network.node("job-worker-0")
    network.dns()
    folder = f"--run-dir={tmp_path}"
    waiting = node.start([rankshim, folder, "--", "true"], {"NNODES": "2", "NODE_RANK": "1", "MASTER_ADDR": "job-master-0"})
    waiting.wait_line("no such name yet")
    asked = run([rankshim, "status", folder], clean_environment(), timeout=PATIENCE)
    assert asked.code == 0 and '"phase":"run"' not in asked.stdout
    assert run([rankshim, "status", folder, "ready"], clean_environment(), timeout=PATIENCE).code == 1
    assert run([rankshim, "status", folder, "--phase", "run"], clean_environment(), timeout=PATIENCE).code == 64
    waiting.signal(signal.SIGTERM)
    waiting.wait(PATIENCE)


def test_an_env_of_thousands_of_hosts_is_as_wrong_for_the_kernel(rankshim, tmp_path):
    """execve(2), E2BIG: one variable has at most 128 KiB."""
    path = tmp_path / "job.yaml"
    path.write_text("""apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: a-job-with-a-rather-long-name}
spec:
  plugins: {env: [], svc: []}
  tasks: [{name: worker, replicas: 9000, template: {spec: {containers: [{name: main, command: [rankshim, --, train.py]}]}}}]
""")
    done = run([sys.executable, "-m", "rankshim_review", "--rankshim", rankshim, str(path)],
               clean_environment({"PYTHONPATH": str(REPOSITORY / "review")}), timeout=PATIENCE)
    assert done.code == 78 and "with the controller's variable VC_WORKER_HOSTS, one value becomes longer than 128 KiB" in done.stdout


# torchrun without rankshim: whether it is told of the other node. What is said, the number of processes in each one's world.
TORCHRUN = {CASES / "bypass-and-alone.yaml": ("error", ["1", "1"]), CASES / "bypass.yaml": ("warning", ["2", "2"])}


@pytest.mark.torch
@pytest.mark.usefixtures("torch")
@pytest.mark.parametrize("path", [pytest.param(path, marks=pytest.mark.nightly if path.stem == "bypass" else ()) for path in TORCHRUN],
                         ids=lambda path: path.stem)
def test_a_torchrun_that_bypasses_rankshim_is_alone_only_where_it_is_an_error(path, network, rankshim, tmp_path):
    level, worlds = TORCHRUN[path]
    (tmp_path / "train.py").write_text("import os, sys\nsys.stdout.write(os.environ['WORLD_SIZE'] + '\\n')\n")
    files = reviewing._read([str(path)], [])
    ((workload, cluster),) = reviewing._workloads(files, [])
    found = reviewing.check(workload, reviewing._review(workload, reviewing.Binary(rankshim), 10), cluster, None)
    assert [(finding.level, finding.check) for finding in found] == [(level, "bypass")]
    server = network.dns()
    nodes = [network.node(pod.host) for pod in workload.pods]
    server.publish(workload.pods[0].host, nodes[0])
    processes = [node.start([sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=1", str(tmp_path / "train.py")],
                            {**pod.environment, "PET_NPROC_PER_NODE": "1", "OMP_NUM_THREADS": "1"})
                 for pod, node in zip(workload.pods, nodes, strict=True)]
    ended = [(process.wait(120), process.stdout.strip()) for process in processes]
    assert ended == [(0, world) for world in worlds], "\n".join(process.transcript() for process in processes)
