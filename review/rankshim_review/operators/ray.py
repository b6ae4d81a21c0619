"""The pods of a RayCluster or RayJob. Ray itself assigns the ranks, so each pod is a program on a lone node, and no profile reads
it.

Source: ray-project/kuberay:ray-operator/controllers/ray/common/pod.go (setContainerEnvVars; the operator replaces the
command by `ray start`, unless the annotation ray.io/overwrite-container-cmd of the cluster or of the pod is true, and
gives that `ray start` as KUBERAY_GEN_RAY_START_CMD; BuildPod mounts an emptyDir of memory at /dev/shm).
The entrypoint of a RayJob runs once, on the head's pod (Ray documentation, "Ray Jobs Overview").
"""

from __future__ import annotations

from ..command import LAUNCHER, PYTHON, base_name, find
from ..pods import ENTRYPOINT, Cluster, Workload, make_pod
from ..shell import Shell
from ..source import Field

RAYS_OWN = ("python", "ray", "serve", "vllm", "sglang")  # programs that ask Ray for workers
OWN_COMMAND = "ray.io/overwrite-container-cmd"


def workload(cluster: Cluster, document: Field) -> Workload:
    name, spec = document.get("metadata", "name").text("ray"), document.get("spec")
    namespace = document.get("metadata", "namespace").text("default")
    spec = spec.get("rayClusterSpec") if document.get("kind").value == "RayJob" else spec
    own = document.get("metadata", "annotations", OWN_COMMAND)
    service = f"{name}-head-svc.{namespace}.svc.cluster.local"
    made = Workload(document.get("kind").text(), name, document, services={f"{name}-head-svc"}, restart_default="Always")
    groups = [("head", spec.get("headGroupSpec"), 1)]
    for group in spec.get("workerGroupSpecs").entries():
        count = group.get("replicas").number(1) * group.get("numOfHosts").number(1)
        groups.append((f"{group.get('groupName').text()}-worker", group, count))
    for role, group, count in groups:
        template = group.get("template")
        made.total += count
        added = {"RAY_CLUSTER_NAME": name, "RAY_PORT": "6379", "RAY_ADDRESS": "127.0.0.1:6379" if role == "head" else
                 f"{service}:6379", "RAY_USAGE_STATS_KUBERAY_IN_USE": "1"}
        if role != "head":
            added.update({"FQ_RAY_IP": service, "RAY_IP": f"{name}-head-svc"})
        if not count or not template:
            continue
        options = {"head": "true"} if role == "head" else {"address": f"{service}:6379"}
        options.update({"block": "true", **{key: value.text() for key, value in group.get("rayStartParams").items()}})
        added["KUBERAY_GEN_RAY_START_CMD"] = " ".join(
            ["ray start", *(f"--{key}" if value == "true" else f"--{key}={value}" for key, value in options.items())])
        pod = make_pod(cluster, template, f"{name}-{role}-x7k2p", namespace=namespace, added=added.items())
        made.pods.append(pod)
        kept = "true" in (own.text(), template.get("metadata", "annotations", OWN_COMMAND).text())
        if pod.command.rankshim not in ("", ENTRYPOINT) and not kept:
            made.notes.append((pod.container.get("command"), "KubeRay replaces this command by `ray start`, so rankshim does not "
                               f"run; set the annotation {OWN_COMMAND}: \"true\", and the command rankshim --platform none -- sh -c "
                               "$(KUBERAY_GEN_RAY_START_CMD), which has the head's address"))
    if entrypoint := document.get("spec", "entrypoint"):
        _entrypoint(made, entrypoint, made.total - 1)
    return made


def _entrypoint(made: Workload, entrypoint: Field, workers: int) -> None:
    """The entrypoint. Ray starts workers for programs that ask it; a launcher knows nothing of Ray."""
    with entrypoint.blamed():
        found = find(entrypoint.text(), Shell({}))
    name = "rankshim" if found.rankshim else found.launcher
    if found.told >= LAUNCHER and workers:
        made.faults.append((entrypoint, f"Ray runs the entrypoint once, on the head's pod, so {name} trains alone there, without the other "
                            f"{workers} pods: let Ray start the workers (ray.train.torch.TorchTrainer), or use a PyTorchJob"))
    elif found.told < PYTHON and base_name(entrypoint.text().split(" ")[0]) not in RAYS_OWN:
        made.notes.append((entrypoint, f"not reviewed: what the entrypoint {entrypoint.text()[:60]!r} starts on the head's pod"))
