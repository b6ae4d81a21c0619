"""The API server would accept the manifests of examples/ and install/, and rankshim finds the whole job in each pod that
the platform makes of them."""

import pathlib
import re
import shlex

import pytest
import yaml

from examples.controllers import pods
from examples.schema import mistakes
from lib.explain import explained, values
from lib.process import clean_environment, run
from lib.requirements import cannot

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
EXAMPLES, INSTALL = REPOSITORY / "examples", REPOSITORY / "install"
RUNTIME = INSTALL / "kubeflow-trainer" / "runtime.yaml"
# Kubeflow Trainer's own runtime, as kubeflow/trainer@v2.3.0:manifests/base/runtimes/torch_distributed.yaml has it.
TORCH_DISTRIBUTED = {"spec": {"template": {"spec": {"replicatedJobs": [
    {"name": "node", "template": {"spec": {"template": {"spec": {"containers": [{"name": "node"}]}}}}},
]}}}}

# What all pods of each manifest must find, and the platform that must be recognised.
JOBS = {
    "cube-studio/job.yaml": ("kubeflow-pytorchjob", 3, "1", "pytorchjob-mnist-1a2b-master-0"),
    "indexed-job/job.yaml": ("indexed-job", 3, "1", "mnist-0.mnist.default.svc.cluster.local"),
    "jobset/jobset.yaml": ("jobset", 3, "1", "mnist-workers-0-0.mnist.default.svc.cluster.local"),
    "kubeflow-v1/elastic.yaml": ("kubeflow-pytorchjob", 4, "8", "mnist-worker-0"),
    "kubeflow-v1/job.yaml": ("kubeflow-pytorchjob", 3, "8", "mnist-master-0"),
    "kubeflow-v2/trainjob.yaml": ("kubeflow-trainjob", 3, "8", "mnist-node-0-0.mnist"),
    "kueue/job.yaml": ("kubeflow-pytorchjob", 3, "8", "mnist-master-0"),
    "leaderworkerset/lws.yaml": ("leaderworkerset", 3, "1", "mnist-0.mnist.default"),
    "metrics/job.yaml": ("indexed-job", 3, "1", "mnist-0.mnist.default.svc.cluster.local"),
    "modelarts-lite/job.yaml": ("modelarts", 6, "8", "llm-worker-0.llm"),
    "openmmlab/job.yaml": ("kubeflow-pytorchjob", 3, "1", "resnet-master-0"),
    "restart/job.yaml": ("indexed-job", 3, "1", "mnist-0.mnist.default.svc.cluster.local"),
    "spares/indexed-job.yaml": ("indexed-job", 4, "1", "mnist-0.mnist.default.svc.cluster.local"),
    "spares/jobset.yaml": ("jobset", 4, "1", "mnist-workers-0-0.mnist.default.svc.cluster.local"),
    "spares/pytorchjob.yaml": ("kubeflow-pytorchjob", 4, "8", "mnist-master-0"),
    "spares/volcano.yaml": ("volcano-pytorch", 4, "1", "mnist-master-0.mnist"),
    "volcano/pytorch.yaml": ("volcano-pytorch", 3, "1", "mnist-master-0.mnist"),
    "volcano/svc-env.yaml": ("volcano", 3, "1", "mnist-worker-0.mnist"),
}


def documents(path):
    return list(yaml.safe_load_all(path.read_text()))


def command_of(pod):
    """The command of a pod's container after the word `rankshim`."""
    (container,) = pod["spec"]["containers"]
    words = [*container.get("command", []), *container.get("args", [])]
    if words[:2] in (["bash", "-c"], ["sh", "-c"]):
        words = shlex.split(words[2])
        assert words.pop(0) == "exec", "a shell would stay PID 1"
    assert pathlib.Path(words[0]).name == "rankshim"
    return words[1:]


def field_of(pod, path):
    """What a fieldRef means: metadata.name, metadata.annotations['a/b']."""
    found = pod
    for plain, quoted in re.findall(r"([\w-]+)|\['([^']+)'\]", path):
        found = found[plain or quoted]
    return found


def environment_of(pod):
    """The variables of a pod's container, as the kubelet makes them."""
    (container,) = pod["spec"]["containers"]
    made = {"HOSTNAME": host_of(pod)}
    for entry in container.get("env", []):
        source = entry.get("valueFrom")
        if source and source["fieldRef"]["fieldPath"].startswith("status."):
            continue  # what only a node knows
        value = field_of(pod, source["fieldRef"]["fieldPath"]) if source else entry.get("value", "")
        made[entry["name"]] = re.sub(r"\$\((\w+)\)", lambda found: made.get(found[1], found[0]), value)
    return made


def host_of(pod):
    return pod["spec"].get("hostname", pod["metadata"]["name"])


def found_in(rankshim, tmp_path, pod):
    """What `rankshim explain` finds in a pod, with its host name and what the kubelet writes into /etc/hosts."""
    assert mistakes(pod) == []
    host, subdomain = host_of(pod), pod["spec"].get("subdomain")
    domain = f"{host}.{subdomain}.{pod['metadata']['namespace']}.svc.cluster.local\t" if subdomain else ""
    (tmp_path / "hosts").write_text(f"192.0.2.1\t{domain}{host}\n")
    script = 'hostname "$1"; mount --bind "$2" /etc/hosts; shift 2; exec "$@"'
    return explained(run(["unshare", "--uts", "--mount", "sh", "-c", script, "sh", host, tmp_path / "hosts", rankshim, "explain",
                          "--format", "json", *command_of(pod)], clean_environment(environment_of(pod))))


@pytest.mark.parametrize("path", JOBS)
def test_every_pod_of_the_example_finds_the_whole_job(rankshim, tmp_path, namespaces, path):
    if namespaces:
        cannot(namespaces)
    platform, nodes, per_node, master = JOBS[path]
    job = documents(EXAMPLES / path)[-1]
    made = pods(job, TORCH_DISTRIBUTED)
    assert len(made) == nodes
    for rank, pod in enumerate(made):
        document = found_in(rankshim, tmp_path, pod)
        facts = values(document)
        assert document["platform"] == platform
        if "rdzv_endpoint" in facts:
            assert (facts["nnodes"], facts["rdzv_endpoint"]) == ("2:4", f"{master}:23456")
        else:
            assert (facts["nnodes"], facts["node_rank"], facts["master_addr"]) == (str(nodes), str(rank), master)
        assert facts["nproc_per_node"] == per_node
        assert "train.py" in document["command"] or "tools/dist_train.sh" in document["command"]


def test_every_manifest_is_in_the_table():
    kinds = {path: [document.get("kind") for document in documents(path)] for path in EXAMPLES.glob("*/*.yaml")}
    kubernetes = {str(path.relative_to(EXAMPLES)) for path, found in kinds.items() if all(found)}
    assert kubernetes - {"mpi/mpijob.yaml"} == set(JOBS)


MANIFESTS = [EXAMPLES / path for path in JOBS] + [RUNTIME]


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: str(path.relative_to(REPOSITORY)))
def test_the_api_server_takes_the_manifest(path):
    found = documents(path)
    assert found and [mistakes(document) for document in found] == [[]] * len(found)


def test_a_schema_notices_an_unknown_field():
    (job,) = documents(EXAMPLES / "volcano" / "pytorch.yaml")
    job["spec"]["tasks"][0]["template"]["spec"]["containers"][0]["comand"] = []
    assert "comand" in mistakes(job)[0]
