"""TrainJob of Kubeflow Trainer v2 with its runtime, read by config/platforms/kubeflow-trainjob.toml.

Sources: kubeflow/trainer@v2.3.0:pkg/runtime/framework/plugins/torch/torch.go EnforceMLPolicy (the variables, and that the
CPUs are counted where no GPU is asked for), plugins/jobset/builder.go (the container `node`, whose image, command, args
and variables are the trainer's where it has them), pkg/constants/constants.go, and manifests/base/runtimes/
torch_distributed.yaml (the runtime `torch-distributed`). The fields that a TrainJob's `runtimePatches` may have are in
pkg/apis/trainer/v1alpha1/trainjob_types.go; pkg/runtime/core applies them by a strategic merge.
"""

from __future__ import annotations

import copy
import math
import re
from typing import Any

from ..pods import COMPLETION_INDEX, Cluster, Workload, by_field
from ..source import Field, Map, Sequence
from . import indexed_job

PORT = "29500"


def workload(cluster: Cluster, document: Field) -> Workload:
    job, trainer = document.get("metadata", "name").text("job"), document.get("spec", "trainer")
    namespace = document.get("metadata", "namespace").text("default")
    reference = document.get("spec", "runtimeRef")
    runtime = cluster.named(reference.get("kind").text("ClusterTrainingRuntime"), reference.get("name").text())
    made = Workload("TrainJob", job, document, restart_default="Never", bounded=True, services={job})
    if runtime is None and reference.get("name").value != "torch-distributed":
        made.notes.append((reference.get("name"), f"the runtime {reference.get('name').text()!r} is not in these files; it is "
                           "taken for one like torch-distributed"))
    policy = runtime.get("spec", "mlPolicy") if runtime else Field(None, document.file, document.line)
    if policy.get("mpi"):
        made.notes.append((reference, "not reviewed: its runtime is one for MPI, whose mpirun gives the ranks"))
        return made
    template = _trainers(runtime) if runtime else _torch_distributed(document)
    template = _patched(template, document.get("spec", "runtimePatches"))
    nodes = trainer.get("numNodes").number(policy.get("numNodes").number(1))
    resources = trainer.get("resourcesPerNode") or _node(template).get("resources")
    variables: dict[str, str | dict[str, str]] = {
        "PET_NNODES": str(nodes), "PET_NPROC_PER_NODE": _per_node(trainer, resources),
        "PET_NODE_RANK": by_field(f"metadata.annotations['{COMPLETION_INDEX}']"),
    }
    if trainer.get("command").value != ["tune", "run"]:
        variables.update({"PET_MASTER_ADDR": f"{job}-node-0-0.{job}", "PET_MASTER_PORT": PORT})
    made.total = made.nodes = nodes
    made.restart = template.get("spec", "restartPolicy")
    made.pods = indexed_job.pods(cluster, template, f"{job}-node-0", nodes, namespace=namespace, subdomain=job,
                                 added=variables.items(), container="node", override=trainer)
    return made


def _trainers(runtime: Field) -> Field:
    """The pod template of the replicated job that trains: `node`, or the one with the ancestor label."""
    for replicated in runtime.get("spec", "template", "spec", "replicatedJobs").entries():
        ancestor = replicated.get("template", "metadata", "labels", "trainer.kubeflow.org/trainjob-ancestor-step")
        if ancestor.value == "trainer" or replicated.get("name").value == "node":
            return replicated.get("template", "spec", "template")
    raise runtime.mistake("no replicated job of this runtime trains: none is named node")


def _patched(template: Field, patches: Field) -> Field:
    """The template with the TrainJob's patches for its replicated job."""
    for patch in patches.entries():
        for replicated in patch.get("trainingRuntimeSpec", "template", "spec", "replicatedJobs").entries():
            if replicated.get("name").value == "node":
                patched = _merged(template.value, replicated.get("template", "spec", "template"))
                template = Field(patched, template.file, template.line, effort=template.effort)
    return template


def _merged(base: Any, patch: Field) -> Any:
    """Merges a patch. List entries are the same if they have the same name or mount path. What comes from the patch, which may be
    in another file, gets the line of what it is added to."""
    value = patch.value
    if isinstance(value, dict):
        made = copy.copy(base) if isinstance(base, dict) else {}
        made.update({key: _merged(made.get(key), each) for key, each in patch.items()})
        return made
    if isinstance(value, list):
        entries = copy.copy(base) if isinstance(base, list) else []
        for each in patch.entries():
            patch.spend(len(entries))
            at = next((index for index, entry in enumerate(entries) if None is not _key(entry) == _key(each.value)), None)
            if at is None:
                entries.append(_merged(None, each))
                if isinstance(entries, Sequence):
                    entries.lines = [*entries.lines, entries.lines[-1] if entries.lines else 1]
            else:
                entries[at] = _merged(entries[at], each)
        return entries
    return value


def _key(entry: Any) -> Any:
    found = entry.get("mountPath", entry.get("name")) if isinstance(entry, dict) else entry
    return found if isinstance(found, (str, int)) else None


def _torch_distributed(document: Field) -> Field:
    container = Map(document.line)
    container.update(name="node")
    containers = Sequence([document.line])
    containers.append(container)
    return Field({"spec": {"containers": containers}}, document.file, document.line)


def _node(template: Field) -> Field:
    boxes = template.get("spec", "containers").entries()
    return next((box for box in boxes if box.get("name").value == "node"), boxes[0] if boxes else template)


def _per_node(trainer: Field, resources: Field) -> str:
    if trainer.get("numProcPerNode"):
        return trainer.get("numProcPerNode").text()
    names = [key.lower() for part in ("limits", "requests") for key, _ in resources.get(part).items()]
    if any("gpu" in name for name in names):  # pkg/runtime GetNumGPUPerNode
        return "auto"
    quantity = (resources.get("requests", "cpu") or resources.get("limits", "cpu")).text("0")
    number = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)(m?)", quantity)
    cpus = float(number[1]) / (1000 if number[2] else 1) if number else 0
    return str(max(1, math.ceil(cpus)))
