"""The rules against the recorded environments of the tests, in both directions: what a manifest makes is what was recorded, and
every recorded environment of these platforms is made from a manifest, or it is named here why not."""

import pathlib
import re

import pytest
import yaml
from rankshim_review.pods import Cluster
from rankshim_review.review import KINDS
from rankshim_review.source import documents

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
KUBEFLOW = REPOSITORY / "integration" / "kubeflow" / "environments"
TESTDATA = REPOSITORY / "shim" / "platform" / "testdata"
CONTAINER = "containers: [{name: %s, command: [rankshim, --, train.py]}]"

PYTORCH = """
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: %(job)s}
spec:
  %(spec)s
  pytorchReplicaSpecs: {%(replicas)s}
"""


def pytorch(spec="", job="job", masters=1, workers=2):
    replica = "{replicas: %d, template: {spec: {" + CONTAINER % "pytorch" + "}}}"
    replicas = ([f"Master: {replica % masters}"] if masters else []) + [f"Worker: {replica % workers}"]
    return PYTORCH % {"job": job, "spec": spec, "replicas": ", ".join(replicas)}


def volcano(tasks, plugins="env: [], svc: []", job="llm", spec=""):
    one = "{name: %s, replicas: %d, template: {spec: {" + spec + CONTAINER % "main" + "}}}"
    return ("apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\n"
            f"metadata: {{name: {job}}}\nspec:\n  plugins: {{{plugins}}}\n"
            "  tasks: [" + ", ".join(one % pair for pair in tasks) + "]\n")


def jobset(spec="", job="pytorch", replicas=1, pods=4, env=""):
    return f"""
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {{name: {job}}}
spec:
  replicatedJobs:
    - name: workers
      replicas: {replicas}
      template: {{spec: {{completions: {pods}, parallelism: {pods}, template: {{spec: {{{spec}containers: [{{
        name: main, env: [{env}], command: [rankshim, --, train.py]}}]}}}}}}}}
"""


def trainjob(trainer, job="test-job"):
    return f"""
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {{name: {job}}}
spec: {{runtimeRef: {{name: torch-distributed}}, trainer: {{{trainer}}}}}
"""


LWS = """
apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata: {name: vllm}
spec: {leaderWorkerTemplate: {size: 4, workerTemplate: {spec: {%s}}}}
""" % (CONTAINER % "main")
MPI = """
apiVersion: kubeflow.org/v2beta1
kind: MPIJob
metadata: {name: pi}
spec:
  slotsPerWorker: 2
  mpiReplicaSpecs:
    Launcher: {template: {spec: {containers: [{name: mpi, command: [%s]}]}}}
    Worker: {replicas: 2, template: {spec: {containers: [{name: mpi, image: registry.example/mpi}]}}}
"""
INDEXED = """
apiVersion: batch/v1
kind: Job
metadata: {name: train}
spec:
  completionMode: Indexed
  completions: 4
  parallelism: 4
  template: {spec: {%scontainers: [{name: main, command: [rankshim, --, train.py]}]}}
"""
STATEFUL = """
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: %s}
spec: {serviceName: %s, replicas: 3, template: {spec: {%scontainers: [{name: main, env: [%s], command: [rankshim, --, train.py]}]}}}
"""
ELASTIC = "elasticPolicy: {rdzvBackend: c10d, %s}"
ON_HOST = "hostNetwork: true, nodeName: gpu-node-17, "
FULL = "setHostnameAsFQDN: true, "

