"""The pods of a RayCluster or RayJob. Ray gives the ranks itself, so each of them is a program alone, and no profile reads it.

Source: ray-project/kuberay:ray-operator/controllers/ray/common/pod.go (setContainerEnvVars; the operator replaces the
command by `ray start`, unless the annotation ray.io/overwrite-container-cmd is true).
"""

from __future__ import annotations

from ..pods import ENTRYPOINT, Cluster, Workload, make_pod
from ..source import Field


def workload(cluster: Cluster, document: Field) -> Workload:
    name, spec = document.get("metadata", "name").text("ray"), document.get("spec")
    namespace = document.get("metadata", "namespace").text("default")
    spec = spec.get("rayClusterSpec") if document.get("kind").value == "RayJob" else spec
    own_command = document.get("metadata", "annotations", "ray.io/overwrite-container-cmd").text() == "true"
    service = f"{name}-head-svc.{namespace}.svc.cluster.local"
    made = Workload(document.get("kind").text(), name, document, services={f"{name}-head-svc"}, restart_default="Always")
    groups = [("head", spec.get("headGroupSpec", "template"), 1)]
    for group in spec.get("workerGroupSpecs").entries():
        count = group.get("replicas").number(1) * group.get("numOfHosts").number(1)
        groups.append((f"{group.get('groupName').text()}-worker", group.get("template"), count))
    for role, template, count in groups:
        made.total += count
        added = {"RAY_CLUSTER_NAME": name, "RAY_PORT": "6379", "RAY_ADDRESS": "127.0.0.1:6379" if role == "head" else
                 f"{service}:6379", "RAY_USAGE_STATS_KUBERAY_IN_USE": "1"}
        if role != "head":
            added.update({"FQ_RAY_IP": service, "RAY_IP": f"{name}-head-svc"})
        if not count or not template:
            continue
        pod = make_pod(cluster, template, f"{name}-{role}-x7k2p", namespace=namespace, added=added.items())
        made.pods.append(pod)
        if pod.command.rankshim not in ("", ENTRYPOINT) and not own_command:
            made.notes.append((pod.container.get("command"), "KubeRay replaces this command by `ray start`, so rankshim does not "
                               "run; set the annotation ray.io/overwrite-container-cmd: \"true\""))
    return made
