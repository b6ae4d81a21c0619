"""rankshim-review FILE…: what people review before a job runs, as rankshim would see it in each pod."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable

from .binary import Binary, Unusable, find
from .checks import Finding, Reviewed, check
from .command import base_name, expand
from .operators import (
    bare_pods,
    compose,
    indexed_job,
    jobset,
    kubeflow_mpijob,
    kubeflow_pytorchjob,
    kubeflow_trainjob,
    leaderworkerset,
    ray,
    slurm,
    statefulset,
    volcano,
)
from .pods import ENTRYPOINT, Cluster, Pod, Workload
from .report import FORMATS, Job, printable
from .source import LARGEST_FILE, Field, Mistake, documents

OK, WARNINGS, USAGE, SYSTEM, CONFIGURATION = 0, 1, 64, 71, 78  # the last three as the binary's
MOST_PODS = 1000  # in all files: each is a process of some milliseconds

Maker = Callable[[Cluster, Field], "Workload | None"]
KINDS: dict[tuple[str, str], Maker] = {
    ("batch", "Job"): indexed_job.workload,
    ("apps", "Deployment"): statefulset.workload,
    ("apps", "StatefulSet"): statefulset.workload,
    ("kubeflow.org", "PyTorchJob"): kubeflow_pytorchjob.workload,
    ("kubeflow.org", "MPIJob"): kubeflow_mpijob.workload,
    ("trainer.kubeflow.org", "TrainJob"): kubeflow_trainjob.workload,
    ("jobset.x-k8s.io", "JobSet"): jobset.workload,
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): leaderworkerset.workload,
    ("batch.volcano.sh", "Job"): volcano.workload,
    ("ray.io", "RayCluster"): ray.workload,
    ("ray.io", "RayJob"): ray.workload,
}
ALWAYS = {"PyTorchJob", "MPIJob", "TrainJob", "compose"}  # they train, with rankshim or without it


def main(arguments: list[str]) -> int:
    options = _options(arguments)
    findings: list[Finding] = []
    try:
        found = _read(options.files, findings)
        binary = Binary(options.rankshim or find())
    except Unusable as error:
        return _fail(str(error), SYSTEM)
    except IsADirectoryError as error:
        folder = str(error.filename).rstrip("/")
        return _fail(f"{folder} is a folder; name the files in it: rankshim-review {folder}/*.yaml", USAGE)
    except OSError as error:
        return _fail(f"{error.filename}: {error.strerror}", USAGE)
    jobs: list[Job] = []
    try:
        for workload, cluster in _workloads(found, findings):
            try:
                reviewed = _review(workload, binary, MOST_PODS - sum(len(each) for _, each in jobs))
                findings += check(workload, reviewed, cluster, binary)
            except Mistake as mistake:
                findings.append(_of(mistake))
                continue
            jobs.append((workload, reviewed))
    finally:
        binary.close()
    if not jobs and not findings:
        print("rankshim-review: nothing to review: no pod of a job in these files", file=sys.stderr)
    try:
        FORMATS[options.format](jobs, findings, sys.stdout)
        sys.stdout.flush()
    except OSError as error:
        return _fail(f"stdout: {error.strerror}", SYSTEM)
    if any(finding.level == "error" for finding in findings):
        return CONFIGURATION
    return WARNINGS if findings and options.strict else OK


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> None:  # type: ignore[override]
        self.exit(USAGE, f"rankshim-review: error: {message}; rankshim-review --help lists the options\n")


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = _Parser(prog="rankshim-review", description="Shows what rankshim would find in each pod of a job, and what is "
                     "wrong with it. `rankshim-review trace` and `rankshim-review collect` read reports of jobs that have ended.",
                     epilog="Exit codes: 78 where a pod would be refused or would train alone; 1 for warnings with --strict; "
                     "64 for wrong usage; 71 where this machine cannot do it.")
    parser.add_argument("files", nargs="+", metavar="FILE", help="manifests, docker-compose.yaml, an sbatch script; - is stdin")
    parser.add_argument("--format", choices=sorted(FORMATS), default="text", help="text, json, or github's annotations")
    parser.add_argument("--strict", action="store_true", help="exit with 1 for warnings")
    parser.add_argument("--rankshim", metavar="PATH", help="the binary to ask; otherwise that of the wheel, or the first in PATH")
    return parser.parse_args(arguments)


def _fail(text: str, code: int) -> int:
    print(f"rankshim-review: error: {printable(text)}", file=sys.stderr)
    return code


def _of(mistake: Mistake) -> Finding:
    return Finding("error", "unreadable", mistake.file, mistake.line, mistake.text)


Read = "list[tuple[str, str, list[Field]]]"


def _read(names: list[str], findings: list[Finding]) -> list[tuple[str, str, list[Field]]]:
    """Each file with its text and its documents; what cannot be read is a finding."""
    made = []
    for name in names:
        shown = "stdin" if name == "-" else name
        if name == "-":
            content = sys.stdin.buffer.read(LARGEST_FILE + 1)
        else:
            with open(name, "rb") as file:
                content = file.read(LARGEST_FILE + 1)
        try:
            if len(content) > LARGEST_FILE:
                raise Mistake(shown, 1, f"more than {LARGEST_FILE >> 20} MiB are not read")
            text = content.decode("utf-8", "replace").lstrip("\ufeff")
            is_script = text.startswith("#!") or re.search("^#SBATCH", text, re.M)
            made.append((shown, text, [] if is_script else _flat(documents(shown, text))))
        except Mistake as mistake:
            findings.append(_of(mistake))
    return made


def _flat(found: list[Field]) -> list[Field]:
    """Documents, and those in a List, as kubectl prints several."""
    made = []
    for document in found:
        if isinstance(document.value, dict) and str(document.value.get("kind", "")).endswith("List"):
            made += document.get("items").entries()
        elif isinstance(document.value, dict):
            made.append(document)
    return made


def _workloads(found: list[tuple[str, str, list[Field]]], findings: list[Finding]) -> list[tuple[Workload, Cluster]]:
    cluster = Cluster([document for _, _, inside in found for document in inside if document.get("kind")])
    made: list[Workload | None] = []
    for file, text, inside in found:
        pods = []
        makers: list[Callable[[], Workload | None]] = []
        if re.search("^#SBATCH", text, re.M):
            makers.append(lambda file=file, text=text: slurm.workload(file, text))  # type: ignore[misc]
        for document in inside:
            group = str(document.value.get("apiVersion", "")).rpartition("/")[0]
            kind = document.value.get("kind")
            maker = KINDS.get((group, str(kind)))
            if maker is None and kind is None and isinstance(document.value.get("services"), dict):
                maker = compose.workload
            if (group, kind) == ("", "Pod"):
                pods.append(document)
            elif maker is not None:
                makers.append(lambda maker=maker, document=document: maker(cluster, document))  # type: ignore[misc]
        for make in makers:
            try:
                made.append(make())
            except Mistake as mistake:
                findings.append(_of(mistake))
        try:
            made += bare_pods.workloads(cluster, pods)
        except Mistake as mistake:
            findings.append(_of(mistake))
    return [(workload, cluster) for workload in made if workload is not None and _trains(workload)]


def _trains(workload: Workload) -> bool:
    """Whether rankshim is in it, or should be: a Deployment of something else is nobody's training."""
    if workload.kind in ALWAYS:
        return bool(workload.pods or workload.notes)
    starts = any(pod.command.rankshim not in ("", ENTRYPOINT) for pod in workload.pods)
    torch = any(re.search(r"torchrun|torch\.distributed|dist_train\.sh", " ".join(pod.command.before + pod.command.after))
                for pod in workload.pods)
    ranks = any(("MASTER_ADDR" in pod.environment and {"RANK", "WORLD_SIZE", "NNODES"} & set(pod.environment)) or
                ("LWS_GROUP_SIZE" in pod.environment and pod.has_devices) for pod in workload.pods)
    return starts or torch or ranks


