"""Finds what is wrong with a workload or missing from it, with the line.

An error is a pod that would be refused or would train alone; anything else is a warning.
"""

from __future__ import annotations

import collections
import dataclasses
import ipaddress
import re
from collections.abc import Callable, Iterator

from .binary import CONTRADICTION, Answer, Binary, Unanswered
from .command import Command, base_name, option
from .pods import ENTRYPOINT, Cluster, Pod, Workload
from .source import Field, whole_number

# docs/signals-and-ends.md: wrong usage, wrong configuration, and a command that cannot be executed or found.
NEVER_HEAL = "64, 78, 126 and 127"
NO_NUMBER = "R7"  # `rankshim help R7`: something shows other nodes, but nothing says how many
# What torchrun assumes if it is told of several nodes but not of this: the binary's code, the flags, what then happens.
UNTOLD = (
    ("R8", ("--node_rank", "--node-rank"), "takes node rank 0 in every pod, its default, so the nodes never meet"),
    ("R9", ("--master_addr", "--master-addr", "--rdzv_endpoint", "--rdzv-endpoint"),
     "waits for the others at its own address, its default, until it times out"),
    ("R14", ("--node_rank", "--node-rank"), "fails, or trains alone, because FAULT"),
)
OTHER_FILE = re.compile(r"\.sh\b|(^|\s)\./|^/(?!bin/|usr/)")  # a command that is a script, or starts one
BY_SCRIPT = ("Slurm job", "SkyPilot task", "dstack task")  # on machines without a kubelet
NODE_FLAGS = ("--nnodes", "--num_machines", "--num_nodes")
RANK_FLAGS = ("--machine_rank", "--node_rank", "--node-rank")
READ_NNODES = ("dist_train.sh", "dist_test.sh", "llamafactory-cli", "lmf", "llamafactory.cli")  # no flag tells them
SHARED = "endpoint|master_addr|master-addr|master_port|master-port|rdzv_id|rdzv-id|process_ip|process_port|dist-init"
MATTERS = "RANK|NODES|WORLD|MASTER|PET_|SIZE|all variables"  # names of variables that rankshim may read
POD_GRACE = 30  # Kubernetes API, PodSpec.terminationGracePeriodSeconds
COMPOSE_GRACE = 10  # compose-spec, stop_grace_period


@dataclasses.dataclass(frozen=True)
class Finding:
    level: str  # error or warning
    check: str
    file: str
    line: int
    text: str
    pod: str = ""


@dataclasses.dataclass
class Reviewed:
    """A pod, what the binary says about it, and its settings."""

    pod: Pod
    answer: Answer
    settings: dict[str, str]
    unknown: dict[str, str] = dataclasses.field(default_factory=dict)  # flags whose values only a shell knows
    program: list[str] = dataclasses.field(default_factory=list)  # what rankshim starts
    inner: Command | None = None  # the launcher in a shell's script that rankshim starts
    alone: Answer | None = None  # what the launcher is told if rankshim does not start it

    def is_torchrun(self) -> bool:
        return self.answer.document.get("launcher") == "torchrun" or re.search(
            r"^torchrun$|^torch\.distributed\.(run|launch)$", self.pod.command.launcher) is not None

    def told(self) -> Answer:
        """What the pod's workers go by: a torchrun without rankshim, or one whose flags tell it more, knows only its own words."""
        if self.alone is not None and ((self.pod.bypasses and self.is_torchrun()) or self.knows_more()):
            return self.alone
        return self.answer

    def knows_more(self) -> bool:
        """Whether rankshim takes the node for a lone one, but the launcher in its shell has been told of others."""
        return self.inner is not None and self.alone is not None and self.is_alone() and self.alone.fact("nnodes") not in ("", "1")

    def value(self, column: str) -> str:
        """What the table shows in this column."""
        fact = self._shown().fact
        if not self.answer.document:
            if column == "node rank":
                return "not known" if self.pod.bypasses or self.answer.unseen else "refused"
            return self.launcher() if column == "launcher" and self.pod.bypasses else ""
        if column == "node rank":
            by_torch = "torch's" if fact("rdzv_endpoint") else "none"
            return fact("node_rank") or (f"process {fact('rank')}" if fact("rank") else by_torch)
        if column == "launcher":
            return self.launcher()
        return {"nnodes": fact("nnodes"), "workers": fact("nproc_per_node") or fact("local_world_size"), "port": self.port(),
                "master": fact("rdzv_endpoint").rpartition(":")[0] or fact("master_addr")}[column]

    def port(self) -> str:
        return _port(self._shown())

    def _shown(self) -> Answer:
        return self.told() if self.knows_more() else self.answer

    def launcher(self) -> str:
        document, words = self.answer.document, [str(word) for word in self.answer.document.get("command", [])]
        own = base_name(words[0]) if words else ""
        if self.pod.command.rankshim == ENTRYPOINT and not words:
            return "the image's"
        if self.pod.bypasses:
            before = self.pod.command.before
            return f"{self.pod.command.launcher or (base_name(before[0]) if before else '?')}, without rankshim"
        if document.get("granularity") == "process":
            return "processes are there"
        chosen = document.get("launcher", "none")
        return chosen if chosen in ("torchrun", "native") else own or "not known"

    def is_alone(self) -> bool:
        """Whether it is a single node, although its user did not say so outright."""
        source = self.answer.source("nnodes")
        by_user = source.startswith(("option --", "config", "env RANKSHIM_"))  # and not `option torchrun --nnodes`
        return bool(self.answer.document) and self.answer.fact("nnodes") == "1" and not by_user


