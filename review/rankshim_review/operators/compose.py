"""docker-compose.yaml: the services that train, read by config/platforms/generic.toml.

Sources: compose-spec/compose-spec:{05-services,12-interpolation}.md (a list or a text as command, which no shell reads; `$$`;
`${NAME:-default}`, here with no variable of this machine; ipc, shm_size, gpus, stop_grace_period 10s; the names that a
network has are the services', their container_name and their aliases).
"""

from __future__ import annotations

import dataclasses
import re
import shlex

from ..command import LAUNCHER, Command, Variables, parse, substitute
from ..pods import ENTRYPOINT, Cluster, Pod, Workload
from ..source import Field

RANKS = {"NNODES", "MASTER_ADDR", "WORLD_SIZE"}


def workload(cluster: Cluster, document: Field) -> Workload | None:
    made = Workload("compose", document.get("name").text("services"), document, restart_default="no")
    others: list[Pod] = []  # with accelerators, but for something unknown here
    for name, service in document.get("services").items():
        made.services |= {name, service.get("container_name").text(name)}
        networks = service.get("networks")
        for _, network in networks.items() if isinstance(networks.value, dict) else ():
            made.services |= set(network.get("aliases").words() if network else [])
        pod = _service(name, service)
        count = (service.get("scale") or service.get("deploy", "replicas")).number(1)
        if not pod.bypasses or pod.command.told >= LAUNCHER or RANKS & set(pod.environment):
            made.pods += [pod] if count == 1 else [dataclasses.replace(pod, name=f"{name}-{index + 1}") for index in range(min(16, count))]
            made.restart = made.restart or service.get("restart")
        elif pod.has_devices:
            others.append(pod)
    # A service that copies the binary into a volume for the others does not train.
    made.pods = [pod for pod in made.pods if pod.command.after[:1] != ["install"]]
    made.total = made.nodes = len(made.pods)
    if not any(_knows_of_others(pod) for pod in made.pods) and len({pod.host for pod in made.pods}) == len(made.pods):
        made.nodes = 1  # of several jobs
    made.pods = made.pods or others
    return made if made.pods else None


def _knows_of_others(pod: Pod) -> bool:
    """Whether the pod is one of several nodes of a job, according to a variable or a flag of its launcher."""
    words = " ".join([*pod.command.before, *pod.command.after])
    return bool(RANKS & set(pod.environment)) or re.search(r"--(nnodes[= ](?!1\b)|node[_-]rank|master[_-]addr|rdzv)", words) is not None


def _service(name: str, service: Field) -> Pod:
    environment = Variables()
    variables = service.get("environment")
    if isinstance(variables.value, list):
        pairs = [(entry, *entry.text().partition("=")[::2]) for entry in variables.entries()]
    else:
        pairs = [(entry, key, entry.text()) for key, entry in variables.items()]
    for entry, key, value in pairs:
        with entry.blamed():
            environment[key] = interpolate(value)
    entrypoint, command = _words(service.get("entrypoint")), _words(service.get("command"))
    words = [*entrypoint, *command]
    with service.blamed():
        found = parse(words, environment, service.get("hostname").text())
    if not found.rankshim and not service.get("entrypoint"):
        installs = words[:1] == ["install"] and service.get("image").text().rpartition("/")[2].startswith("rankshim")
        trains = {"NNODES", "NODE_RANK", "RANK"} & set(environment)
        if trains or installs or found.told >= LAUNCHER:  # `command` leaves the image's ENTRYPOINT alone
            found = Command([], words, {}, ENTRYPOINT, told=found.told)
    place = next((service.get(key) for key in ("entrypoint", "command") if service.get(key)), service)
    devices = {}
    for device in service.get("deploy", "resources", "reservations", "devices").entries():
        count = device.get("count")
        if "gpu" in device.get("capabilities").words() and count.text().isdigit():
            devices["nvidia"] = count.number(0, 64)
        elif device.get("device_ids"):
            devices["nvidia"] = len(device.get("device_ids").entries())
    has_devices = bool(devices) or bool(service.get("gpus")) or bool(service.get("deploy", "resources", "reservations", "devices"))
    return Pod(name, service.get("hostname").text(name), "", environment, found, service, service, place, devices=devices,
               has_devices=has_devices, bypasses=not found.rankshim,
               unknown=[(service.get("env_file"), "all variables of this file")] if service.get("env_file") else [])


def _words(field: Field) -> list[str]:
    if isinstance(field.value, list):
        return [_interpolated(entry) for entry in field.entries()]
    try:
        return shlex.split(_interpolated(field))
    except ValueError as error:
        raise field.mistake(str(error)) from None


def _interpolated(field: Field) -> str:
    with field.blamed():
        return interpolate(field.string("docker compose"))


_OF_COMPOSE = re.compile(r"\$\$|\$\{\w+(?::?[-?+](?P<default>[^{}]*))?\}|\$[A-Za-z_]\w*")


def interpolate(text: str) -> str:
    def value(found: re.Match[str]) -> str:
        if found[0] == "$$":
            return "$"
        return found["default"] or ""

    return substitute(_OF_COMPOSE, value, text)
