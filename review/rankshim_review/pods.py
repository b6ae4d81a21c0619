"""Makes pods from a template as a controller does: host name, environment, command line, files."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Sequence

from .binary import ADDRESS
from .command import Command, Variables, expand, mentions_launcher, parse
from .source import DEEPEST, LETTERS, Field, Unread

ENTRYPOINT = "the image's ENTRYPOINT"  # which may be rankshim
COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"
# The files in /dev by which rankshim counts the devices of a resource (shim/node/accelerators.cpp).
DEVICES = (
    (r"nvidia\.com/(gpu|mig-.*)", "nvidia"),
    (r"huawei\.com/ascend.*", "davinci"),
    (r"habana\.ai/gaudi.*", "hl"),
    (r"cambricon\.com/(mlu|vmlu).*", "cambricon_dev"),
    (r"mthreads\.com/v?gpu", "mtgpu."),
)
MOST_DEVICES = 256  # each is a file
OF_VARIABLE = 8  # the cost of a variable, in fields
OTHER_DEVICES = r"(amd\.com/gpu|gpu\.intel\.com/.*|google\.com/tpu|aws\.amazon\.com/neuron.*)"


@dataclasses.dataclass
class Pod:
    name: str
    host: str
    domain: str  # after the host name; empty if the pod has none
    environment: dict[str, str]
    command: Command
    container: Field
    spec: Field
    place: Field  # of the command
    devices: dict[str, int] = dataclasses.field(default_factory=dict)
    has_devices: bool = False  # also those of which rankshim sees no file
    files: dict[str, str] = dataclasses.field(default_factory=dict)
    bypasses: bool = False  # `command:` without rankshim in it
    unknown: list[tuple[Field, str]] = dataclasses.field(default_factory=list)  # variables that only the cluster knows


@dataclasses.dataclass
class Workload:
    """What one document creates: its pods (the first and the last of many), and what surrounds them."""

    kind: str
    name: str
    field: Field
    pods: list[Pod] = dataclasses.field(default_factory=list)
    total: int = 0  # pods, including those that are not shown
    nodes: int = 0  # nodes of one job among them; 0 if they are not nodes of one job
    services: set[str] = dataclasses.field(default_factory=set)  # the names that its controller creates: SERVICE, POD.SERVICE
    restart: Field | None = None  # the restart policy that applies
    restart_default: str = ""
    bounded: bool = False  # restarts are limited
    keeps_others: bool = False  # a node's failure does not affect the others (Slurm's --no-kill)
    notes: list[tuple[Field, str]] = dataclasses.field(default_factory=list)
    faults: list[tuple[Field, str]] = dataclasses.field(default_factory=list)  # notes that are errors


class Cluster:
    """All documents, for references between them."""

    def __init__(self, documents: Sequence[Field]) -> None:
        self._kinds: dict[str, list[Field]] = {}
        self._names: dict[tuple[str, str], list[Field]] = {}
        for document in documents:
            kind, metadata = str(document.get("kind").value), document.value.get("metadata")
            self._kinds.setdefault(kind, []).append(document)
            name = metadata.get("name") if isinstance(metadata, dict) else None
            if isinstance(name, str):
                self._names.setdefault((kind, name), []).append(document)

    def named(self, kind: str, name: str, namespace: str | None = None) -> Field | None:
        for document in self._names.get((kind, name), []):
            if namespace in (None, document.get("metadata", "namespace").text("default")):
                return document
        return None

    def of_kind(self, kind: str) -> list[Field]:
        return self._kinds.get(kind, [])


def shown(count: int) -> list[int]:
    """The indices for which pods are made; the rules are the same for all of them."""
    return list(range(count)) if count <= 16 else [0, 1, 2, 3, count - 2, count - 1]


def by_field(path: str) -> dict[str, str]:
    """A variable's value from the downward API, for `added`."""
    return {"fieldPath": path}


Added = Iterable["tuple[str, str | dict[str, str]]"]