# Of shim/platform/testdata: the manifest, and the pod in it that was recorded.
MADE = {
    "kubeflow-trainjob/cpu-only.txt": (trainjob("resourcesPerNode: {requests: {cpu: 4}}", "cpu-job"), 0),
    "kubeflow-trainjob/node-1.txt": (trainjob("numNodes: 3, resourcesPerNode: {limits: {nvidia.com/gpu: 8}}"), 1),
    "kubeflow-trainjob/torchtune.txt": (trainjob("numNodes: 2, numProcPerNode: 2, command: [tune, run]", "tune"), 1),
    "kubeflow-trainjob/with-user-variables.txt": (trainjob(
        "numNodes: 2, numProcPerNode: 8, env: [{name: RANK, value: '7'}, {name: WORLD_SIZE, value: '16'}, "
        "{name: MASTER_ADDR, value: elsewhere}]", "my-node-0-job"), 1),
    "volcano/evaluator-beside-workers.txt": (volcano([("worker", 2), ("eval", 1)], job="rec"), 2),
    "volcano/env-plugin-alone.txt": (volcano([("worker", 2)], "env: []"), 1),
    "volcano/hosts-in-files-alone.txt": (volcano([("master", 1), ("worker", 2)], "env: [], svc: [--inject-hosts-env=false]"), 2),
    "volcano/hosts-in-files-too.txt": (volcano([("master", 1), ("worker", 2)], job="j"), 1),
    "volcano/one-task.txt": (volcano([("trainer", 3)]), 2),
    "volcano/parameter-server.txt": (volcano([("worker", 2), ("ps", 1)], job="rec"), 2),
    "volcano/svc-plugin-alone-in-files.txt": (volcano([("master", 1), ("worker", 2)], "svc: [--inject-hosts-env=false]"), 2),
    "volcano/svc-plugin-alone-other-task.txt": (volcano([("trainer", 2)], "svc: []", "j"), 1),
    "volcano/chief-beside-one-worker.txt": (volcano([("chief", 1), ("worker", 1)], job="j"), 0),
    "volcano/coordinator-beside-one-worker.txt": (volcano([("coordinator", 1), ("worker", 1)], job="j"), 1),
    "volcano/mpi-example-launcher.txt": (volcano([("mpimaster", 1), ("mpiworker", 2)], "ssh: [], svc: []", "lm-mpi-job"), 0),
    "volcano/mpi-launcher.txt": (volcano([("mpimaster", 1), ("mpiworker", 2)],
                                         "env: [], mpi: [--master=mpimaster, --worker=mpiworker]", "lm-mpi-job"), 0),
    "volcano/mpi-worker.txt": (volcano([("mpimaster", 1), ("mpiworker", 2)],
                                       "env: [], mpi: [--master=mpimaster, --worker=mpiworker]", "lm-mpi-job"), 2),
    "volcano/two-tasks-master.txt": (volcano([("master", 1), ("worker", 2)]), 0),
    "volcano/two-tasks-worker-0.txt": (volcano([("master", 1), ("worker", 2)]), 1),
    "volcano/two-tasks-without-env-plugin.txt": (volcano([("master", 1), ("worker", 2)], "svc: []"), 2),
    "volcano/workers-and-servers.txt": (volcano([("worker", 2), ("ps", 1)], job="rec"), 1),
    "volcano/workers-scaled-to-zero.txt": (volcano([("master", 1), ("worker", 0)], job="j"), 0),
    "volcano-pytorch/worker.txt": (volcano([("master", 1), ("worker", 2)], "pytorch: []", "mnist"), 2),
    "volcano-pytorch/other-task.txt": (volcano([("master", 1), ("worker", 2), ("tensorboard", 1)], "pytorch: []", "mnist"), 3),
    "volcano-pytorch/master-of-other-name.txt": (volcano(
        [("chief", 1), ("worker", 2)], "env: [], svc: [--inject-hosts-env=false], pytorch: [--master=chief]", "mnist"), 0),
    "jobset/workers-1.txt": (jobset(), 1),
    "jobset/replica-1-of-two.txt": (jobset(replicas=2), 4),
    "leaderworkerset/worker.txt": (LWS, 2),
    "indexed-job/with-headless-service.txt": (INDEXED % "subdomain: train-svc, ", 3),
    "indexed-job/no-service.txt": (INDEXED % "", 0),
    "statefulset/second.txt": (STATEFUL % ("trainer", "trainer", "", "{name: NNODES, value: '2'}"), 1),
    "kubeflow-mpijob/launcher.txt": (MPI % "mpirun, pi", 0),
    "kubeflow-pytorchjob/1.9-elastic-with-master.txt": (pytorch(
        "nprocPerNode: auto\n  " + ELASTIC % "minReplicas: 1, maxReplicas: 3", "elastic"), 0),
    "kubeflow-pytorchjob/1.9-elastic-last-worker.txt": (pytorch(
        "nprocPerNode: '1'\n  " + ELASTIC % "minReplicas: 1, maxReplicas: 2", "e"), 2),
    "kubeflow-pytorchjob/1.9-worker-of-8-processes.txt": (pytorch("nprocPerNode: '8'", "llm"), 1),
    "volcano/one-task-on-the-host-network.txt": (volcano([("worker", 2)], spec=ON_HOST), 1),
    "volcano/two-tasks-on-the-host-network.txt": (volcano([("master", 1), ("worker", 2)], spec=ON_HOST), 0),
    "volcano/full-host-name.txt": (volcano([("master", 1), ("worker", 2)], job="train", spec=FULL), 2),
    "volcano/template-with-hostname.txt": (volcano([("worker", 2), ("ps", 1)], job="rec").replace(
        "spec: {", "spec: {hostname: same, ", 1), 1),
    "indexed-job/full-host-name.txt": (INDEXED % f"subdomain: train-svc, {FULL}", 3),
    "indexed-job/second-replica-of-a-jobset-pet-nnodes.txt": (
        jobset(replicas=2, pods=2, env="{name: PET_NNODES, value: '4'}"), 2),
    "indexed-job/second-replica-of-a-jobset-world-size.txt": (
        jobset(replicas=2, pods=2, env="{name: WORLD_SIZE, value: '4'}"), 2),
    "jobset/full-host-name.txt": (jobset(FULL, "pytorch-1"), 2),
    "statefulset/full-host-name.txt": (STATEFUL % ("web", "web-svc", FULL, ""), 2),
    "open-mpi/worker-of-kubeflow.txt": (MPI % "mpirun, rankshim, --, train.py", 1),
}
# What no manifest makes with these rules, and why.
OLDER = "an older operator: 1.7 to 1.9 are followed"
NOT_ALL = "a variable is missing, or is another platform's"
NOT_MADE = {
    "kubeflow-pytorchjob/1.3-master.txt": OLDER, "kubeflow-pytorchjob/1.3-worker.txt": OLDER,
    "kubeflow-pytorchjob/1.4-elastic-with-master.txt": OLDER, "kubeflow-pytorchjob/1.6-elastic-without-master.txt": OLDER,
    "kubeflow-pytorchjob/1.6-master.txt": OLDER, "leaderworkerset/0.5-leader.txt": OLDER,
    "kubeflow-pytorchjob/service-link.txt": OLDER,
    "kubeflow-pytorchjob/1.9-without-PET_NNODES.txt": NOT_ALL, "kubeflow-pytorchjob/cube-studio.txt": NOT_ALL,
    "kubeflow-pytorchjob/1.9-elastic-without-master.txt": "the operator's unit test, without its defaults",
    "jobset/named-by-downward-api.txt": "after a restart", "leaderworkerset/of-runai.txt": NOT_ALL,
    "kubeflow-mpijob/worker.txt": "no rankshim: sshd waits there",
    "kubeflow-mpijob/trainer-v2-launcher.txt": "a runtime for MPI is not reviewed",
    "leaderworkerset/0.5-worker.txt": OLDER, "leaderworkerset/0.5-leader-with-full-host-name.txt": OLDER,
}
# PYTHONUNBUFFERED and the older VK_TASK_INDEX are left out of some recordings; a process's own number is not the first's.
NOT_COMPARED = ("PYTHONUNBUFFERED", "VK_TASK_INDEX", "PMIX_NAMESPACE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK",
                "OMPI_COMM_WORLD_NODE_RANK")


