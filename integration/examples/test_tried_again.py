"""What may succeed the next time is tried again by the policies of the manifests, and what cannot is not: rankshim's exit codes
(docs/signals-and-ends.md) meet each platform's rule."""

import re

import pytest
import yaml

from examples.pod_security import templates
from examples.test_install import chart, kustomized
from examples.test_manifests import EXAMPLES, RUNTIME, documents

# How a node's rankshim ends, and whether that may be tried again: the cause as --exit-map names it, and the exit code.
ENDS = [
    ("wait", 75, True), ("peer", 76, True), ("stopped", 143, True),
    (None, 64, False), ("config", 78, False), (None, 126, False), (None, 127, False),
]


def exit_map(template):
    """The causes that a pod's rankshim gives another exit code."""
    (container,) = template["spec"]["containers"]
    found = [entry["value"] for entry in container.get("env", []) if entry["name"] == "RANKSHIM_EXIT_MAP"]
    found += [word.partition("=")[2] for word in container["command"] if word.startswith("--exit-map=")]
    return {cause: int(code) for entry in found for cause, code in re.findall(r"(\w+)=(\d+)", entry)}


def pytorch_job(document, code):
    """kubeflow/training-operator@v1.9.4:pkg/util/train/train_util.go IsRetryableExitCode: 128 and above."""
    replicas = document["spec"]["pytorchReplicaSpecs"].values()
    assert {replica["restartPolicy"] for replica in replicas} == {"ExitCode"}
    return code >= 128


def job(spec, code):
    """kubernetes/kubernetes:pkg/controller/job/pod_failure_policy.go, matchPodFailurePolicy: the first rule that fits. The action, or None."""
    assert spec["template"]["spec"]["restartPolicy"] == "Never", "the API server takes no podFailurePolicy otherwise"
    for rule in spec["podFailurePolicy"]["rules"]:
        if code in rule.get("onExitCodes", {}).get("values", []):
            assert rule["onExitCodes"]["operator"] == "In"
            return rule["action"]
    return None


def indexed_job(document, code):
    return job(document["spec"], code) != "FailJob" and document["spec"]["backoffLimit"] > 0


def job_set(document, code):
    """kubernetes-sigs/jobset@08dfbdfd:pkg/controllers/failure_policy.go. A Job whose policy failed it says so by its reason."""
    spec = document["spec"]["template"]["spec"] if document["kind"] == "ClusterTrainingRuntime" else document["spec"]
    (replicated,) = spec["replicatedJobs"]
    action = job(replicated["template"]["spec"], code)
    if action != "FailJob" and replicated["template"]["spec"]["backoffLimit"] > 0:
        return True  # only the pod is made anew
    reason = "PodFailurePolicy" if action == "FailJob" else "BackoffLimitExceeded"
    policy = spec["failurePolicy"]
    for rule in policy["rules"]:
        if reason in rule["onJobFailureReasons"]:
            return rule["action"] != "FailJobSet"
    return policy["maxRestarts"] > 0


def volcano_job(document, code):
    """volcano-sh/volcano@04d5965:pkg/controllers/job/job_controller_util.go applyPolicies: the first policy that fits."""
    for policy in document["spec"]["policies"]:
        if policy.get("event") == "PodFailed" or policy.get("exitCode") == code:
            return policy["action"] in ("RestartJob", "RestartPod")
    return False


RULES = {
    ("kubeflow.org/v1", "PyTorchJob"): pytorch_job,
    ("batch/v1", "Job"): indexed_job,
    ("jobset.x-k8s.io/v1alpha2", "JobSet"): job_set,
    ("trainer.kubeflow.org/v1alpha1", "ClusterTrainingRuntime"): job_set,
    ("batch.volcano.sh/v1alpha1", "Job"): volcano_job,
}
# What decides by no exit code, or leaves that to something else.
OTHERS = {
    "cube-studio/job.yaml": "its template sets restartPolicy: Never",
    "kubeflow-v2/trainjob.yaml": "the runtime decides",
    "leaderworkerset/lws.yaml": "it starts the whole group again, whatever the code is",
    "mpi/mpijob.yaml": "nothing is tried again",
    "restart/job.yaml": "its kubelets start the containers again, whatever the code is, up to backoffLimit",
}
PATHS = [path for path in sorted([*EXAMPLES.glob("*/*.yaml"), RUNTIME])
         if templates(documents(path)) and str(path.relative_to(path.parents[1])) not in OTHERS]


def check(document):
    decide = RULES[document["apiVersion"], document["kind"]]
    for template in templates(document):
        codes = exit_map(template)
        found = {(cause, code): decide(document, codes.get(cause, code)) for cause, code, _ in ENDS}
        assert found == {(cause, code): again for cause, code, again in ENDS}


@pytest.mark.parametrize("path", PATHS, ids=lambda path: str(path.relative_to(path.parents[2])))
def test_the_manifest_tries_again_what_may_succeed(path):
    check(documents(path)[-1])


def test_so_do_the_jobs_of_kustomize_and_helm(tmp_path):
    check(chart(tmp_path))
    # The Kustomize example has a job of somebody else's, who has to set RANKSHIM_EXIT_MAP: only what it is without that.
    assert pytorch_job(kustomized(), 143) and not pytorch_job(kustomized(), 78)


WORKER = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "master.invalid", "MASTER_PORT": "23456"}


@pytest.mark.parametrize("words, code", [
    (["--wait-timeout", "1s", "true"], 200),
    (["--wait", "none", "sh", "-c", "kill -TERM $PPID; sleep 60"], 143),
    (["--wait", "none", "sh", "-c", "kill -SEGV $$"], 139),
    (["--wait", "none", "sh", "-c", "exit 1"], 1),
    (["--wait", "none", "no-such-program"], 127),
    (["--no-such-option", "true"], 64),
    (["--node-rank", "2", "true"], 78),
], ids=["the master did not come", "drained", "crashed", "an exception", "no such program", "usage", "configuration"])
def test_rankshim_ends_by_the_codes_that_kubeflows_policy_reads(shim, words, code):
    text = (EXAMPLES / "kubeflow-v1" / "job.yaml").read_text()
    (container,) = templates(yaml.safe_load(text))[0]["spec"]["containers"]
    environment = {entry["name"]: entry["value"] for entry in container["env"]}
    done = shim(*words, env={**WORKER, **environment})
    assert done.code == code, done.transcript()