def check(workload: Workload, reviewed: list[Reviewed], cluster: Cluster, binary: Binary) -> list[Finding]:
    found = [Finding(level, "note", field.file, field.line, text)
             for level, notes in (("warning", workload.notes), ("error", workload.faults)) for field, text in notes]
    for each in reviewed:
        for test in PER_POD:
            for level, field, text in test(workload, each, cluster, binary):
                found.append(Finding(level, test.__name__, field.file, field.line, text, each.pod.name))
    for level, field, text in agree(workload, reviewed):
        found.append(Finding(level, "agree", field.file, field.line, text))
    return _once(found)


def _once(found: list[Finding]) -> list[Finding]:
    """Merges findings that several pods share except for their numbers into one. Errors come first, then by line."""
    same: dict[tuple[str, str, str, int, str], list[Finding]] = {}
    names = "|".join(re.escape(name) for name in sorted({each.pod for each in found if each.pod}, key=len, reverse=True))
    for each in found:
        alike = re.sub("[0-9]+", "#", re.sub(rf"\b({names})\b", "POD", each.text) if names else each.text)
        same.setdefault((each.level, each.check, each.file, each.line, alike), []).append(each)
    merged = [dataclasses.replace(each[0], pod=each[0].pod + (f" and {len(each) - 1} more" if len(each) > 1 else ""))
              for each in same.values()]
    return sorted(merged, key=lambda each: (each.level != "error", each.file, each.line))


Said = Iterator["tuple[str, Field, str]"]


def refused(workload: Workload, each: Reviewed, cluster: Cluster, binary: Binary) -> Said:
    """Errors that the binary itself reports, and with which it exits 78 in the pod. Without rankshim nothing refuses."""
    if each.pod.bypasses:
        return
    hidden = [name for _, name in each.pod.unknown if re.search(MATTERS, name)]
    for error in each.answer.errors:
        hint = f" (but what {' and '.join(hidden[:3])} will be is not known here)" if hidden else ""
        yield "warning" if hidden else "error", each.pod.place, error + hint
    for warning in each.answer.document.get("warnings", []):
        # What is in the image is unknown here.
        if not re.search("cannot be read|in PATH|No such file|not found", str(warning)):
            yield "warning", each.pod.place, str(warning)


def unseen(workload: Workload, each: Reviewed, cluster: Cluster, binary: Binary) -> Said:
    if each.answer.unseen and not each.pod.bypasses:
        yield "warning", each.pod.place, f"not reviewed: it depends on the pod's host name or files, and {binary.why_not}"


def alone(workload: Workload, each: Reviewed, cluster: Cluster, binary: Binary) -> Said:
    if workload.nodes > 1 and each.is_alone() and not each.pod.bypasses and not each.knows_more():
        source = each.answer.source("nnodes")
        if source.startswith("option"):
            yield "error", each.pod.place, f"{each.pod.name} would train alone, because {source.partition(' ')[2]} says that there is " \
                f"one node: it is one of {workload.nodes} pods, so take that flag out"
            return
        role = "; it is one of" if workload.kind != "StatefulSet" else "; no variable shows a StatefulSet: give it " \
            "--platform statefulset and NNODES. It is one of"
        yield "error", each.pod.place, f"{each.pod.name} would train alone{role} {workload.nodes} pods, and nothing in its " \
            "variables says so: set NNODES, NODE_RANK and MASTER_ADDR, or RANKSHIM_NNODES=1 if each works for itself"


