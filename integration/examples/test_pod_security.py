"""A cluster that keeps to Pod Security's level "restricted" takes every pod of examples/ and install/, and what it needs there
is in the manifest: a tagged image, limits for the init container, memory for data loaders, and a policy for the exit codes."""

import copy
import re
import subprocess

import pytest
import yaml

from examples.pod_security import RULES, containers, templates, violations
from examples.schema import mistakes
from examples.test_install import chart, kustomized, merged_by_kyverno
from examples.test_manifests import EXAMPLES, INSTALL, RUNTIME, documents
from lib.documents import blocks

# What is not restricted, and why.
EXCEPTIONS = {
    "cube-studio/job.yaml": (
        {"allowPrivilegeEscalation", "capabilities_restricted", "runAsNonRoot", "seccompProfile_restricted"},
        "cube-studio's template makes the pods; the user gives a command"),
    "modelarts-lite/job.yaml": (
        {"capabilities_restricted", "restrictedVolumes", "runAsNonRoot"},
        "the driver's files and devices are the node's, and belong to the node's users"),
}
GOOD = {
    "metadata": {"name": "good"},
    "spec": {
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "initContainers": [{"name": "first", "securityContext": {
            "allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]}}}],
        "containers": [{"name": "main", "securityContext": {
            "allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}}],
        "volumes": [{"name": "shm", "emptyDir": {}}],
    },
}
POD, FIRST, MAIN = "spec.securityContext", "spec.initContainers.0.securityContext", "spec.containers.0.securityContext"
# For each check: a place in a good pod, and a value that makes it a bad one; None takes the value away.
BAD = [
    ("allowPrivilegeEscalation", f"{MAIN}.allowPrivilegeEscalation", True),
    ("allowPrivilegeEscalation", f"{FIRST}.allowPrivilegeEscalation", None),
    ("appArmorProfile", f"{POD}.appArmorProfile", {"type": "Unconfined"}),
    ("appArmorProfile", f"{MAIN}.appArmorProfile", {"type": "Unconfined"}),
    ("appArmorProfile", "metadata.annotations", {"container.apparmor.security.beta.kubernetes.io/main": "unconfined"}),
    ("capabilities_restricted", f"{MAIN}.capabilities.drop", ["NET_RAW"]),
    ("capabilities_restricted", f"{FIRST}.capabilities", None),
    ("capabilities_restricted", f"{MAIN}.capabilities.add", ["SYS_PTRACE"]),
    ("hostNamespaces", "spec.hostNetwork", True),
    ("hostNamespaces", "spec.hostPID", True),
    ("hostNamespaces", "spec.hostIPC", True),
    ("hostPorts", "spec.containers.0.ports", [{"containerPort": 29500, "hostPort": 29500}]),
    ("hostProbesAndHostLifecycle", "spec.containers.0.livenessProbe", {"httpGet": {"host": "10.0.0.1", "port": 80}}),
    ("hostProbesAndHostLifecycle", "spec.containers.0.lifecycle", {"preStop": {"tcpSocket": {"host": "10.0.0.1", "port": 80}}}),
    ("privileged", f"{FIRST}.privileged", True),
    ("procMount_restricted", f"{MAIN}.procMount", "Unmasked"),
    ("restrictedVolumes", "spec.volumes.0", {"name": "shm", "hostPath": {"path": "/dev/shm"}}),
    ("restrictedVolumes", "spec.volumes.0", {"name": "shm", "nfs": {"server": "10.0.0.1", "path": "/"}}),
    ("runAsNonRoot", f"{POD}.runAsNonRoot", None),
    ("runAsNonRoot", f"{POD}.runAsNonRoot", False),
    ("runAsNonRoot", f"{MAIN}.runAsNonRoot", False),
    ("runAsUser", f"{POD}.runAsUser", 0),
    ("runAsUser", f"{FIRST}.runAsUser", 0),
    ("seLinuxOptions", f"{POD}.seLinuxOptions", {"type": "spc_t"}),
    ("seLinuxOptions", f"{MAIN}.seLinuxOptions", {"user": "system_u"}),
    ("seLinuxOptions", f"{MAIN}.seLinuxOptions", {"role": "system_r"}),
    ("seccompProfile_restricted", f"{POD}.seccompProfile", None),
    ("seccompProfile_restricted", f"{POD}.seccompProfile", {"type": "Unconfined"}),
    ("seccompProfile_restricted", f"{MAIN}.seccompProfile", {"type": "Unconfined"}),
    ("sysctls", f"{POD}.sysctls", [{"name": "net.core.somaxconn", "value": "1024"}]),
    ("windowsHostProcess", f"{MAIN}.windowsOptions", {"hostProcess": True}),
]
ALLOWED = [
    ("metadata.annotations", {"container.apparmor.security.beta.kubernetes.io/main": "runtime/default"}),
    (f"{MAIN}.appArmorProfile", {"type": "Localhost", "localhostProfile": "own"}),
    (f"{MAIN}.procMount", "Default"),
    (f"{MAIN}.runAsUser", 1000),
    (f"{MAIN}.seLinuxOptions", {"type": "container_t", "level": "s0:c1"}),
    (f"{POD}.sysctls", [{"name": "net.ipv4.ip_local_port_range", "value": "32768 60999"}]),
    ("spec.containers.0.ports", [{"containerPort": 29500}]),
    ("spec.containers.0.livenessProbe", {"httpGet": {"port": 80}, "periodSeconds": 5}),
    ("spec.containers.0.lifecycle", {"preStop": {"sleep": {"seconds": 5}}}),
    ("spec.hostNetwork", False),
    ("spec.volumes.0", {"name": "shm", "persistentVolumeClaim": {"claimName": "data"}}),
]


def changed(template, path, value):
    """A copy with another value at a place."""
    made = copy.deepcopy(template)
    *way, last = path.split(".")
    part = made
    for step in way:
        part = part[int(step) if isinstance(part, list) else step]
    if value is None:
        del part[last]
    else:
        part[int(last) if isinstance(part, list) else last] = value
    return made


@pytest.mark.parametrize(("rule", "path", "value"), BAD)
def test_each_rule_refuses_its_bad_pods_and_no_other_rule_does(rule, path, value):
    assert violations(changed(GOOD, path, value)) == {rule}


@pytest.mark.parametrize(("path", "value"), ALLOWED)
def test_no_rule_refuses_what_is_allowed(path, value):
    assert violations(changed(GOOD, path, value)) == set()


def test_a_good_pod_passes_and_every_rule_has_a_bad_one():
    assert violations(GOOD) == set()
    assert {rule for rule, _, _ in BAD} == set(RULES)


def test_what_the_pod_does_not_say_each_container_may_say():
    own = {"runAsNonRoot": True, "seccompProfile": {"type": "Localhost", "localhostProfile": "own.json"}}
    pod = changed(GOOD, POD, None)
    assert violations(pod) == {"runAsNonRoot", "seccompProfile_restricted"}
    for container in containers(pod["spec"]):
        container["securityContext"] |= own
    assert violations(pod) == set()


def files():
    """All manifests with pods. Those of install/ that are patches are tried by what they make."""
    paths = [*EXAMPLES.glob("*/*.yaml"), *(INSTALL / "kustomize" / "example").glob("*.yaml"), RUNTIME]
    return [path for path in sorted(paths) if templates(documents(path))]


def shown():
    """A Pod of the first block of docs/in-an-image.md, in which a job's own container may do what a restricted one may."""
    (block, *_) = [block for block in blocks("yaml") if block.document == "docs/in-an-image.md"]
    pod = copy.deepcopy(GOOD)
    spec = yaml.safe_load(block.text)
    spec["containers"][0] |= {"image": "registry.example/mnist:v1", **GOOD["spec"]["containers"][0]}
    pod["spec"] = {"securityContext": GOOD["spec"]["securityContext"], **spec}
    return [pod]


# What the installers make of a job that is restricted itself.
MADE = {
    "kustomize": lambda folder: templates(kustomized(folder)),
    "helm": lambda folder: templates(chart(folder)),
    "kyverno": lambda folder: [merged_by_kyverno(folder, GOOD["spec"]["containers"][0], GOOD["spec"]["securityContext"])],
    "README": lambda _: shown(),
}


def relative(path):
    return str(path.relative_to(EXAMPLES if path.is_relative_to(EXAMPLES) else INSTALL.parent))


@pytest.mark.parametrize("path", files(), ids=relative)
def test_a_restricted_namespace_takes_the_pods_of_the_manifest(path):
    expected, _ = EXCEPTIONS.get(relative(path), (set(), ""))
    for template in templates(documents(path)):
        assert violations(template) == expected
        check_complete(template["spec"], shm=relative(path) != "cube-studio/job.yaml")


@pytest.mark.parametrize("way", MADE)
def test_a_restricted_namespace_takes_what_an_installer_makes_of_a_restricted_job(way, tmp_path):
    for template in MADE[way](tmp_path):
        assert violations(template) == set()
        check_complete(template["spec"], shm=way not in ("kyverno", "README"))


def check_complete(spec, shm=True):
    """The images have tags, an init container has limits, and what trains has a large /dev/shm."""
    for container in containers(spec):
        assert re.search(r":[\w.]+$", container.get("image", "the runtime's:v1")), container
    for container in spec.get("initContainers", []):
        assert {"cpu", "memory"} <= container["resources"]["limits"].keys()
    memory = {volume["name"] for volume in spec.get("volumes", []) if volume.get("emptyDir", {}).get("medium") == "Memory"}
    for container in spec["containers"]:
        if shm and container.get("command", [""])[0] != "mpirun":
            (mounted,) = [mount["name"] for mount in container["volumeMounts"] if mount["mountPath"] == "/dev/shm"]
            assert mounted in memory


def test_the_tag_of_rankshims_image_is_its_version(rankshim):
    version = subprocess.run([rankshim, "--version"], capture_output=True, text=True, check=True).stdout.split()[-1]
    for path in [path for path in INSTALL.rglob("*") if path.suffix in (".yaml", ".md")]:
        for tag in re.findall(r"registry\.example/rankshim:([\w.]+)", path.read_text()):
            assert tag == version, path


def test_the_pods_of_mpijob_are_pods():
    """Its own schema is not here; those of its pods are."""
    (job,) = documents(EXAMPLES / "mpi" / "mpijob.yaml")
    for template in templates(job):
        assert mistakes({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "mpi"}, **template}) == []
