"""rankshim-review FILE…: shows what people review before a job runs, as rankshim would see it in each pod."""

from __future__ import annotations

import argparse
import dataclasses
import re
import sys
from collections.abc import Callable

from . import wrappers
from .binary import Binary, Unusable, find
from .checks import BY_SCRIPT, OTHER_FILE, Finding, Reviewed, check
from .command import LAUNCHER, PYTHON, base_name, expand, parse, without_unknown
from .operators import (
    bare_pods,
    compose,
    dstack,
    indexed_job,
    jobset,
    kubeflow_mpijob,
    kubeflow_pytorchjob,
    kubeflow_trainjob,
    leaderworkerset,
    ray,
    skypilot,
    slurm,
    statefulset,
    volcano,
)
from .pods import ENTRYPOINT, Cluster, Pod, Workload
from .report import FORMATS, Job, printable
from .source import LARGEST_FILE, Field, Mistake, Unread, documents

OK, WARNINGS, USAGE, SYSTEM, CONFIGURATION = 0, 1, 64, 71, 78  # the last three as the binary's
LONGEST_SHOWN = 60  # characters of a command
MOST_PODS = 1000  # in all files; each takes a process of a few milliseconds

Maker = Callable[[Cluster, Field], "Workload | None"]
KINDS: dict[tuple[str, str], Maker] = {
    ("batch", "Job"): indexed_job.workload,
    ("apps", "Deployment"): statefulset.workload,
    ("apps", "StatefulSet"): statefulset.workload,
    ("apps", "ReplicaSet"): statefulset.workload,
    ("apps", "DaemonSet"): statefulset.workload,
    ("kubeflow.org", "PyTorchJob"): kubeflow_pytorchjob.workload,
    ("kubeflow.org", "MPIJob"): kubeflow_mpijob.workload,
    ("trainer.kubeflow.org", "TrainJob"): kubeflow_trainjob.workload,
    ("jobset.x-k8s.io", "JobSet"): jobset.workload,
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): leaderworkerset.workload,
    ("batch.volcano.sh", "Job"): volcano.workload,
    ("ray.io", "RayCluster"): ray.workload,
    ("ray.io", "RayJob"): ray.workload,
}
ALWAYS = {"PyTorchJob", "MPIJob", "TrainJob", "RayJob"}  # these train, with or without rankshim
SERVERS = {"Deployment", "StatefulSet", "ReplicaSet", "DaemonSet", "Pod", "Pods of", "compose", "RayCluster", "Workflow step"}
# The API groups whose objects start no pods, or only pods that another document describes.
WITHOUT_PODS = re.compile(r"|.*\.k8s\.io|policy|autoscaling|.*\.istio\.io|.*coreos\.com|cert-manager\.io|external-secrets\.io"
                          r"|kyverno\.io|scheduling\.volcano\.sh|kueue\.x-k8s\.io|nfd\..*|k8s\.cni\.cncf\.io|kind\.x-k8s\.io|eksctl\.io")
RUNTIMES = {"TrainingRuntime", "ClusterTrainingRuntime"}  # named by a TrainJob in the files
WITH_PODS = {"PodTemplate", "ReplicationController"}


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
    if isinstance(mistake, Unread):
        return Finding("warning", "unread", mistake.file, mistake.line, mistake.text)
    return Finding("error", "unreadable", mistake.file, mistake.line, mistake.text)


Read = "list[tuple[str, str, list[Field]]]"


def _read(names: list[str], findings: list[Finding]) -> list[tuple[str, str, list[Field]]]:
    """Each file with its text and its documents. What cannot be read becomes a finding."""
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
            made.append((shown, text, [] if _is_script(text) else _flat(documents(shown, text))))
        except Mistake as mistake:
            findings.append(_of(mistake))
    return made


def _is_script(text: str) -> bool:
    return text.startswith("#!") or re.search("^#SBATCH", text, re.M) is not None


def _flat(found: list[Field]) -> list[Field]:
    """All documents: also those in a List, as kubectl prints several, and those inside another document."""
    made = []
    for document in found:
        if not isinstance(document.value, dict):
            continue
        group, kind = _kind(document)
        if kind.endswith("List"):
            made += _flat(document.get("items").entries())
            continue
        inner = wrappers.inside(document, group, kind)
        made += [document] if inner is None or kind in wrappers.WORKFLOWS else []
        made += _flat(inner or [])
    return made