def pods(text):
    found = documents("manifest.yaml", text)
    (document,) = found
    group = document.get("apiVersion").text().rpartition("/")[0]
    return KINDS[group, document.get("kind").text()](Cluster(found), document).pods


def recorded(path):
    """{variable: value}, {file: text} and the host name of shim/platform/testdata: recording_for_test.h has the form."""
    variables, files, host = {}, {}, ""
    for line in path.read_text().partition("\n=>")[0].splitlines():
        if line.startswith("file "):
            name, _, text = line[5:].partition(": ")
            files[name] = text.replace("\\n", "\n").replace("\\t", "\t")
        elif line.startswith("hostname: "):
            host = line[10:]
        elif line and not line.startswith("#"):
            name, _, value = line.partition("=")
            variables[name] = value
    return variables, files, host


@pytest.mark.parametrize("name", MADE)
def test_a_manifest_makes_the_recorded_environment(name):
    manifest, index = MADE[name]
    variables, files, host = recorded(TESTDATA / name)
    pod = pods(manifest)[index]

    def compared(found):
        return {key: value for key, value in found.items() if key not in NOT_COMPARED and value}

    made = compared(pod.environment)
    if "JOB_COMPLETION_INDEX" not in variables:  # which some recordings of Trainer v2 leave out
        made.pop("JOB_COMPLETION_INDEX", None)
    assert made == compared(variables)
    assert host in (pod.host, "")
    for path, text in files.items():
        if path == "/etc/hosts":
            assert (host if pod.domain in host else f"{host}.{pod.domain}") in text
        else:
            assert pod.files[path].split() == text.split()


