"""Plain pods: those of a manifest, and those from `kubectl get pod -o yaml`, which have their controller's variables.

Pods of one controller are nodes of one job. Source: Kubernetes documentation, "Owners and Dependents"; Kueue documentation,
"Plain Pods" (the label kueue.x-k8s.io/pod-group-name).
"""

from __future__ import annotations

from ..pods import COMPLETION_INDEX, Cluster, Workload, make_pod
from ..source import Field

GROUPS = ("training.kubeflow.org/job-name", "volcano.sh/job-name", "jobset.sigs.k8s.io/jobset-name", "job-name",
          "kueue.x-k8s.io/pod-group-name")


def workloads(cluster: Cluster, documents: list[Field]) -> list[Workload]:
    made: dict[tuple[str, str], Workload] = {}
    for document in documents:
        metadata = document.get("metadata")
        name = metadata.get("name").text(metadata.get("generateName").text("pod"))
        owner = next(iter(metadata.get("ownerReferences").entries()), None)
        group = next((metadata.get("labels", label).text() for label in GROUPS if metadata.get("labels", label)), "")
        if not group and owner is not None and owner.get("kind").value not in ("ReplicaSet", "Node"):
            group = owner.get("name").text()
        key = (document.file, group or name)
        if key not in made:
            made[key] = Workload("Pods of" if group else "Pod", key[1], document, restart_default="Always", nodes=0,
                                 restart=document.get("spec", "restartPolicy"), bounded=owner is not None)
        workload = made[key]
        index = metadata.get("labels", COMPLETION_INDEX)
        hidden = {COMPLETION_INDEX: index.text()} if index else {}
        workload.pods.append(make_pod(cluster, document, name, annotations=hidden,
                                      namespace=metadata.get("namespace").text("default")))
        workload.total += 1
        workload.nodes = workload.total if workload.total > 1 else 0
        if owner is not None:  # its controller creates the names, and only the cluster knows them
            workload.services.add("*")
    return list(made.values())