def _kind(document: Field) -> tuple[str, str]:
    return str(document.value.get("apiVersion", "")).rpartition("/")[0], str(document.value.get("kind", ""))


def _workloads(found: list[tuple[str, str, list[Field]]], findings: list[Finding]) -> list[tuple[Workload, Cluster]]:
    cluster = Cluster([document for _, _, inside in found for document in inside if document.get("kind")])
    made: list[Workload] = []
    for file, text, inside in found:
        pods = []
        makers: list[Callable[[], list[Workload]]] = []
        if re.search("^#SBATCH", text, re.M):
            makers.append(lambda file=file, text=text: [slurm.workload(file, text)])  # type: ignore[misc]
        elif _is_script(text):
            findings.append(_unread(file, 1, "a script without #SBATCH lines does not say which nodes start it"))
        for document in inside:
            if _kind(document) == ("", "Pod"):
                pods.append(document)
                continue
            maker = _maker(cluster, document)
            if maker is not None:
                makers.append(maker)
            elif why := _why_not(document):
                findings.append(_unread(file, document.line, why))
        makers.append(lambda pods=pods: bare_pods.workloads(cluster, pods))  # type: ignore[misc]
        for make in makers:
            try:
                made += make()
            except Mistake as mistake:
                findings.append(_of(mistake))
    for workload in made:
        if not _trains(workload) and (why := _hides(workload)):
            findings.append(_unread(workload.field.file, workload.field.line, why))
    return [(workload, cluster) for workload in made if _trains(workload)]


def _maker(cluster: Cluster, document: Field) -> Callable[[], list[Workload]] | None:
    group, kind = _kind(document)
    if (maker := KINDS.get((group, kind))) is not None:
        return lambda: [each for each in [maker(cluster, document)] if each is not None]
    if group == "argoproj.io" and kind in wrappers.WORKFLOWS:
        return lambda: wrappers.steps(cluster, document)
    if not kind and isinstance(document.value.get("services"), dict):
        return lambda: [each for each in [compose.workload(cluster, document)] if each is not None]
    if skypilot.is_task(document):
        return lambda: [skypilot.workload(document)]
    if dstack.is_task(document):
        return lambda: [dstack.workload(document)]
    return None


def _why_not(document: Field) -> str:
    """Why no pods are made from the document; empty if it has none anyway."""
    group, kind = _kind(document)
    if kind in ("Kustomization", "Component") and group == "kustomize.config.k8s.io":
        return "a kustomization: review the output of `kubectl kustomize`"
    if not kind:
        return "it is not a manifest (no kind), a compose file, or a task of SkyPilot or dstack; for a Helm chart, review the output of " \
            "`helm template`"
    if kind in RUNTIMES or (WITHOUT_PODS.fullmatch(group) and kind not in WITH_PODS):
        return ""
    return f"rankshim-review does not know which pods the kind {kind} ({group or 'core'}) creates; review the output of " \
        "`kubectl get pods -o yaml` while the job runs"


def _unread(file: str, line: int, why: str) -> Finding:
    return Finding("warning", "unread", file, line, f"not reviewed: {why}")


def _trains(workload: Workload) -> bool:
    """Whether rankshim is, or should be, in the workload; a Deployment of something else does not train."""
    if workload.kind in ALWAYS:
        return bool(workload.pods or workload.notes)
    told = max((pod.command.told for pod in workload.pods), default=0)
    ranks = any(("MASTER_ADDR" in pod.environment and {"RANK", "WORLD_SIZE", "NNODES"} & set(pod.environment)) or
                ("LWS_GROUP_SIZE" in pod.environment and pod.has_devices) for pod in workload.pods)
    # A Python program may be anything, unless it has accelerators or several pods of one job.
    several = workload.nodes > 1 and workload.kind not in SERVERS
    return told >= LAUNCHER or ranks or (told >= PYTHON and (several or any(pod.has_devices for pod in workload.pods)))


