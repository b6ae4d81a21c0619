"""A task of SkyPilot, whose `run` is a script on each node, read by config/platforms/skypilot.toml.

Source: SkyPilot documentation, "SkyPilot YAML", "Environment Variables and Secrets" and "Distributed Multi-Node Jobs". The nodes'
addresses are not known before it runs; here they are 192.0.2.1 and so on (RFC 5737: for documentation).
"""

from __future__ import annotations

import re

from ..command import RANKSHIM, Variables, find
from ..pods import Pod, Workload, shown
from ..shell import Shell
from ..source import Field


def is_task(document: Field) -> bool:
    value = document.value
    return "kind" not in value and isinstance(value.get("run"), str) and bool(
        {"resources", "num_nodes", "setup", "envs", "workdir", "file_mounts"} & set(value))


def workload(document: Field) -> Workload:
    name, run = document.get("name").text("task"), document.get("run")
    nodes = document.get("num_nodes").number(1)
    gpus = _gpus(document.get("resources", "accelerators"))
    hosts = addresses(nodes)
    made = Workload("SkyPilot task", name, document, total=nodes, nodes=nodes, services={"*"}, restart_default="Never", bounded=True)
    for index in shown(nodes):
        given = {**{key: value.text() for key, value in document.get("envs").items()},
                 "SKYPILOT_NODE_RANK": str(index), "SKYPILOT_NODE_IPS": "\n".join(hosts), "SKYPILOT_NUM_NODES": str(nodes),
                 "SKYPILOT_NUM_GPUS_PER_NODE": str(gpus), "SKYPILOT_TASK_ID": f"sky-{name}"}
        pod = node(f"{name}-{index}", run, run.text(), given, gpus)
        pod.place = Field(None, document.file, run.line + pod.command.line)
        made.pods.append(pod)
    return made


def addresses(nodes: int) -> tuple[str, ...]:
    return tuple(f"192.0.2.{index % 250 + 1}" for index in range(nodes))


def node(name: str, field: Field, script: str, variables: dict[str, str], gpus: int) -> Pod:
    """A node that runs a script, which stands in this field."""
    environment = Variables()
    with field.blamed():
        for key, value in variables.items():
            environment[key] = value
        found = find(script, Shell(environment))
    environment.update(found.environment)
    place = Field(None, field.file, field.line)
    return Pod(name, name, "", environment, found, place, place, place, devices={"nvidia": gpus} if gpus else {},
               has_devices=bool(gpus), bypasses=found.told != RANKSHIM)


def _gpus(field: Field) -> int:
    """The number of GPUs in `A100:8`, `{A100: 8}`, or a list or set of alternatives."""
    value = field.value
    while isinstance(value, (list, dict)) and value:
        value = next(f"{key}:{count}" if count is not None else str(key) for key, count in value.items()) if isinstance(value, dict) \
            else value[0]
    found = re.fullmatch(r"[^:]+(?::([0-9]{1,2})(?:\.[0-9]+)?)?", str(value)) if value else None
    return int(found[1] or 1) if found else 0
