"""JobSet, read by config/platforms/jobset.toml.

Sources: kubernetes-sigs/jobset@08dfbdfd:pkg/controllers/jobset_controller.go (the Jobs JOBSET-REPLICATED_JOB-NUMBER, the
labels and annotations, the headless Service of the subdomain, which is the JobSet's name unless network.subdomain sets
another) and api/jobset/v1alpha2/jobset_webhook.go (completionMode Indexed, enableDNSHostnames true, restartPolicy
OnFailure unless they are set).
"""

from __future__ import annotations

from ..pods import Cluster, Workload
from ..source import Field
from . import indexed_job

PREFIX = "jobset.sigs.k8s.io/"


def workload(cluster: Cluster, document: Field) -> Workload:
    name, spec = document.get("metadata", "name").text("jobset"), document.get("spec")
    namespace = document.get("metadata", "namespace").text("default")
    has_names = spec.get("network", "enableDNSHostnames").value is not False
    subdomain = spec.get("network", "subdomain").text(name)
    made = Workload("JobSet", name, document, restart_default="OnFailure", bounded=True)
    if has_names:
        made.services.add(subdomain)
    for replicated in spec.get("replicatedJobs").entries():
        group, job = replicated.get("name").text(), replicated.get("template", "spec")
        completions = job.get("completions").number(job.get("parallelism").number(1))
        replicas = replicated.get("replicas").number(1)
        made.restart = made.restart or job.get("template", "spec", "restartPolicy")
        made.total += completions * replicas
        for number in range(min(replicas, 16)):
            values = {f"{PREFIX}jobset-name": name, f"{PREFIX}replicatedjob-name": group, f"{PREFIX}job-index": str(number),
                      f"{PREFIX}replicatedjob-replicas": str(replicas), f"{PREFIX}restart-attempt": "0"}
            made.pods += indexed_job.pods(
                cluster, job.get("template"), f"{name}-{group}-{number}", completions, namespace=namespace,
                subdomain=subdomain if has_names else "", labels=values, annotations=values)
    made.nodes = made.total
    return made
