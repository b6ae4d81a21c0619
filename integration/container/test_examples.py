"""A job of install/ as it is: Kustomize puts rankshim into its pods, a stand-in for the controller makes them, and podman
runs them on a network with names."""

import pathlib
import sys

import pytest
import yaml

from container import podman
from examples.controllers import pods
from examples.test_install import tool
from examples.test_manifests import INSTALL

HERE = pathlib.Path(__file__).resolve().parent
JOB = 200  # seconds
# Sums over both nodes until a node is gone.
TRAIN = """
import itertools, sys, torch, torch.distributed as dist
dist.init_process_group("gloo")
for step in itertools.count():
    total = torch.ones(1)
    dist.all_reduce(total)
    if step == 3:
        sys.stdout.write(f"TRAINING rank={dist.get_rank()} sum={total.item():.0f}\\n")
        sys.stdout.flush()
"""

pytestmark = [pytest.mark.torch, pytest.mark.nightly, pytest.mark.usefixtures("torch")]


def for_podman(pod, folder):
    """The Pod for podman: the image that is here, with this machine's Python mounted into it, and a termination log,
    as the kubelet makes it. Its pods share an emptyDir of one name, so that name begins with the pod's."""
    (image,) = podman.base_names(HERE / "user.Dockerfile")
    name, spec = pod["metadata"]["name"], pod["spec"]
    (container,), (installer,) = spec["containers"], spec["initContainers"]
    shared = f"{name}-rankshim"
    volumes = [
        {"name": shared, "emptyDir": {}},
        {"name": "log", "hostPath": {"path": str(folder / f"{name}.log"), "type": "File"}},
    ]
    mounts = [{"name": shared, "mountPath": "/rankshim"}, {"name": "log", "mountPath": "/dev/termination-log"}]
    folder.chmod(0o755)  # the pod's user is not ours
    (folder / f"{name}.log").touch()
    (folder / f"{name}.log").chmod(0o666)
    folders = {"/usr": "/usr", sys.prefix: sys.prefix, "/job": str(folder)}
    if not sys.base_prefix.startswith("/usr/"):
        if sys.base_prefix.startswith("/root/"):  # which is closed to others in the image
            (folder / sys.base_prefix[1:]).mkdir(parents=True, exist_ok=True)
            folders["/root"] = str(folder / "root")
        folders[sys.base_prefix] = sys.base_prefix
    for number, (inside, outside) in enumerate(folders.items()):
        volumes.append({"name": f"folder{number}", "hostPath": {"path": outside, "type": "Directory"}})
        mounts.append({"name": f"folder{number}", "mountPath": inside, "readOnly": True})
    installer |= {"image": "localhost/rankshim", "imagePullPolicy": "Never"}
    installer["volumeMounts"][0]["name"] = shared
    container |= {"image": image, "imagePullPolicy": "Never", "workingDir": "/job", "volumeMounts": mounts}
    container["env"] += [
        {"name": "OMP_NUM_THREADS", "value": "1"}, {"name": "PATH", "value": f"{sys.prefix}/bin:/usr/bin:/bin"},
    ]
    return {**pod, "metadata": {"name": name}, "spec": {**spec, "restartPolicy": "Never", "volumes": volumes}}


@pytest.fixture
def job(play, tmp_path):
    """The pods of the job, the master first, each started by .start(POD)."""
    (tmp_path / "train.py").write_text(TRAIN)
    document = yaml.safe_load(tool("kubectl")("kustomize", str(INSTALL / "kustomize" / "example")))
    document["spec"]["pytorchReplicaSpecs"]["Worker"]["replicas"] = 1
    made = {pod["metadata"]["name"]: for_podman(pod, tmp_path) for pod in pods(document)}

    class Job:
        names = list(made)

        @staticmethod
        def start(name):
            return play(made[name])

        @staticmethod
        def termination_message(name):
            return (tmp_path / f"{name}.log").read_text()

    return Job


def test_a_pod_that_comes_late_is_waited_for_and_one_that_is_killed_is_named_by_the_other(engine, job):
    master_name, worker_name = job.names
    worker = job.start(worker_name)
    worker.wait_line(f"waiting for master {master_name}")
    master = job.start(master_name)
    for pod in (master, worker):
        pod.wait_line("TRAINING rank=. sum=2", JOB)
    engine.must("kill", "--signal=KILL", f"{worker_name}-pytorch")
    assert engine.must("wait", f"{master_name}-pytorch", timeout=JOB) == "76", master.transcript()
    message = job.termination_message(master_name)
    assert message.startswith(f"node 1 ({worker_name}) was lost: its connection ended")
    assert f"exit code 76, host {master_name}" in message
