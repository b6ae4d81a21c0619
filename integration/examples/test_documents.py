"""The shell blocks of the pages that need Kubernetes are run as they are.

kubectl and Helm are the real ones. The API server (api_server.py) and Arena (the file arena) are stand-ins. The pods that the
platform would make are real namespaces, in which PyTorch's real launchers run.
"""

import copy
import json
import pathlib
import shutil
import subprocess

import pytest
import yaml

from examples.api_server import api_server
from examples.controllers import pod, pods
from examples.schema import mistakes
from examples.test_install import TOOLS, check_installed
from examples.test_manifests import EXAMPLES, INSTALL, documents
from lib.documents import REPOSITORY, shell
from lib.kubeflow import operator_1_5
from lib.process import PATH, clean_environment
from lib.requirements import cannot

HERE = pathlib.Path(__file__).resolve().parent
LONG = 120
# A worker that prints its rank without importing torch, which takes seconds, and by one write, because two may write at
# once.
WORKER = """import os, sys
sys.stdout.write("RESULT %(RANK)s of %(WORLD_SIZE)s" % os.environ + f" {sys.argv[1:]}\\n")
"""


@pytest.fixture
def cluster(tmp_path):
    """Runs a block where kubectl finds a cluster, beside a copy of install/: its stdout; `.folder` is where, and `.kept` what
    the cluster has."""
    if not TOOLS.exists():
        cannot(f"missing: {TOOLS} (scripts/setup makes it)")
    shutil.copytree(INSTALL, tmp_path / "install")

    def run(block, code=0):
        environment = {"PATH": f"{TOOLS}:{PATH}", "HOME": str(tmp_path), "KUBECONFIG": str(tmp_path / "kubeconfig")}
        done = subprocess.run(["bash", "-ec", block], env=environment, cwd=tmp_path, capture_output=True, text=True,
                              timeout=60)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout if code == 0 else done.stderr

    run.folder = tmp_path
    with api_server(tmp_path / "kubeconfig") as run.kept:
        yield run


def test_the_job_of_the_kustomize_example_is_built_and_applied(cluster):
    printed = cluster(shell("docs/kubernetes.md", "Kustomize").text)
    *built, applied = printed.splitlines()
    assert applied == "pytorchjob.kubeflow.org/mnist created"
    (job,) = cluster.kept.values()
    for pod in [*pods(yaml.safe_load("\n".join(built))), *pods(job)]:
        check_installed(pod)


def test_the_chart_of_the_helm_example_is_rendered(cluster):
    printed = cluster(shell("docs/kubernetes.md", "Helm").text)
    job = yaml.safe_load(printed[printed.index("---\n"):])
    assert mistakes(job) == []
    for pod in pods(job):
        check_installed(pod)


def test_the_policy_of_kyverno_is_applied(cluster):
    assert cluster(shell("docs/kubernetes.md", "Kyverno").text) == "clusterpolicy.kyverno.io/rankshim created\n"


def test_the_runtime_of_kubeflow_trainer_is_applied(cluster):
    printed = cluster(shell("docs/kubernetes.md", "Kubeflow Trainer v2").text)
    assert printed == "clustertrainingruntime.trainer.kubeflow.org/torch-rankshim created\n"


def test_a_manifest_with_a_mistake_is_not_applied(cluster):
    policy = cluster.folder / "install" / "kyverno" / "policy.yaml"
    policy.write_text(policy.read_text().replace("rules:", "rulez:"))
    assert "'rulez' was unexpected" in cluster(shell("docs/kubernetes.md", "Kyverno").text, code=1)
    assert cluster.kept == {}


@pytest.fixture
def job(network, rankshim, tmp_path):
    """Starts the pods of a job, each as a node of its own: job(PODS) are the lines of their workers, sorted."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "rankshim").symlink_to(rankshim)
    (tmp_path / "train.py").write_text(WORKER)
    dns, nodes = network.dns(), {}

    def run(made):
        for pod in made:
            if (name := pod["metadata"]["name"]) not in nodes:
                nodes[name] = network.node(name)
                dns.publish(name, nodes[name])
        running = []
        for pod in made:
            (container,) = pod["spec"]["containers"]
            variables = {entry["name"]: entry["value"] for entry in container["env"]}
            environment = {**variables, "OMP_NUM_THREADS": "1", "PATH": f"{tmp_path}/bin:{PATH}"}
            running.append(nodes[pod["metadata"]["name"]].start(container["command"], environment, cwd=tmp_path))
        for process in running:
            assert process.wait(LONG) == 0, process.transcript()
        return sorted(line for process in running for line in process.stdout.splitlines() if line.startswith("RESULT "))

    return run


def results(world, arguments):
    return [f"RESULT {rank} of {world} {arguments}" for rank in range(world)]


def submitted(script, tmp_path):
    """The pods of the job that `arena` was called for."""
    made = tmp_path / "job.json"
    environment = clean_environment({"PATH": f"{HERE}:/usr/bin:/bin", "JOB": str(made)})
    done = subprocess.run(["bash", "-ec", script], env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    document = json.loads(made.read_text())
    assert mistakes(document) == []
    return pods(document)


@pytest.mark.torch
@pytest.mark.usefixtures("torch")
@pytest.mark.nightly
def test_the_pods_that_arena_makes_are_one_job(job, tmp_path):
    halves = shell("examples/arena/README.md", "What to change").halves()
    assert job(submitted(halves["before"], tmp_path)) == results(3, ["--epochs", "10"])
    assert job(submitted(halves["after"], tmp_path)) == results(3, ["--epochs", "10"])


def test_the_complete_call_of_arena_makes_a_job_with_a_data_volume(tmp_path):
    made = submitted((EXAMPLES / "arena" / "submit.sh").read_text(), tmp_path)
    assert len(made) == 3
    for each in made:
        (container,) = each["spec"]["containers"]
        (volume,) = each["spec"]["volumes"]
        assert container["volumeMounts"] == [{"name": volume["name"], "mountPath": "/mnist_data"}]


def cube_studio(block):
    """The pods of cube-studio's template with this command. Two of three are enough, and the operator is the older one, of
    which the page speaks."""
    (document,) = documents(EXAMPLES / "cube-studio" / "job.yaml")
    replicas, name = document["spec"]["pytorchReplicaSpecs"], document["metadata"]["name"]
    made = []
    for rank, role in enumerate(("Master", "Worker")):
        template = copy.deepcopy(replicas[role]["template"])
        (container,) = template["spec"]["containers"]
        assert container["command"][:2] == ["bash", "-c"]
        container["command"][2] = block.text
        made.append(pod(template, f"{name}-{role.lower()}-0", variables=operator_1_5(rank, 2, f"{name}-master-0")))
    return made


@pytest.mark.torch
@pytest.mark.usefixtures("torch")
@pytest.mark.nightly
def test_the_command_of_cube_studios_page_and_the_new_one_start_the_same_workers(job):
    before = job(cube_studio(shell("examples/cube-studio/README.md", "cube-studio")))
    assert [line.split(" [")[0] for line in before] == [f"RESULT {rank} of 4" for rank in range(4)]
    assert job(cube_studio(shell("examples/cube-studio/README.md", "What to change"))) == results(4, ["--epochs", "10"])
