"""Pod Security's level "restricted": what the API server's admission would say of a pod.

The rules, and the ids of the checks, are those of kubernetes/pod-security-admission@8f84a87:policy/check_*.go, at the strictest
version of each, for a pod of Linux without a user namespace of its own (`hostUsers: false` relaxes three of them).
"""

VOLUMES = {
    "configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "image", "persistentVolumeClaim", "projected", "secret",
}
SYSCTLS = {
    "kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.tcp_syncookies", "net.ipv4.ping_group_range",
    "net.ipv4.ip_unprivileged_port_start",
}
SELINUX_TYPES = {"container_t", "container_init_t", "container_kvm_t"}
APPARMOR = "container.apparmor.security.beta.kubernetes.io/"
PROFILES = {"RuntimeDefault", "Localhost"}
HANDLERS = {"livenessProbe", "readinessProbe", "startupProbe", "postStart", "preStop"}


def context(part):
    """The securityContext of a pod's spec or of a container."""
    return part.get("securityContext") or {}


def containers(spec):
    return [each for kind in ("initContainers", "containers", "ephemeralContainers") for each in spec.get(kind) or []]


def effective(spec, container, field):
    """What counts for a container: its own value, or else the pod's."""
    return context(container).get(field, context(spec).get(field))


def anywhere(allowed):
    """A rule for each securityContext, the pod's and the containers', by itself."""
    return lambda spec, _: all(allowed(context(part)) for part in (spec, *containers(spec)))


def each_container(allowed):
    return lambda spec, _: all(allowed(spec, container) for container in containers(spec))


def handlers(container):
    """The handlers of a container's probes and hooks."""
    parts = {**container, **container.get("lifecycle", {})}
    return [action for name in HANDLERS & parts.keys() for action in parts[name].values() if isinstance(action, dict)]


def selinux(security):
    options = security.get("seLinuxOptions", {})
    return options.get("type", "") in {"", *SELINUX_TYPES} and not options.get("user") and not options.get("role")


def apparmor(spec, metadata):
    annotated = [value for key, value in (metadata.get("annotations") or {}).items() if key.startswith(APPARMOR)]
    own = [context(part)["appArmorProfile"]["type"] for part in (spec, *containers(spec)) if "appArmorProfile" in context(part)]
    return set(own) <= PROFILES and all(value in ("", "runtime/default") or value.startswith("localhost/") for value in annotated)


# By the id of the check: whether a pod's spec, with its metadata, is allowed.
RULES = {
    "allowPrivilegeEscalation": each_container(lambda _, each: context(each).get("allowPrivilegeEscalation") is False),
    "appArmorProfile": apparmor,
    "capabilities_restricted": each_container(lambda _, each: (
        "ALL" in context(each).get("capabilities", {}).get("drop", [])
        and set(context(each)["capabilities"].get("add", [])) <= {"NET_BIND_SERVICE"})),
    "hostNamespaces": lambda spec, _: not any(spec.get(each) for each in ("hostNetwork", "hostPID", "hostIPC")),
    "hostPorts": each_container(lambda _, each: not any(port.get("hostPort") for port in each.get("ports", []))),
    "hostProbesAndHostLifecycle": each_container(lambda _, each: not any(action.get("host") for action in handlers(each))),
    "privileged": each_container(lambda _, each: not context(each).get("privileged")),
    "procMount_restricted": each_container(lambda _, each: context(each).get("procMount", "Default") == "Default"),
    "restrictedVolumes": lambda spec, _: all(VOLUMES & volume.keys() for volume in spec.get("volumes", [])),
    "runAsNonRoot": lambda spec, _: context(spec).get("runAsNonRoot") is not False and all(
        effective(spec, each, "runAsNonRoot") is True for each in containers(spec)),
    "runAsUser": anywhere(lambda security: security.get("runAsUser") != 0),
    "seLinuxOptions": anywhere(selinux),
    "seccompProfile_restricted": lambda spec, _: context(spec).get("seccompProfile", {}).get("type", "Localhost") in PROFILES
    and all((effective(spec, each, "seccompProfile") or {}).get("type") in PROFILES for each in containers(spec)),
    "sysctls": lambda spec, _: {each["name"] for each in context(spec).get("sysctls", [])} <= SYSCTLS,
    "windowsHostProcess": anywhere(lambda security: not security.get("windowsOptions", {}).get("hostProcess")),
}


def violations(template):
    """The ids of the checks that a pod, or a template of one, does not pass."""
    return {name for name, allowed in RULES.items() if not allowed(template["spec"], template.get("metadata", {}))}


def templates(value):
    """The pods' templates of a document, wherever its kind has them."""
    if isinstance(value, list):
        return [found for each in value for found in templates(each)]
    if not isinstance(value, dict):
        return []
    if "containers" in (value.get("spec") or {}):
        return [value]
    return [found for each in value.values() for found in templates(each)]