@pytest.mark.parametrize("name", MADE)
def test_the_binary_finds_in_the_pod_what_was_expected_of_the_recording(name, binary):
    manifest, index = MADE[name]
    pod = pods(manifest)[index]
    opt_in = {"RANKSHIM_PLATFORM": "statefulset"} if name.startswith("statefulset") else {}
    answer = binary.explain([], {**pod.environment, **opt_in}, host=pod.host, domain=pod.domain, devices=pod.devices, files=pod.files)
    wanted = dict(re.findall(r"^(nnodes|node_rank|master_addr): (\S+) ", (TESTDATA / name).read_text().partition("=>")[2], re.M))
    for fact, value in wanted.items() if answer.document else ():
        assert answer.fact(fact) in (value, ""), fact
    if answer.document and wanted:
        assert name.partition("/")[0] in (answer.document["platform"], *answer.document.get("also_matched", []))


KUBEFLOWS = {
    "operator-1.7": pytorch("nprocPerNode: '2'"),
    "operator-1.7-auto": pytorch(),
    "operator-1.7-elastic": pytorch("nprocPerNode: '1'\n  " + ELASTIC % (
        "minReplicas: 1, maxReplicas: 3, maxRestarts: 3, rdzvId: elastic-job, standalone: true, "
        "rdzvConf: [{key: last_call_timeout, value: '5'}]"), masters=0, workers=3),
    "operator-1.7-elastic-master": pytorch("nprocPerNode: '1'\n  " + ELASTIC % "minReplicas: 2, maxReplicas: 3"),
    "trainer-2": trainjob("numNodes: 3, numProcPerNode: 2", "job"),
}
OTHER_KUBEFLOWS = {"operator-1.3": OLDER, "operator-1.4-elastic": OLDER, "operator-1.5": OLDER,
                   "cube-studio": "what its page lists, which is less than its operator sets"}


@pytest.mark.parametrize("job", KUBEFLOWS)
def test_every_pod_of_a_kubeflow_job_has_the_recorded_environment(job):
    made = {pod.host: pod.environment for pod in pods(KUBEFLOWS[job])}
    files = {path.stem: path for path in (KUBEFLOW / job).glob("*.env")}
    assert set(made) == set(files)
    for host, path in files.items():
        variables = {line.partition("=")[0]: line.partition("=")[2] for line in path.read_text().splitlines() if line[:1] != "#"}
        assert {key: value for key, value in variables.items() if not key.startswith(("KUBERNETES_", "HOSTNAME"))} == made[host]


def test_every_recorded_environment_of_these_platforms_is_made_or_is_said_why_not():
    assert {path.name for path in KUBEFLOW.iterdir()} == set(KUBEFLOWS) | set(OTHER_KUBEFLOWS)
    platforms = {name.partition("/")[0] for name in MADE} - {"open-mpi"}
    there = {f"{path.parent.name}/{path.name}" for platform in platforms for path in (TESTDATA / platform).glob("*.txt")}
    assert there - set(MADE) - set(NOT_MADE) == set()


def test_each_rule_is_named_after_the_profile_that_reads_it():
    rules = REPOSITORY / "review" / "rankshim_review" / "operators"
    for path in rules.glob("*.py"):
        text = path.read_text()
        if text and path.stem not in ("bare_pods", "ray"):
            profile = REPOSITORY / "config" / "platforms" / f"{path.stem.replace('_', '-')}.toml"
            assert profile.exists() or "config/platforms/" in text, path
        assert not text or "Source" in text, path


def test_the_rules_and_the_tests_own_controllers_make_the_same_pods():
    """integration/examples/controllers.py was written from the same sources, for other tests."""
    from examples import controllers

    for path in sorted((REPOSITORY / "examples").glob("*/*.yaml")):
        document = list(yaml.safe_load_all(path.read_text()))[-1]
        key = (str(document.get("apiVersion", "")).partition("/")[0], document.get("kind"))
        if key not in controllers.MAKERS:
            continue
        theirs = controllers.pods(document)
        last = documents(str(path), path.read_text())[-1]
        ours = KINDS[key](Cluster([last]), last).pods
        for one, other in zip(ours, theirs):
            names = {entry["name"] for entry in other["spec"]["containers"][0]["env"]}
            assert set(one.environment) == names, path
            values = {entry["name"]: entry["value"] for entry in other["spec"]["containers"][0]["env"] if "value" in entry}
            assert {key: one.environment[key] for key in values} == values, path
            assert one.host == other["spec"].get("hostname", other["metadata"]["name"])