def make_pod(  # what a controller changes, by name
    cluster: Cluster, template: Field, name: str, *, namespace: str = "default", added: Added = (), first: bool = False,
    keep: bool = False, hostname: str = "", subdomain: str = "", container: str = "", labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None, files: dict[str, str] | None = None, override: Field | None = None,
    last: Added = (), script: Field | None = None,
) -> Pod:
    """Makes a pod. `added` are the controller's variables, after those of the template (`first`: before them); they take
    precedence, unless `keep` says that existing variables stay. `last` are those of a later controller, which leaves existing
    ones alone. `override` is a TrainJob's trainer, and `script` what its command reads as a file (Argo)."""
    spec = template.get("spec")
    box = _container(spec, container, override is not None)
    on_host = spec.get("hostNetwork").flag()
    host = spec.get("hostname").text() or hostname or name
    domain = spec.get("subdomain").text() or subdomain
    domain = f"{domain}.{namespace}.svc.cluster.local" if domain else ""
    if domain and spec.get("setHostnameAsFQDN").flag():
        host = f"{host}.{domain}"
    if on_host:  # the machine's name
        host, domain = spec.get("nodeName").text(f"machine-of-{name}"), ""
    metadata: dict[str, object] = {
        "name": name, "namespace": namespace,
        "labels": {**_texts(template.get("metadata", "labels")), **(labels or {})},
        "annotations": {**_texts(template.get("metadata", "annotations")), **(annotations or {})},
    }
    has = {key: (override.get(key) if override is not None and override.get(key) else box.get(key))
           for key in ("command", "args")}
    place = next((field for field in has.values() if field), box)
    pod = Pod(name, host, domain, Variables(), Command([]), box, spec, place, files=dict(files or {}))
    resources = override.get("resourcesPerNode") if override is not None and override.get("resourcesPerNode") else \
        box.get("resources")
    _devices(pod, resources)
    with place.blamed():
        _service_links(cluster, pod, namespace)
    entries: list[tuple[str, str | dict[str, str] | Field]] = []
    for source in box.get("envFrom").entries():
        entries += _env_from(cluster, pod, source, namespace)
    own = [(entry.get("name").text(), entry) for entry in box.get("env").entries()]
    if override is not None:
        own += [(entry.get("name").text(), entry) for entry in override.get("env").entries()]
    names = {key for key, _ in own}
    mine = [(key, value) for key, value in added if not (keep and key in names)]
    if first:
        taken = {key for key, _ in mine}
        own = [(key, entry) for key, entry in own if key not in taken]
        entries += [*mine, *own]
    else:
        entries += [*own, *mine]
    entries += [(key, value) for key, value in last if key not in {name for name, _ in entries}]
    for key, value in entries:
        with value.blamed() if isinstance(value, Field) else place.blamed(key):
            _set(cluster, pod, key, value, metadata, resources)
        template.spend(OF_VARIABLE + len(pod.environment.get(key, "")) // LETTERS)
    _mounted(cluster, pod, namespace)
    words: list[str] = []
    for key in ("command", "args"):
        for entry in has[key].entries():
            with entry.blamed():
                words.append(expand(entry.string("the API server"), pod.environment))
            template.spend(len(words[-1]) // LETTERS)
    if script is not None and script:
        words = [*words[:1], "-c", script.text()]
    with place.blamed():
        pod.command = parse(words, pod.environment, host, pod.files)
    if not pod.command.rankshim and not has["command"]:
        pod.command = Command([], pod.command.before, {}, ENTRYPOINT, told=pod.command.told)
    pod.bypasses = not pod.command.rankshim
    return pod


def _container(spec: Field, name: str, is_completed: bool) -> Field:
    """The container that trains: the one with the controller's name for it, else the first that starts rankshim or a launcher,
    else the first."""
    found = spec.get("containers").entries()
    if not found or not (is_completed or any(box.get(key) for box in found for key in ("image", "command", "args", "env"))):
        raise Unread(spec.file, spec.line, f"not reviewed: {spec.path or 'it'} has no container with an image or a command; if this "
                    "is a Kustomize patch, review the output of `kubectl kustomize`")
    for box in found:
        if name and box.get("name").value == name:
            return box
    texts = [(box, " ".join(box.get("command").words() + box.get("args").words())) for box in found]
    for trains in (re.compile(r"(^|[/\s])rankshim(\s|$)").search, mentions_launcher):
        for box, text in texts:
            if trains(text):
                return box
    return found[0]


def _texts(field: Field) -> dict[str, str]:
    return {key: value.text() for key, value in field.items()}


def _devices(pod: Pod, resources: Field) -> None:
    for part in ("limits", "requests"):
        for key, value in resources.get(part).items():
            file = next((file for pattern, file in DEVICES if re.fullmatch(pattern, key.lower())), None)
            if file and value.number(0, 10**6):
                pod.devices[file] = max(min(value.number(0, 10**6), MOST_DEVICES), pod.devices.get(file, 0))
            pod.has_devices = pod.has_devices or re.fullmatch(OTHER_DEVICES, key.lower()) is not None
    pod.has_devices = pod.has_devices or bool(pod.devices) or bool(pod.spec.get("resourceClaims"))


def _service_links(cluster: Cluster, pod: Pod, namespace: str) -> None:
    """The variables for the Services with an address. Kubernetes documentation, "Service", "Environment variables"."""
    if pod.spec.get("enableServiceLinks").value is False:
        return
    for service in cluster.of_kind("Service"):
        ports = service.get("spec", "ports").entries()
        if service.get("spec", "clusterIP").text() == "None" or not ports or \
                service.get("metadata", "namespace").text("default") != namespace:
            continue
        prefix = service.get("metadata", "name").text().upper().replace("-", "_")
        port = ports[0].get("port").text()
        for key, value in ("SERVICE_HOST", ADDRESS), ("SERVICE_PORT", port), ("PORT", f"tcp://{ADDRESS}:{port}"):
            pod.environment[f"{prefix}_{key}"] = value


def _env_from(cluster: Cluster, pod: Pod, source: Field, namespace: str) -> list[tuple[str, str | dict[str, str] | Field]]:
    reference = source.get("configMapRef", "name")
    found = cluster.named("ConfigMap", reference.text(), namespace) if reference else None
    if found is None:
        pod.unknown.append((source, "all variables of this source"))
        return []
    prefix = source.get("prefix").text()
    return [(prefix + key, value.text()) for key, value in found.get("data").items()]


def _set(cluster: Cluster, pod: Pod, key: str, value: str | dict[str, str] | Field, metadata: dict[str, object],
         resources: Field) -> None:
    if isinstance(value, Field) and value.get("value"):
        value = value.get("value").string("the API server")
    if isinstance(value, str):
        found: str | None = expand(value, pod.environment)
    else:
        found = _value_from(cluster, value, metadata, resources, pod)
    if found is None and isinstance(value, Field):
        pod.unknown.append((value, key))
    elif found is not None and key and "=" not in key:
        pod.environment[key] = found


def _value_from(cluster: Cluster, value: dict[str, str] | Field, metadata: dict[str, object], resources: Field,
                pod: Pod) -> str | None:
    if isinstance(value, dict):
        return _downward(value["fieldPath"], metadata)
    source = value.get("valueFrom")
    if not source:
        return ""
    if source.get("fieldRef"):
        return _downward(source.get("fieldRef", "fieldPath").text(), metadata)
    if source.get("resourceFieldRef"):
        kind, _, name = source.get("resourceFieldRef", "resource").text().partition(".")
        return resources.get(kind, name).text("0")
    key = source.get("configMapKeyRef")
    if key:
        found = cluster.named("ConfigMap", key.get("name").text(), str(metadata["namespace"]))
        if found is not None and found.get("data", key.get("key").text()):
            return found.get("data", key.get("key").text()).text()
        if key.get("optional").flag():
            return None
    return None


def _downward(path: str, metadata: dict[str, object]) -> str | None:
    """A value of the downward API (Kubernetes documentation, "Downward API"). What only a node knows gets an example value."""
    known = re.fullmatch(r"metadata\.(labels|annotations)\['(.+)'\]", path)
    if known:
        values = metadata[known[1]]
        return str(values.get(known[2], "")) if isinstance(values, dict) else ""
    if path in ("metadata.name", "metadata.namespace"):
        return str(metadata[path.partition(".")[2]])
    if path.startswith("status.") and path.lower().endswith(("ip", "ips")):
        return ADDRESS
    return "example"  # spec.nodeName, spec.serviceAccountName, metadata.uid


def _mounted(cluster: Cluster, pod: Pod, namespace: str) -> None:
    """The files that come from ConfigMaps of these documents: a profile, a configuration."""
    maps = {volume.get("name").text(): volume.get("configMap")
            for volume in pod.spec.get("volumes").entries() if volume.get("configMap")}
    for mount in pod.container.get("volumeMounts").entries():
        source = maps.get(mount.get("name").text())
        found = cluster.named("ConfigMap", source.get("name").text(), namespace) if source is not None else None
        for name, value in (_named(found, source) if found is not None and source is not None else []):
            path, part = mount.get("mountPath").text(), mount.get("subPath").text()
            if path.count("/") > DEEPEST:
                raise mount.get("mountPath").mistake(f"more than {DEEPEST} folders deep is not looked at")
            if not part or part == name:
                pod.files[path if part else f"{path.rstrip('/')}/{name}"] = value.text()


def _named(config_map: Field, source: Field) -> list[tuple[str, Field]]:
    """The files of a ConfigMap's volume: all of its keys, or the `items` under their own paths."""
    items = source.get("items").entries()
    chosen = [(item.get("path").text(), config_map.get("data", item.get("key").text())) for item in items]
    return [(name, value) for name, value in chosen if value] if items else config_map.get("data").items()
