"""A task of dstack, whose `commands` are a script on each node, read by config/platforms/dstack.toml.

Source: dstackai/dstack@511c318c8:runner/internal/runner/executor/executor.go execJob (the variables),
src/dstack/_internal/server/services/jobs/configurators/base.py (one shell runs all commands), and examples/distributed-training.
"""

from __future__ import annotations

import re

from ..pods import Workload, shown
from ..source import Field, Unread
from .skypilot import addresses, node


def is_task(document: Field) -> bool:
    value = document.value
    return value.get("type") == "task" and isinstance(value.get("commands"), list)


def workload(document: Field) -> Workload:
    name, commands = document.get("name").text("task"), document.get("commands").entries()
    if isinstance(document.get("nodes").value, list):
        raise Unread(document.file, document.line, f"not reviewed: the nodes of dstack task {name} are in groups with their own commands")
    nodes = document.get("nodes").number(1)
    gpus = _gpus(document.get("resources", "gpu"))
    texts = [entry.text().rstrip("\n") for entry in commands]
    # The line of the file for each line of the script; of a command of several lines, it is the command's.
    lines = [entry.line for entry, text in zip(commands, texts) for _ in text.split("\n")]
    hosts = addresses(nodes)
    made = Workload("dstack task", name, document, total=nodes, nodes=nodes, services={"*"}, restart_default="Never", bounded=True)
    for index in shown(nodes):
        given = {**_environment(document.get("env")), "DSTACK_NODE_RANK": str(index), "DSTACK_NODES_NUM": str(nodes),
                 "DSTACK_MASTER_NODE_IP": hosts[0], "DSTACK_NODES_IPS": "\n".join(hosts), "DSTACK_GPUS_PER_NODE": str(gpus),
                 "DSTACK_GPUS_NUM": str(gpus * nodes), "DSTACK_RUN_ID": name}
        pod = node(f"{name}-{index}", document.get("commands"), "\n".join(texts), given, gpus)
        pod.place = Field(None, document.file, lines[min(pod.command.line, len(lines)) - 1] if lines else document.line)
        made.pods.append(pod)
    return made


def _environment(field: Field) -> dict[str, str]:
    """A list of NAME=VALUE, or a mapping. A NAME alone is taken from whoever submits the task."""
    if isinstance(field.value, list):
        return {name: value for name, equals, value in (word.partition("=") for word in field.words()) if equals}
    return {name: value.text() for name, value in field.items()}


def _gpus(field: Field) -> int:
    """The number of GPUs in `H100:8`, `A100:80GB:2`, `1..8` (the least), or `{name: H100, count: 8}`."""
    if isinstance(field.value, dict):
        return _gpus(field.get("count")) if field.get("count") else 1
    if not field:
        return 0
    count = next((found for part in field.text().split(":") if (found := re.fullmatch(r"([0-9]{1,3})(\.\.[0-9]*)?", part))), None)
    return int(count[1]) if count else 1
