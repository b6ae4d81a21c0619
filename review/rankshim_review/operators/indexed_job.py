"""Kubernetes' own Jobs, read by config/platforms/indexed-job.toml; JobSet and TrainJob create them too.

Sources: Kubernetes documentation, "Jobs", "Completion mode"; kubernetes/kubernetes:pkg/controller/job/
indexed_job_utils.go (the host name JOB-INDEX; JOB_COMPLETION_INDEX in every container that has no variable of that name).
"""

from __future__ import annotations

from ..pods import COMPLETION_INDEX, Added, Cluster, Pod, Workload, make_pod, shown
from ..source import Field


def workload(cluster: Cluster, document: Field) -> Workload:
    job, spec = document.get("metadata", "name").text("job"), document.get("spec")
    namespace = document.get("metadata", "namespace").text("default")
    at_once = spec.get("parallelism").number(1)
    completions = spec.get("completions").number(at_once)
    made = Workload("Job", job, document, restart=spec.get("template", "spec", "restartPolicy"), bounded=True)
    labels = {"job-name": job, "batch.kubernetes.io/job-name": job}
    if spec.get("completionMode").value == "Indexed":
        made.total = made.nodes = completions
        made.pods = pods(cluster, spec.get("template"), job, completions, namespace=namespace, labels=labels)
        if at_once < completions:
            made.notes.append((spec.get("parallelism"), f"{completions} pods are nodes of one job, and parallelism lets only "
                               f"{at_once} of them run: they wait for the others until --wait-timeout, and end with 75"))
    else:
        made.total = made.nodes = min(at_once, completions)
        made.pods = [make_pod(cluster, spec.get("template"), f"{job}-{index:05}", namespace=namespace, labels=labels)
                     for index in shown(made.total)]
    return made


def pods(  # what JobSet and TrainJob add
    cluster: Cluster, template: Field, job: str, completions: int, *, namespace: str, subdomain: str = "",
    added: Added = (), labels: dict[str, str] | None = None, annotations: dict[str, str] | None = None,
    container: str = "", override: Field | None = None,
) -> list[Pod]:
    """The pods of an Indexed Job of this name."""
    added = list(added)
    made = []
    for index in shown(completions):
        # The Job's controller comes last, and leaves existing variables alone.
        made.append(make_pod(
            cluster, template, f"{job}-{index}", namespace=namespace, hostname=f"{job}-{index}", subdomain=subdomain,
            added=added, labels=labels, container=container, override=override,
            annotations={**(annotations or {}), COMPLETION_INDEX: str(index)}, last=[("JOB_COMPLETION_INDEX", str(index))],
        ))
    return made