def bypass(workload: Workload, each: Reviewed, cluster: Cluster, binary: Binary) -> Said:
    """A `command:` that replaces the ENTRYPOINT but does not start rankshim."""
    pod, command = each.pod, each.pod.command
    on_one_node = workload.kind == "Slurm job" and "SLURM_STEP_ID" not in pod.environment  # a launch line that is not started by srun
    if not pod.bypasses or workload.nodes < 2 or (_idle(each) and not on_one_node):
        return
    name = command.launcher or "the launcher"
    starts = base_name(command.launch[0]) if command.launch else name
    why = {"Slurm job": "the script starts no rankshim", "SkyPilot task": "the task's run starts no rankshim",
           "dstack task": "the task's commands start no rankshim"}.get(
        workload.kind, "the command bypasses the image's ENTRYPOINT, so rankshim does not run")
    advice = "begin the command with rankshim --"
    if workload.kind in BY_SCRIPT:
        advice = ("start it with srun --ntasks-per-node=1, and " if on_one_node else "") + f"put rankshim -- before {starts}"
    elif command.in_shell and command.launch:  # its words may say what no variable does
        advice = f"put exec rankshim -- before {starts}"
    if each.answer.errors and command.is_certain:
        advice += f" (rankshim would then refuse this pod: {each.answer.errors[0]})"
    wrong = _without_rankshim(each, binary)
    told = whole_number(each.alone.fact("nnodes")) if each.alone is not None else None
    if on_one_node and not wrong and each.is_torchrun() and (told or 0) > 1 and not each.unknown:
        wrong = f"{name} waits for {told} nodes, and a batch script runs once, on the first of them"
    if wrong and command.is_certain:
        yield "error", pod.place, f"{wrong.replace('POD', pod.name)}: {why}; {advice}"
    elif not _idle(each):
        yield "warning", pod.place, f"{why}; {advice}"


def _without_rankshim(each: Reviewed, binary: Binary) -> str:
    """What goes wrong if one of several pods starts its launcher without rankshim; empty if the launcher knows of the others."""
    command, name = each.pod.command, each.pod.command.launcher
    hidden = set(each.unknown)
    if any(not flag.startswith("-") or re.search("nnodes|num_machines|config_file|hostfile", flag) for flag in hidden):
        return ""
    if each.is_torchrun() and each.alone is not None:
        if NO_NUMBER in each.alone.codes or (not each.alone.errors and each.alone.fact("nnodes") in ("", "1")):
            return f"POD would train alone, because {name} is told of one node"
        for code, flags, what in UNTOLD:
            if code in each.alone.codes and not set(flags) & hidden:
                return f"{name} {what}".replace("FAULT", each.alone.errors[each.alone.codes.index(code)].partition(";")[0])
        return ""
    if name in READ_NNODES:
        return "" if {**each.pod.environment, **command.environment}.get("NNODES", "1") != "1" else \
            f"POD would train alone, because {name} reads NNODES, which is not set"
    if any(re.match("--config[_-]file", word) for word in command.launch):
        return ""
    if option(command.launch, *NODE_FLAGS) == "1" or (command.launch and (missing := binary.added(command.launch))):
        lacks = "is told of one node" if option(command.launch, *NODE_FLAGS) else f"lacks {missing[0].partition('=')[0]}"
        return f"POD would train alone, because {name} {lacks}"
    return ""


def inside(workload: Workload, each: Reviewed, cluster: Cluster, binary: Binary) -> Said:
    """A launcher in the script of a shell that rankshim starts, where rankshim fills nothing in."""
    if each.inner is None or each.alone is None or workload.nodes < 2:
        return
    if option(each.inner.launch, *NODE_FLAGS) == "1" and not each.alone.codes and each.inner.is_certain:
        yield "error", each.pod.place, f"{each.pod.name} would train alone, because {each.inner.launcher} is told of one node: take that " \
            "flag out"
    if each.alone.errors and CONTRADICTION in each.alone.codes and each.inner.is_certain:
        yield "error", each.pod.place, f"{each.pod.name} would train alone, or wait for nodes that never come: " \
            f"{each.alone.errors[0].partition(';')[0]}, and rankshim fills in nothing inside {base_name(each.program[0])}; start it with " \
            f"rankshim -- {base_name(each.inner.launch[0])}"


def apart(workload: Workload, each: Reviewed, cluster: Cluster, binary: Binary) -> Said:
    """Values that must be the same on all nodes, but differ."""
    if workload.nodes < 2:
        return
    for flag, value in each.unknown.items():
        if re.search(SHARED, flag) and re.search(r"\bRANDOM\b|\bhostname\b|\$\$|uuidgen|mktemp|urandom|\bdate\b", value):
            yield "error", each.pod.place, f"{flag}={value} is different on each node, so the nodes never meet: compute it once for all " \
                "nodes, or leave it to rankshim"
    told = each.told()
    master = told.fact("rdzv_endpoint").rpartition(":")[0] or told.fact("master_addr")
    if told.fact("nnodes") not in ("", "1") and (master.strip("[]") in ("localhost", "::1") or master.startswith("127.")):
        source = told.source("rdzv_endpoint") or told.source("master_addr")
        yield "error", each.pod.place, f"the master's address is {master} ({source}), so each node waits at its own address: set it to " \
            "node 0's name, or leave it to rankshim"


