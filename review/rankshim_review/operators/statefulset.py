"""StatefulSet, whose pods config/platforms/statefulset.toml reads, and Deployment.

Source: Kubernetes documentation, "StatefulSets", "Stable Network ID" and "Start ordinal"; "Deployments".
"""

from __future__ import annotations

from ..pods import Cluster, Workload, make_pod, shown
from ..source import Field


def workload(cluster: Cluster, document: Field) -> Workload:
    name, spec = document.get("metadata", "name").text("pods"), document.get("spec")
    namespace = document.get("metadata", "namespace").text("default")
    count, start = spec.get("replicas").number(1), spec.get("ordinals", "start").number(0)
    kind = document.get("kind").text()
    made = Workload(kind, name, document, total=count, restart_default="Always")
    if kind == "Deployment":  # each of its pods is its own job
        made.pods = [make_pod(cluster, spec.get("template"), f"{name}-7d4b9c6f5-x7k2p", namespace=namespace)] if count else []
        made.nodes = 1
        return made
    made.nodes = count
    for index in shown(count):
        own = f"{name}-{start + index}"
        labels = {"apps.kubernetes.io/pod-index": str(start + index), "statefulset.kubernetes.io/pod-name": own}
        made.pods.append(make_pod(cluster, spec.get("template"), own, namespace=namespace, hostname=own,
                                  subdomain=spec.get("serviceName").text(), labels=labels))
    return made
