"""What rankshim-review says of a manifest is what happens: its pods run, with the variables that it worked out, on nodes with
their own names, and a name server that knows the names for which the manifest has a Service."""

import json
import pathlib
import shutil
import signal
import subprocess
import sys

import pytest

from examples.test_install import tool
from lib.events import PATIENCE
from lib.process import clean_environment, run

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "review"))

from rankshim_review import review as reviewing  # noqa: E402

CASES, EXAMPLES = REPOSITORY / "review/tests/cases", REPOSITORY / "examples"
# In place of the training: what it would be told.
TELL = ["sh", "-c", "echo node ${NODE_RANK:-${RANK:-0}} of ${NNODES:-1} at ${MASTER_ADDR:-none}"]
NO_NAME = 75

# What is reviewed; what is said of it (a level and a check; None: nothing that ends a job); whether the master's name is
# published; and what happens in each pod: the exit code, and what the program is told.
HAPPENS = {
    EXAMPLES / "kubeflow-v1/job.yaml": (None, True, [(0, f"node {rank} of 3 at mnist-master-0") for rank in range(3)]),
    EXAMPLES / "kubeflow-v2/trainjob.yaml": (None, True, [(0, f"node {rank} of 3 at mnist-node-0-0.mnist") for rank in range(3)]),
    EXAMPLES / "volcano/svc-env.yaml": (None, True, [(0, f"node {rank} of 3 at mnist-worker-0.mnist") for rank in range(3)]),
    EXAMPLES / "volcano/pytorch.yaml": (None, True, [(0, f"node {rank} of 3 at mnist-master-0.mnist") for rank in range(3)]),
    EXAMPLES / "leaderworkerset/lws.yaml": (None, True, [(0, f"node {rank} of 3 at mnist-0.mnist.default") for rank in range(3)]),
    EXAMPLES / "jobset/jobset.yaml": (None, True, [
        (0, f"node {rank} of 3 at mnist-workers-0-0.mnist.default.svc.cluster.local") for rank in range(3)]),
    EXAMPLES / "indexed-job/job.yaml": (None, True, [
        (0, f"node {rank} of 3 at mnist-0.mnist.default.svc.cluster.local") for rank in range(3)]),
    EXAMPLES / "docker-compose/compose.yaml": (None, True, [(0, f"node {rank} of 2 at node-0") for rank in range(2)]),
    EXAMPLES / "slurm/job.sbatch": (None, True, [(0, f"node {rank} of 3 at node1") for rank in range(3)]),
    CASES / "alone.yaml": (("error", "alone"), False, [(0, "node 0 of 1 at 127.0.0.1")] * 2),
    CASES / "refused.yaml": (("error", "refused"), True, [(78, "")] * 2),
    CASES / "volcano-without-svc.yaml": (("error", "refused"), False, [(78, "")] * 2),
    CASES / "batch-script.sbatch": (("error", "refused"), False, [(78, "")]),
    # Node 0 knows its own name by /etc/hosts, and waits in its launcher for who never comes.
    CASES / "no-service.yaml": (("warning", "master"), False, [
        (0, "node 0 of 2 at mnist-0.mnist.default.svc.cluster.local"), (NO_NAME, "")]),
    CASES / "service-of-others.yaml": (("warning", "master"), False, [
        (0, "node 0 of 2 at mnist-0.mnist.default.svc.cluster.local"), (NO_NAME, "")]),
    CASES / "compose-master.yaml": (("warning", "master"), False, [(0, "node 0 of 2 at node-0"), (NO_NAME, "")]),
    # The script of the manifest is told of one node, because no rankshim translates.
    CASES / "dist-train.yaml": (("error", "bypass"), True, [(0, "node 0 of 1 at mnist-master-0"), (0, "node 1 of 1 at mnist-master-0")]),
    CASES / "same-rank.yaml": (("error", "agree"), True, [(0, "node 0 of 2 at one")] * 2),
}


def start(network, rankshim, workload, binary):
    """The workload's pods as nodes, and their processes."""
    for pod in workload.pods:
        node = network.node(pod.host)
        own = f"{node.address}\t{f'{pod.host}.{pod.domain} ' if pod.domain else ''}{pod.host}\n"
        node.hosts(f"127.0.0.1\tlocalhost\n{own}")
        command = pod.command
        given = binary.settings(command.after, {}) if command.rankshim else {}
        words = [rankshim, "--wait-timeout=2s", *(f"--{name}={value}" for name, value in given.items()), "--"]
        yield pod, node, [*words, *TELL] if command.rankshim else TELL