def words(workload: Workload, each: Reviewed, cluster: Cluster, binary: Binary) -> Said:
    """A command that starts something other than it seems to."""
    if not each.program or each.pod.command.rankshim == ENTRYPOINT:
        return
    if len(each.program) == 1 and re.search(r"\s", each.program[0].strip()):
        yield "error", each.pod.place, f"{each.program[0]!r} is a single argument, so no such program is found (exit code 127): split " \
            "it into separate arguments"
    workers = whole_number(each.answer.fact("nproc_per_node")) or 0
    is_script = re.fullmatch(r"\S*python[0-9.]* \S+\.py", " ".join(each.program[:2]))
    if is_script and workers > 1 and each.answer.document.get("granularity") == "node":
        yield "warning", each.pod.place, f"rankshim runs one {base_name(each.program[0])} process, and this pod has {workers} " \
            f"accelerators: rankshim -- {each.program[1]} starts one worker for each"


def master(workload: Workload, each: Reviewed, cluster: Cluster, binary: Binary) -> Said:
    """A master's name that no Service provides."""
    name = each.value("master").rstrip(".")
    if not name or workload.nodes < 2 or _is_address(name) or name == "localhost" or "*" in workload.services:
        return
    if workload.kind == "compose" and each.pod.container.get("network_mode").value == "host":
        return  # the machine resolves it
    namespace = workload.field.get("metadata", "namespace").text("default")
    host, _, rest = name.partition(".")
    parent = rest.partition(".")[0]
    place = _variable(each.pod, "MASTER_ADDR") or each.pod.place
    if parent in workload.services:
        return
    if not rest or parent == namespace:
        if host in workload.services or cluster.named("Service", host, namespace):
            return
        own = each.pod.place if workload.kind == "compose" else place
        if each.answer.fact("rdzv_backend").startswith("etcd"):  # which no pod of the job hosts
            yield "warning", own, f"no Service in these files is named {name}, at which torchrun looks for etcd"
            return
        what = "service has" if workload.kind == "compose" else "Service makes"
        yield "warning", own, f"no {what} the master's name {name}" + (
            "" if workload.kind == "compose" else f": a pod has one only with a headless Service and `subdomain`, as {name}.SERVICE")
        return
    service = cluster.named("Service", parent, namespace)
    if service is None:
        own = each.pod.spec.get("subdomain")
        yield "warning", own if own else place, f"no Service in these files makes the master's name {name}: a " \
            f"headless Service named {parent} must exist in the namespace"
    elif service.get("spec", "clusterIP").value != "None":
        yield "warning", service.get("spec"), f"the Service {parent} is not headless, so the master's name {name} does not " \
            "exist: set clusterIP: None"
    else:
        labels = _labels(workload, each.pod)
        wrong = [f"{key}={value.text()}" for key, value in service.get("spec", "selector").items()
                 if labels.get(key) != value.text()]
        if wrong:
            yield "warning", service.get("spec", "selector"), f"the Service {parent} selects other pods ({', '.join(wrong)}), " \
                f"so the master's name {name} does not exist"


def devices(workload: Workload, each: Reviewed, cluster: Cluster, binary: Binary) -> Said:
    """More workers than accelerators. The binary refuses that if it sees any accelerators; this finds pods that requested none."""
    workers = each.value("workers")
    if (whole_number(workers) or 0) > 1 and not each.pod.has_devices and workload.kind not in BY_SCRIPT \
            and not each.pod.bypasses:
        yield "warning", each.pod.container, f"{workers} workers, and the container asks for no accelerator " \
            "(resources.limits)"


def grace(workload: Workload, each: Reviewed, cluster: Cluster, binary: Binary) -> Said:
    wanted = _seconds(each.settings.get("grace", ""))
    if wanted is None or workload.kind in BY_SCRIPT:
        return
    if workload.kind == "compose":
        field, name = each.pod.spec.get("stop_grace_period"), "stop_grace_period"
        given = _seconds(field.text(str(COMPOSE_GRACE)))
    else:
        field, name = each.pod.spec.get("terminationGracePeriodSeconds"), "terminationGracePeriodSeconds"
        given = float(field.number(POD_GRACE, 10**9))
    if given is not None and given <= wanted:
        yield "warning", field if field else each.pod.place, f"{name} is {given:g} s{'' if field else ' by default'}, and " \
            f"--grace is {wanted:g} s: it is killed before rankshim could save or report anything"


def shared_memory(workload: Workload, each: Reviewed, cluster: Cluster, binary: Binary) -> Said:
    """A /dev/shm of 64 MiB, which is the default unless a volume is mounted there, as by KubeRay. PyTorch 2.13 allocates all of a
    tensor's memory at once, and says "No space left on device"; older versions are killed by SIGBUS."""
    spec, container = each.pod.spec, each.pod.container
    small = "/dev/shm has 64 MiB, in which a DataLoader's workers fail (No space left on device, or SIGBUS)"
    if workload.kind == "compose":
        if each.pod.has_devices and not (container.get("shm_size") or container.get("ipc")):
            yield "warning", container, f"{small}: set shm_size or ipc: host"
        return
    mounts = [mount.get("mountPath").text().rstrip("/") for mount in container.get("volumeMounts").entries()]
    has_its_own = workload.kind in (*BY_SCRIPT, "RayCluster", "RayJob") or "/dev/shm" in mounts or spec.get("hostIPC").flag()
    if each.pod.has_devices and not has_its_own:
        yield "warning", container, f"{small}: mount an emptyDir with medium: Memory there"


