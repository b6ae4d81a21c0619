"""Finds documents inside others: what a CronJob, a RayCronJob, an AppWrapper or an Argo Workflow creates when it runs.

Sources: Kubernetes documentation, "CronJob"; volcano-sh/volcano:example/cronjob/cronjob.yaml;
ray-project/kuberay:ray-operator/config/samples/ray-cronjob.sample.yaml; project-codeflare/appwrapper:samples
(spec.components[].template; MCAD, which was before it, has spec.resources.GenericItems[].generictemplate);
argoproj/argo-workflows:examples/k8s-jobs.yaml (resource.manifest is a text, in which parameters are {{…}}; a container or a script
is a pod by itself).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from .pods import Cluster, Workload, make_pod
from .shell import substitute
from .source import Field, Map, Sequence, documents

WORKFLOWS = ("Workflow", "WorkflowTemplate", "ClusterWorkflowTemplate", "CronWorkflow")


def inside(document: Field, group: str, kind: str) -> list[Field] | None:
    """The documents in this one; None if it is not one of these kinds."""
    if kind == "CronJob" and group in ("batch", "batch.volcano.sh"):
        return [_with(document, apiVersion=document.get("apiVersion").value, kind="Job", metadata=document.get("metadata").value,
                      spec=document.get("spec", "jobTemplate", "spec").value)]
    if kind == "RayCronJob" and group == "ray.io":
        return [_with(document, apiVersion=document.get("apiVersion").value, kind="RayJob", metadata=document.get("metadata").value,
                      spec=document.get("spec", "jobTemplate").value)]
    if group.endswith("codeflare.dev") and kind == "AppWrapper":
        found = [entry.get("template") for entry in document.get("spec", "components").entries()]
        return found + [entry.get("generictemplate") for entry in document.get("spec", "resources", "GenericItems").entries()]
    if group != "argoproj.io" or kind not in WORKFLOWS:
        return None
    return list(_manifests(document))


def steps(cluster: Cluster, document: Field) -> list[Workload]:
    """The containers of a Workflow, each of which is its own pod."""
    made = []
    for template in _templates(document):
        box = template.get("container") or template.get("script")
        if not box:
            continue
        name = template.get("name").text("step")
        containers = Sequence([box.line])
        containers.append(box.value)
        pod = make_pod(cluster, _with(template, spec={"containers": containers, "volumes": template.get("volumes").value}), name,
                       script=template.get("script", "source"))
        made.append(Workload("Workflow step", name, template, pods=[pod], total=1, nodes=1, restart_default="Never", bounded=True))
    return made


def _templates(document: Field) -> list[Field]:
    spec = document.get("spec", "workflowSpec") or document.get("spec")
    return spec.get("templates").entries()


def _manifests(document: Field) -> Iterator[Field]:
    spec = document.get("spec", "workflowSpec") or document.get("spec")
    known = {"workflow.name": document.get("metadata", "name").text("workflow")}
    known.update({f"workflow.parameters.{entry.get('name').text()}": entry.get("value").text()
                  for entry in spec.get("arguments", "parameters").entries() if entry.get("value")})
    for template in _templates(document):
        manifest = template.get("resource", "manifest")
        if not manifest:
            continue
        inputs = {f"inputs.parameters.{entry.get('name').text()}": (entry.get("value") or entry.get("default")).text()
                  for entry in template.get("inputs", "parameters").entries() if entry.get("value") or entry.get("default")}
        text = _filled_in(manifest.text(), {**known, **inputs})
        manifest.spend(len(text) + manifest.line)
        yield from documents(document.file, "\n" * manifest.line + text, manifest.effort)  # so that its lines are the file's


def _filled_in(text: str, values: dict[str, str]) -> str:
    def value(found: re.Match[str]) -> str:
        return values.get(found[1], found[0])

    return substitute(re.compile(r"\{\{\s*([\w.-]+)\s*\}\}"), value, text)


def _with(document: Field, **members: object) -> Field:
    made = Map(document.line)
    made.update(members)
    made.lines.update(getattr(document.value, "lines", {}))
    return Field(made, document.file, document.line, document.path, document.effort)