def _hides(workload: Workload) -> str:
    """Why the workload may train all the same; empty if nothing suggests it."""
    devices = any(pod.has_devices for pod in workload.pods)
    if not workload.pods:
        return f"{workload.kind} {workload.name} has no pods; if this is a Kustomize patch, review the output of `kubectl kustomize`"
    command = workload.pods[0].command
    words = " ".join(slurm.started([*command.before, *command.after]))
    runs_file = workload.kind in BY_SCRIPT and OTHER_FILE.search(words) is not None  # which may ask for the devices of a whole machine
    if not devices and not runs_file and (workload.nodes < 2 or workload.kind in SERVERS):
        return ""
    if workload.kind == "RayCluster":
        return f"RayCluster {workload.name} starts Ray, and what is submitted to it is not in these files"
    if not words or words.startswith("-"):
        words = f"{'the script' if workload.kind in BY_SCRIPT else ENTRYPOINT} {words}".rstrip()
    if not devices and command.before and workload.kind not in BY_SCRIPT and not OTHER_FILE.search(words):
        return ""  # `sleep 100`: all of it is read
    shown = words if len(words) <= LONGEST_SHOWN else f"{words[:LONGEST_SHOWN]}…"
    return f"{workload.kind} {workload.name} runs {shown}, which is not a launcher that rankshim-review knows"


def _review(workload: Workload, binary: Binary, most: int) -> list[Reviewed]:
    if len(workload.pods) > most:
        raise Mistake(workload.field.file, workload.field.line, f"these files have more than {MOST_PODS} pods to look at: give fewer")
    made = []
    for pod in workload.pods:
        environment = {**pod.environment, **pod.command.environment}
        arguments, unknown = _arguments(pod, binary)
        with pod.place.blamed():
            arguments = [expand(word, environment) for word in arguments]
        if arguments and arguments[0] in binary.subcommands:
            continue  # `rankshim wait`, `rankshim install`: it starts nothing
        if pod.command.rankshim and any(base_name(word) in ("mpirun", "mpiexec") for word in pod.command.before):
            # Without it, the processes know only the first host's short name, which nobody publishes.
            whole = "keep_fqdn_hostnames" in " ".join([*pod.command.before, *environment])
            workload.notes.append((pod.place, "not reviewed: mpirun starts rankshim's processes, and only in an MPIJob with Open MPI is it "
                                   "known where" + ("" if whole or workload.kind != "Volcano Job" else "; Open MPI 4 cuts the hosts' names "
                                   "off, and rankshim then finds no master: mpirun --mca orte_keep_fqdn_hostnames true")))
            continue
        answer = binary.explain(arguments, environment, host=pod.host, domain=pod.domain, devices=pod.devices, files=pod.files)
        each = Reviewed(pod, answer, binary.settings(arguments, environment) if pod.command.rankshim else {}, unknown)
        if pod.bypasses and pod.command.launch:
            each.alone = binary.alone(without_unknown(pod.command.launch)[0], environment)
        elif pod.command.rankshim:
            _look_inside(each, arguments, environment, binary)
        made.append(each)
    return made


def _look_inside(each: Reviewed, arguments: list[str], environment: dict[str, str], binary: Binary) -> None:
    """Finds the launch line in the script of a shell that rankshim starts, with the variables that rankshim gives it."""
    each.program = binary.program(arguments)
    given = {str(key): str(value) for key, value in each.answer.document.get("environment", {}).get("set", {}).items()}
    inner = parse(each.program, {**environment, **given}, each.pod.host, each.pod.files)
    if not inner.in_shell or inner.told != LAUNCHER:
        return
    launch, each.unknown = without_unknown(inner.launch)
    options = arguments[:len(arguments) - len(each.program)]
    options = options if options[-1:] == ["--"] else [*options, "--"]
    each.inner = dataclasses.replace(inner, launch=launch)
    each.alone = binary.explain([*options, *launch], environment, host=each.pod.host, domain=each.pod.domain, devices=each.pod.devices,
                                files=each.pod.files)


def _arguments(pod: Pod, binary: Binary) -> tuple[list[str], dict[str, str]]:
    """The arguments of `rankshim explain`, and the flags whose values only a shell knows."""
    command = pod.command
    if not command.rankshim:
        words = command.launch or command.before
        words, unknown = without_unknown(words) if command.in_shell else (words, {})
        return ["--", *words] if words else [], unknown
    if command.rankshim == ENTRYPOINT and command.after:
        first = command.after[0]
        if not first.startswith("-"):
            return command.after if first in binary.subcommands else ["--", *command.after], {}
        if not binary.has_option(first):  # of a script that the ENTRYPOINT names
            return [], {}
    return without_unknown(command.after) if command.in_shell else (command.after, {})