def restarts(workload: Workload, each: Reviewed, cluster: Cluster, binary: Binary) -> Said:
    """A restart policy that retries what will never succeed, or that keeps a node from the next attempt (docs/restarts.md)."""
    field = workload.restart or Field(None, workload.field.file, workload.field.line)
    policy = field.text(workload.restart_default).lower()
    if each.pod.bypasses or workload.kind in ("Deployment", "StatefulSet", "RayCluster", "RayJob"):
        return
    by_itself = {"onfailure": "OnFailure", "on-failure": "on-failure", "always": "Always", "unless-stopped": "unless-stopped"}
    attempts = each.settings.get("job-restarts", "0").partition("/")[0]
    if policy in by_itself and not workload.bounded and workload.kind != "LeaderWorkerSet":
        better = {"PyTorchJob": "restartPolicy: ExitCode, or set runPolicy.backoffLimit",
                  "Volcano Job": "restartPolicy: Never with policies and maxRetry",
                  "compose": "restart: \"no\", or on-failure:N"}.get(workload.kind, "restartPolicy: Never")
        yield "warning", field, f"{by_itself[policy]} repeats {NEVER_HEAL} too, which never heal, without a limit: {better}"
    # A Job creates a new pod to replace one that failed.
    made_anew = workload.kind == "Job" and workload.field.get("spec", "backoffLimit").value != 0
    made_anew = made_anew or _spares(each) > 0  # spares() says what else they need
    if (whole_number(attempts) or 0) > 0 and workload.nodes > 1 and policy in ("never", "no") and not made_anew:
        yield "warning", field, f"--job-restarts={attempts} starts the job again in the same containers, and with " \
            f"{field.text('Never')} one that is killed does not come back: " \
            "the others wait for it until --wait-timeout, and end with 75; OnFailure lets it join"


def spares(workload: Workload, each: Reviewed, cluster: Cluster, binary: Binary) -> Said:
    """A policy of the platform because of which a lost pod ends the job although there is a spare, or the job never ends
    (docs/restarts.md)."""
    count = _spares(each)
    if count and not each.pod.bypasses:
        yield from SPARES.get(workload.kind, _no_policy)(workload, count)


def _spares(each: Reviewed) -> int:
    return whole_number(each.settings.get("spares", "0")) or 0


def _no_policy(workload: Workload, count: int) -> Said:
    yield from ()


def _job_with_spares(workload: Workload, count: int) -> Said:
    yield from _job_policies(workload.field.get("spec"), workload.nodes, count, "fails the job")


def _jobset_with_spares(workload: Workload, count: int) -> Said:
    for replicated in workload.field.get("spec", "replicatedJobs").entries():
        yield from _job_policies(replicated.get("template", "spec"), workload.nodes, count, "starts all pods again")


def _job_policies(spec: Field, nodes: int, count: int, what: str) -> Said:
    limit, trained = spec.get("backoffLimit"), nodes - count
    if limit.value == 0:
        yield "warning", limit, f"backoffLimit: 0 {what} when one is lost, although --spares={count} has a node for it: set it above " \
            "the number of losses that you expect"
    rules = spec.get("successPolicy", "rules").entries()
    counts = [rule.get("succeededCount") for rule in rules if rule.get("succeededCount") and not rule.get("succeededIndexes")]
    if not counts:
        field = spec.get("successPolicy")
        yield "warning", field if field else spec, f"--spares={count}, and the job succeeds only when each of its {nodes} pods has: it " \
            f"waits for a new one that is still pending; set successPolicy: {{rules: [{{succeededCount: {trained}}}]}}"
    elif all(each.number(nodes) > trained for each in counts):
        yield "warning", counts[0], f"succeededCount is {counts[0].text()}, and {trained} of the {nodes} pods train (--spares={count}): " \
            f"the job waits for a new pod that is still pending; set it to {trained}"


def _pytorchjob_with_spares(workload: Workload, count: int) -> Said:
    replicas = workload.field.get("spec", "pytorchReplicaSpecs")
    if "master" not in [key.lower() for key, _ in replicas.items()]:
        yield "warning", replicas, f"--spares={count}, and without a Master replica the job succeeds only when each Worker has: it waits " \
            "for a new one that is still pending"
    for _, replica in replicas.items():
        policy = replica.get("restartPolicy")
        if policy.text("OnFailure") == "Never":
            yield "warning", policy, f"restartPolicy: Never fails the job when a pod is lost, although --spares={count} has a node for " \
                "it: ExitCode makes a new one"


