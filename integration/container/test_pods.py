"""Pods by `podman kube play`: rankshim comes into an unchanged image by an init container."""

import pathlib
import string
import sys

import pytest
import yaml

from container import podman
from lib.results import results

HERE = pathlib.Path(__file__).resolve().parent
MASTER, WORKER = "job-master-0", "job-worker-0"
JOB = 200

pytestmark = [pytest.mark.torch, pytest.mark.usefixtures("torch")]


@pytest.fixture
def node(play):
    """Starts a pod of the job: node(POD, RANK) is a Process that prints what the pod's container prints."""
    (image,) = podman.base_names(HERE / "user.Dockerfile")
    python = pathlib.Path(sys.base_prefix)

    def run(pod, rank):
        return play(yaml.safe_load(string.Template((HERE / "pod.yaml").read_text()).substitute(
            pod=pod, rank=rank, image=image, job=HERE.parent / "kubeflow" / "workers", venv=sys.prefix,
            # A system's own Python is in /usr already.
            python="/mnt" if python.is_relative_to("/usr") else python,
        )))

    return run


@pytest.mark.nightly
def test_two_pods_train_together_though_the_master_pod_comes_late(engine, node):
    worker = node(WORKER, 1)
    worker.wait_line(f"(?i)wait.*{MASTER}")
    master = node(MASTER, 0)
    for pod in (master, worker):
        assert engine.must("wait", f"{pod.name}-pytorch", timeout=JOB) == "0", pod.transcript()
        pod.wait()
    found = results(master) | results(worker)
    assert {rank: result["world"] for rank, result in found.items()} == {0: "2", 1: "2"}
    assert len({(result["loss"], result["weight"]) for result in found.values()}) == 1
