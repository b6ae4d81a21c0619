"""The pods of install/ without root: podman keeps to what Pod Security's level "restricted" asks for, and rankshim still does
all of its work.

What podman does not make as the kubelet does is mounted: a termination log of mode 666, and for each emptyDir a folder of root's
with mode 777 and the group of `fsGroup` (pkg/volume/emptydir/empty_dir.go, pkg/volume/volume_linux.go).
"""

import copy
import os

import pytest
import yaml

from container import podman
from container.conftest import SHIM_IMAGE, USER
from examples.pod_security import violations
from lib.documents import REPOSITORY, blocks

# Node 0 of two: it writes to /dev/shm, asks for the status, and fails by a signal.
SCRIPT = " && ".join((
    "id -u", "touch /dev/shm/tensor", "echo /dev/shm is writable", "! touch /anything", "echo the root is not",
    "/rankshim/rankshim status", "kill -SEGV $$",
))


@pytest.fixture
def pod(tmp_path):
    """The Pod of the first block of docs/in-an-image.md in a hardened job."""
    (block, *_) = [block for block in blocks("yaml") if block.document == "docs/in-an-image.md"]
    spec = yaml.safe_load(block.text)
    template = yaml.safe_load((REPOSITORY / "install" / "kustomize" / "example" / "job.yaml").read_text())
    job = template["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]
    (installer,), (container,), (own,) = spec["initContainers"], spec["containers"], job["containers"]
    container = {**own, **container, "volumeMounts": [*own["volumeMounts"], *container["volumeMounts"]]}
    container["command"] = [*container["command"][:container["command"].index("--")], "--wait=none", "--", "sh", "-c", SCRIPT]
    container["securityContext"] = {**container["securityContext"], "readOnlyRootFilesystem": True}
    container["env"] = [{"name": name, "value": value} for name, value in {
        "RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "job-master-0", "MASTER_PORT": "23456"}.items()]
    made = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "restricted"}, "spec": {
        "restartPolicy": "Never", "securityContext": {**job["securityContext"], "fsGroup": 1000},
        "initContainers": [installer], "containers": [container], "volumes": [*job["volumes"], *spec["volumes"]],
    }}
    assert violations(made) == set()
    return for_podman(made, tmp_path)


def for_podman(pod, folder):
    """With the images that are here, and the files and folders that the kubelet would make."""
    made = copy.deepcopy(pod)
    (installer,), (container,) = made["spec"]["initContainers"], made["spec"]["containers"]
    (image,) = podman.base_names(USER)
    installer |= {"image": SHIM_IMAGE, "imagePullPolicy": "Never"}
    container |= {"image": image, "imagePullPolicy": "Never"}
    log = folder / "log"
    log.touch()
    log.chmod(0o666)
    for volume in made["spec"]["volumes"]:
        del volume["emptyDir"]
        path = folder / volume["name"]
        path.mkdir()
        os.chown(path, 0, made["spec"]["securityContext"]["fsGroup"])
        path.chmod(0o2777)
        volume["hostPath"] = {"path": str(path), "type": "Directory"}
    made["spec"]["volumes"].append({"name": "log", "hostPath": {"path": str(log), "type": "File"}})
    container["volumeMounts"].append({"name": "log", "mountPath": "/dev/termination-log"})
    return made


def test_a_restricted_pod_gets_rankshim_and_writes_its_status_and_its_termination_message(engine, play, pod, tmp_path):
    running = play(pod)
    assert engine.must("wait", "restricted-pytorch") == "139", running.transcript()
    running.wait_line("/dev/shm is writable")
    running.wait_line("the root is not")
    running.wait_line('"phase":"run"')
    running.wait_line("^1000$")
    assert "was killed by SIGSEGV" in (tmp_path / "log").read_text()


def test_without_root_rankshim_cannot_install_into_a_folder_of_roots_and_says_so(start, tmp_path):
    tmp_path.chmod(0o755)
    container = start(SHIM_IMAGE, "install", "/target", options=["--read-only", "--cap-drop=ALL", f"--volume={tmp_path}:/target"])
    assert container.wait() == 71, container.transcript()
    assert "cannot create /target/rankshim: " in container.stderr and "Permission denied" in container.stderr