def _volcano_with_spares(workload: Workload, count: int) -> Said:
    spec, trained = workload.field.get("spec"), workload.nodes - count
    for name, what in (("minAvailable", "the job does not begin before the spares have a place, too"),
                       ("minSuccess", "the job waits for a new pod that is still pending")):
        field = spec.get(name)
        if field.number(workload.total) > workload.total - count:
            yield "warning", field if field else spec, f"{name} is {field.text(str(workload.total))}, and {trained} of the " \
                f"{workload.nodes} nodes train (--spares={count}): {what}; set it to {workload.total - count}"
    for policy in spec.get("policies").entries():
        events = {policy.get("event").text(), *policy.get("events").words()}
        action = policy.get("action").text()
        if events & {"*", "PodEvicted", "PodFailed"} and action in ("RestartJob", "AbortJob", "TerminateJob", "RestartTask"):
            yield "warning", policy, f"{action} ends all pods when one is lost, although --spares={count} has a node for it: RestartPod " \
                "makes only that one anew"


def _slurm_with_spares(workload: Workload, count: int) -> Said:
    if not workload.keeps_others:
        yield "warning", workload.field, f"--spares={count}, and Slurm ends the job when one of its nodes fails: set --no-kill for " \
            "sbatch and srun, and --kill-on-bad-exit=0 for srun"


SPARES: dict[str, Callable[[Workload, int], Said]] = {
    "Job": _job_with_spares, "JobSet": _jobset_with_spares, "PyTorchJob": _pytorchjob_with_spares, "Volcano Job": _volcano_with_spares,
    "Slurm job": _slurm_with_spares}


def host_network(workload: Workload, each: Reviewed, cluster: Cluster, binary: Binary) -> Said:
    spec = each.pod.spec
    if workload.kind in ("compose", *BY_SCRIPT) or not spec.get("hostNetwork").flag() or workload.nodes < 2:
        return
    source = each.answer.source("master_port") or each.answer.source("rdzv_endpoint")
    if each.port() and not source.startswith("derived from run_id"):
        yield "warning", spec.get("hostNetwork"), f"hostNetwork, and the port {each.port()} is fixed ({source}): two jobs on one " \
            "machine collide; set --run-id or another --master-port for each job"
    if spec.get("dnsPolicy").value != "ClusterFirstWithHostNet" and not _is_address(each.value("master")):
        yield "warning", spec.get("hostNetwork"), "hostNetwork without dnsPolicy: ClusterFirstWithHostNet asks the machine's name " \
            "server, which does not know the master's name"


PROBES = ("startupProbe", "readinessProbe", "livenessProbe")


def probe(workload: Workload, each: Reviewed, cluster: Cluster, binary: Binary) -> Said:
    """A probe with `rankshim status` that cannot be right."""
    for kind in PROBES if workload.kind not in ("compose", *BY_SCRIPT) else ():
        field = each.pod.container.get(kind, "exec", "command")
        words = field.words() if isinstance(field.value, list) else []
        text = " ".join(words)
        parts = text.split()
        if not any("rankshim" in one and two.startswith("status") for one, two in zip(parts, parts[1:])):
            continue
        at = next((at for at, word in enumerate(words) if base_name(word) == "rankshim"), None)
        own = each.pod.command.rankshim
        if len(words) == 1:
            yield "warning", field, f"{kind}: one word {text!r} is one program's name: the kubelet starts no shell"
        elif each.pod.bypasses:
            yield "warning", field, f"{kind}: no rankshim runs in this container, so `status` always ends with 1"
        elif at is not None and "/" in own and words[at] != own:
            yield "warning", field, f"{kind} starts {words[at]}, and the container {own}: the probe finds no program"
        elif "grep" in text and kind != "livenessProbe":
            yield "warning", field, f"{kind} waits for a phase: a pod that waits for the others is then not ready, and a Service " \
                "that publishes only ready pods never publishes the master's name; `rankshim status` alone is right"
        elif "ready" in words and kind != "livenessProbe" and workload.nodes > 1 and not _publishes_before_ready(workload, cluster):
            yield "warning", field, f"{kind} waits until all nodes have met, and no Service here has publishNotReadyAddresses: true: a " \
                "pod that waits is not ready, and the master's name is never published; `rankshim status` alone is right"
        elif kind == "livenessProbe" and "live" not in words and each.settings.get("hold-on-failure"):
            yield "warning", field, f"{kind} kills the container that --hold-on-failure={each.settings['hold-on-failure']} keeps, " \
                "because `rankshim status` fails after a failure; `rankshim status live` is right"
        elif each.settings.get("run-dir", "/run").rstrip("/") not in ("/run", "/dev/shm", each.pod.environment.get("TMPDIR", "/tmp")) \
                and "run-dir" not in text:  # where `status` looks by default
            yield "warning", field, f"{kind}: rankshim has --run-dir={each.settings['run-dir']}, and `status` has not: it asks nobody"
        elif at is not None and words[at + 1:at + 2] == ["status"] and binary.isolates:  # nothing else is ever started
            try:
                done = binary.run(words[at + 1:], {}, host="probe")
            except Unanswered as error:
                yield "warning", field, f"{kind}: {error}"
                continue
            if done.returncode == 64:
                yield "warning", field, f"{kind} always fails: {done.stderr.strip().splitlines()[0].partition('error: ')[2]}"