@pytest.mark.parametrize("path", HAPPENS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_pod_does_what_the_review_says(path, network, rankshim, monkeypatch):
    said, published, happens = HAPPENS[path]
    done = run([sys.executable, "-m", "rankshim_review", "--rankshim", rankshim, "--format", "json", str(path)],
               clean_environment({"PYTHONPATH": str(REPOSITORY / "review")}), timeout=PATIENCE)
    document = json.loads(done.stdout)
    findings = {(finding["level"], finding["check"]) for finding in document["findings"]}
    assert said in findings if said else "error" not in {level for level, _ in findings}
    assert done.code == (78 if "error" in {level for level, _ in findings} else 0)

    binary = reviewing.Binary(rankshim)
    files = reviewing._read([str(path)], [])
    (workload,) = [workload for workload, _ in reviewing._workloads(files, [])]
    server = network.dns()
    pods = list(start(network, rankshim, workload, binary))
    if published:
        master = document["jobs"][0]["pods"][0]["master"] or "mnist-0.mnist.default.svc.cluster.local"
        server.publish(master, pods[0][1])
    if path.suffix == ".sbatch" and said:  # a program runs in a batch script, and a script is refused
        pods = [(pod, node, [rankshim, "--", "train.py"]) for pod, node, _ in pods]
    processes = [node.start(words, {**pod.environment, **pod.command.environment}) for pod, node, words in pods]
    ended = [(process.wait(PATIENCE), process.stdout.strip()) for process in processes]
    assert ended == happens, "\n".join(process.transcript() for process in processes)


def reviewed(rankshim, text):
    """The jobs that are found in what another program prints."""
    done = subprocess.run([sys.executable, "-m", "rankshim_review", "--rankshim", rankshim, "--format", "json", "-"], input=text,
                          env=clean_environment({"PYTHONPATH": str(REPOSITORY / "review")}), capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def test_what_helm_and_kustomize_print_is_reviewed(rankshim, tmp_path):
    shutil.copytree(REPOSITORY / "install" / "helm", tmp_path / "helm")
    helm, kubectl = tool("helm"), tool("kubectl")
    helm("dependency", "build", cwd=tmp_path / "helm" / "example")
    printed = {"helm": helm("template", "mnist", ".", cwd=tmp_path / "helm" / "example"),
               "kustomize": kubectl("kustomize", str(REPOSITORY / "install" / "kustomize" / "example"))}
    for name, text in printed.items():
        document = reviewed(rankshim, text)
        (job,) = document["jobs"]
        assert [(pod["node_rank"], pod["nnodes"], pod["master"], pod["launcher"]) for pod in job["pods"]] == [
            (str(rank), "3", "mnist-master-0", "torchrun") for rank in range(3)], name
        assert "bypass" not in [finding["check"] for finding in document["findings"]], name


def test_a_readiness_by_phase_is_never_ready_while_the_pod_waits(network, rankshim, tmp_path):
    """What the check `probe` says: `rankshim status` is well while it waits, and the phase is not `run`."""
    node = network.node("job-worker-0")
    network.dns()
    folder = f"--run-dir={tmp_path}"
    waiting = node.start([rankshim, folder, "--", "true"], {"NNODES": "2", "NODE_RANK": "1", "MASTER_ADDR": "job-master-0"})
    waiting.wait_line("no such name yet")
    asked = run([rankshim, "status", folder], clean_environment(), timeout=PATIENCE)
    assert asked.code == 0 and '"phase":"run"' not in asked.stdout
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
    assert done.code == 78 and "Argument list too long" in done.stdout


# torchrun without rankshim: whether it is told of the other node. What is said, the number of processes in each one's world.
TORCHRUN = {CASES / "bypass-and-alone.yaml": ("error", ["1", "1"]), CASES / "bypass.yaml": ("warning", ["2", "2"])}


@pytest.mark.torch
@pytest.mark.usefixtures("torch")
@pytest.mark.parametrize("path", TORCHRUN, ids=lambda path: path.stem)
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
