"""Volcano Job, read by config/platforms/volcano.toml and volcano-pytorch.toml.

Sources: volcano-sh/volcano@ed72c7c81:pkg/controllers/job/plugins/env/env.go (VC_TASK_INDEX), svc/svc.go (host name,
subdomain, the lists, /etc/volcano, the Service), distributed-framework/pytorch/pytorch.go (RANK and its like),
distributed-framework/mpi/mpi.go (MPI_HOST), and pkg/controllers/job/job_controller_plugins.go (the plugins of frameworks
bring svc; their flags are Go's).
"""

from __future__ import annotations

from ..pods import Cluster, Pod, Workload, make_pod, shown
from ..source import LARGEST_NUMBER, Field

FRAMEWORKS = ("pytorch", "mpi", "tensorflow")


def workload(cluster: Cluster, document: Field) -> Workload:
    job, spec = document.get("metadata", "name").text("job"), document.get("spec")
    plugins = {key: _flags(value) for key, value in spec.get("plugins").items()}
    tasks = {task.get("name").text(): task for task in spec.get("tasks").entries()}
    counts = {name: task.get("replicas").number(1) for name, task in tasks.items()}
    if sum(counts.values()) > LARGEST_NUMBER:
        raise spec.get("tasks").mistake(f"more than {LARGEST_NUMBER} pods are not read")
    made = Workload("Volcano Job", job, document, total=sum(counts.values()), restart_default="OnFailure")
    has_names = "svc" in plugins or any(name in plugins for name in FRAMEWORKS)
    made.services = {job} if has_names else set()
    lists = _lists(job, tasks, counts) if has_names else {}
    in_variables = plugins.get("svc", {}).get("inject-hosts-env", "true") != "false"
    training = _training(tasks, plugins)
    made.nodes = sum(counts[name] for name in training)
    for name, task in tasks.items():
        made.restart = made.restart or task.get("template", "spec", "restartPolicy")
        made.pods += [_pod(cluster, document, job, name, task, index, plugins, lists, in_variables, counts)
                      for index in shown(counts[name])]
    return made


def _training(tasks: dict[str, Field], plugins: dict[str, dict[str, str]]) -> list[str]:
    if "pytorch" in plugins:
        flags = plugins["pytorch"]
        return [name for name in tasks if name in (flags.get("master", "master"), flags.get("worker", "worker"))]
    return [name for name in tasks if name in ("master", "worker")] or list(tasks)


def _flags(arguments: Field) -> dict[str, str]:
    """Parses --name=value and --name, as Go's package flag does."""
    words = (word.lstrip("-").partition("=") for word in arguments.words())
    return {name: value if equals else "true" for name, equals, value in words}


def _lists(job: str, tasks: dict[str, Field], counts: dict[str, int]) -> dict[str, list[str]]:
    lists = {}
    for name, task in tasks.items():
        spec = task.get("template", "spec")
        domain, own = spec.get("subdomain").text(job), spec.get("hostname").text()
        lists[name] = [f"{own}.{domain}"] if own and counts[name] else \
            [f"{job}-{name}-{index}.{domain}" for index in range(counts[name])]
    return lists


def _pod(cluster: Cluster, document: Field, job: str, name: str, task: Field, index: int,
         plugins: dict[str, dict[str, str]], lists: dict[str, list[str]], in_variables: bool, counts: dict[str, int]) -> Pod:
    variables: dict[str, str] = {}
    files = {f"/etc/volcano/{other.replace('-', '_')}.host": "\n".join(hosts) for other, hosts in lists.items()}
    for other, hosts in lists.items() if in_variables else ():
        key = other.upper().replace("-", "_")
        variables.update({f"VC_{key}_HOSTS": ",".join(hosts), f"VC_{key}_NUM": str(len(hosts))})
    if "env" in plugins:
        variables.update({"VK_TASK_INDEX": str(index), "VC_TASK_INDEX": str(index)})
    if "pytorch" in plugins:
        flags = plugins["pytorch"]
        master, worker = flags.get("master", "master"), flags.get("worker", "worker")
        if lists.get(master):
            variables.update({"MASTER_ADDR": lists[master][0], "MASTER_PORT": flags.get("port", "23456"),
                              "WORLD_SIZE": str(counts[master] + (counts.get(worker, 0) if worker != master else 0))})
            if name in (master, worker):
                variables["RANK"] = str(index + 1 if name == worker else 0)
    if "mpi" in plugins and name == plugins["mpi"].get("master", "master"):
        variables["MPI_HOST"] = ",".join(lists.get(plugins["mpi"].get("worker", "worker"), []))
    own = f"{job}-{name}-{index}"
    return make_pod(
        cluster, task.get("template"), own, namespace=document.get("metadata", "namespace").text("default"),
        hostname=own if lists else "", subdomain=job if lists else "", added=variables.items(), files=files,
        annotations={"volcano.sh/job-name": job, "volcano.sh/task-spec": name, "volcano.sh/task-index": str(index)},
        labels={"volcano.sh/job-name": job, "volcano.sh/task-spec": name})