def _publishes_before_ready(workload: Workload, cluster: Cluster) -> bool:
    """Whether pods' names resolve before the pods are ready, as far as the files say."""
    if workload.kind in ("JobSet", "LeaderWorkerSet", "TrainJob"):  # their controllers do that by default
        return workload.field.get("spec", "network", "publishNotReadyAddresses").value is not False
    if workload.kind == "PyTorchJob":  # kubeflow/training-operator@93c758c:pkg/controller.v1/common/service.go
        return False
    if workload.kind == "Volcano Job":  # volcano-sh/volcano@08812f68c:pkg/controllers/job/plugins/svc/svc.go
        arguments = workload.field.get("spec", "plugins", "svc").words()
        return any(re.fullmatch(r"--?publish-not-ready-addresses(=true)?", argument) for argument in arguments)
    return any(service.get("spec", "publishNotReadyAddresses").flag() for service in cluster.of_kind("Service"))


def unknown(workload: Workload, each: Reviewed, cluster: Cluster, binary: Binary) -> Said:
    """Variables from a ConfigMap or Secret that is not in these files, if rankshim might read them."""
    for field, name in each.pod.unknown:
        if re.search(MATTERS, name):
            yield "warning", field, f"{name}: its value is not in these files, so what follows from it is not reviewed"


def unread(workload: Workload, each: Reviewed, cluster: Cluster, binary: Binary) -> Said:
    """Launch lines of the script besides the one that is reviewed, and a script that is not in these files."""
    command = each.pod.command
    if workload.nodes > 1 and each.pod.bypasses and not command.launch and OTHER_FILE.search(" ".join(command.before)):
        yield "warning", each.pod.place, "not reviewed: the command starts a script that is not in these files"
    for other in command.others[:1]:
        yield "warning", each.pod.place, f"not reviewed: the script also starts {other[:60]}{'…' if len(other) > 60 else ''}"


PER_POD: tuple[Callable[[Workload, Reviewed, Cluster, Binary], Said], ...] = (
    refused, unseen, alone, bypass, inside, apart, words, master, devices, grace, shared_memory, restarts, spares, host_network, probe,
    unknown, unread)


def agree(workload: Workload, reviewed: list[Reviewed]) -> Said:
    """Differences because of which the nodes of one job would refuse to meet (docs/restarts.md)."""
    if workload.kind in ALIKE and workload.total > 1:
        yield from _alike(workload, reviewed)
    if workload.nodes == workload.total == len(reviewed) == 1 and workload.kind not in ("Pod", "Pods of"):
        yield from _others_missing(workload, reviewed[0])
    yield from _same_rank_by_flag(workload, reviewed)
    known = [each for each in reviewed if each.told().document and not (each.pod.bypasses and each.told() is each.answer)
             and each.told().fact("nnodes") != "1"]
    if workload.nodes < 2 or len(known) < 2:
        return
    ranks = collections.defaultdict(list)
    for each in known:
        if each.told().fact("node_rank") and each.told().document.get("granularity") == "node" and not _idle(each) \
                and each.pod.command.is_certain:
            ranks[each.told().fact("node_rank")].append(each)
    for rank, pods in ranks.items():
        if len(pods) > 1:
            source = pods[1].told().source("node_rank")
            advice = "or leave it to rankshim" if source.startswith("option torchrun") else "by NODE_RANK or --node-rank"
            yield "error", workload.field, f"{pods[0].pod.name} and {pods[1].pod.name} both have the node rank {rank} ({source}): give " \
                f"each its own rank, starting at 0, {advice}"
    for column, name in (("nnodes", "nnodes"), ("port", "port")):
        values = collections.Counter(each.told().fact(name) if name == "nnodes" else _port(each.told()) for each in known)
        if len(values) > 1:
            yield "error", workload.field, f"the pods do not agree on {column}: {', '.join(sorted(values))}"
    masters = collections.Counter(each.told().fact("rdzv_endpoint").rpartition(":")[0] for each in known if each.pod.bypasses)
    if len(masters) > 1:
        yield "error", workload.field, f"the pods do not agree on the rendezvous endpoint: {', '.join(sorted(masters)[:3])}"
    nodes = {each.told().fact("nnodes") for each in known}
    number = whole_number(nodes.pop()) if len(nodes) == 1 else None
    if number is not None and number > workload.nodes:
        yield "error", workload.field, f"the pods are told of {number} nodes, and there are {workload.nodes}: they wait for the others " + (
            "until torchrun times out" if known[0].pod.bypasses else "until --wait-timeout, and exit with 75")
    elif number is not None and number < sum(not _idle(each) for each in known):
        yield "error", workload.field, f"the pods are told of {number} nodes, and there are {workload.nodes}: not all of them can join"