def _review(workload: Workload, binary: Binary, most: int) -> list[Reviewed]:
    if len(workload.pods) > most:
        raise Mistake(workload.field.file, workload.field.line, f"these files have more than {MOST_PODS} pods to look at: give fewer")
    made = []
    for pod in workload.pods:
        environment = {**pod.environment, **pod.command.environment}
        arguments = _arguments(pod, binary)
        with pod.place.blamed():
            arguments = [expand(word, environment) for word in arguments]
        if arguments and arguments[0] in binary.subcommands:
            continue  # `rankshim wait`, `rankshim install`: it starts nothing
        if pod.command.rankshim and any(base_name(word) in ("mpirun", "mpiexec") for word in pod.command.before):
            # Without it, the processes know the first host's short name alone, which nobody publishes.
            whole = "keep_fqdn_hostnames" in " ".join([*pod.command.before, *environment])
            workload.notes.append((pod.place, "not reviewed: mpirun starts rankshim's processes, and only in an MPIJob with Open MPI is it "
                                   "known where" + ("" if whole or workload.kind != "Volcano Job" else "; Open MPI 4 cuts the hosts' names "
                                   "off, and rankshim then finds no master: mpirun --mca orte_keep_fqdn_hostnames true")))
            continue
        answer = binary.explain(arguments, environment, host=pod.host, domain=pod.domain, devices=pod.devices, files=pod.files)
        made.append(Reviewed(pod, answer, binary.settings(arguments, environment) if pod.command.rankshim else {}))
    return made


def _arguments(pod: Pod, binary: Binary) -> list[str]:
    """What stands behind `rankshim explain`."""
    command = pod.command
    if not command.rankshim:
        return ["--", *command.before] if command.before else []
    if command.rankshim == ENTRYPOINT and command.after:
        first = command.after[0]
        if not first.startswith("-"):
            return command.after if first in binary.subcommands else ["--", *command.after]
        if not binary.has_option(first):  # of a script that the ENTRYPOINT names
            return []
    return command.after