def _same_rank_by_flag(workload: Workload, reviewed: list[Reviewed]) -> Said:
    """Pods without rankshim whose launcher, other than torchrun, gets one rank on its command line."""
    first: dict[str, Reviewed] = {}
    for each in reviewed:
        launch = each.pod.command.launch
        rank = option(launch, *RANK_FLAGS)
        by_rendezvous = option(launch, "--rdzv_backend") not in ("", "static")  # which numbers the nodes itself
        if workload.nodes < 2 or not each.pod.bypasses or each.is_torchrun() or by_rendezvous or not (
                rank.isdigit() and each.pod.command.is_certain):
            continue
        if (other := first.setdefault(rank, each)) is not each:
            yield "error", each.pod.place, f"{other.pod.name} and {each.pod.name} both start {each.pod.command.launcher} with the rank " \
                f"{rank}, so the nodes never meet: give each its own, or leave it to rankshim"


def _others_missing(workload: Workload, each: Reviewed) -> Said:
    """A single pod whose launcher waits for others, which another manifest may describe."""
    number = whole_number(each.told().fact("nnodes") or option(each.pod.command.launch, "--nnodes")) or 0
    if number > 1:
        yield "warning", each.pod.place, f"{each.pod.name} is told of {number} nodes, and this {workload.kind} starts one: if nothing " \
            "else starts the others, it waits until " + ("torchrun times out" if each.pod.bypasses else "--wait-timeout")


ALIKE = ("Deployment", "ReplicaSet", "DaemonSet")


def _alike(workload: Workload, reviewed: list[Reviewed]) -> Said:
    """Pods of one template of which none has a number."""
    for each in reviewed:
        told = each.told()
        if told.fact("nnodes") not in ("", "1") and told.fact("node_rank"):
            yield "error", each.pod.place, f"the {workload.total} pods of a {workload.kind} are identical, so each of them has the node " \
                f"rank {told.fact('node_rank')} ({told.source('node_rank')}): use an Indexed Job or a JobSet, which numbers its pods"


def _port(answer: Answer) -> str:
    return answer.fact("rdzv_endpoint").rpartition(":")[2] or answer.fact("master_port")


def _idle(each: Reviewed) -> bool:
    return any("does not train" in str(warning) for warning in each.answer.document.get("warnings", []))


def differs(workload: Workload, reviewed: list[Reviewed], column: str) -> set[int]:
    """The pods whose value in a column differs from that of most (in a tie: from the first), if they are nodes of one job."""
    if workload.nodes < 2:
        return set()
    values = [each.value(column) for each in reviewed]
    if column == "node rank":
        return {at for at, value in enumerate(values) if value.isdigit() and values.count(value) > 1}
    known = collections.Counter(value for value in values if value)
    if len(known) < 2:
        return set()
    usual = max(known, key=lambda value: known[value])
    return {at for at, value in enumerate(values) if value and value != usual}


def _variable(pod: Pod, name: str) -> Field | None:
    if not isinstance(pod.container.value, dict) or not isinstance(pod.container.get("env").value, list):
        return None
    return next((entry for entry in pod.container.get("env").entries() if entry.get("name").value == name), None)


def _labels(workload: Workload, pod: Pod) -> dict[str, str]:
    """The labels of the pod's template, and those that its controller adds to all."""
    found = {"job-name": workload.name, "batch.kubernetes.io/job-name": workload.name,
             "jobset.sigs.k8s.io/jobset-name": workload.name}
    template = workload.field.get("spec", "template", "metadata", "labels") if workload.kind in ("Job", "StatefulSet") else \
        workload.field.get("metadata", "labels")
    found.update({key: value.text() for key, value in template.items()})
    return found


def _seconds(text: str) -> float | None:
    """Parses a time as rankshim or compose do: 90s, 10m, 1h30m, 250ms; a bare number is seconds."""
    if re.fullmatch(r"[0-9]+(\.[0-9]+)?", text):
        return float(text)
    part = r"([0-9]+(?:\.[0-9]+)?)(ms|[hms])"
    if not re.fullmatch(f"(?:{part})+", text):
        return None
    parts = re.findall(part, text)
    return sum(float(number) * {"h": 3600, "m": 60, "s": 1, "ms": 0.001}[unit] for number, unit in parts)


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True
