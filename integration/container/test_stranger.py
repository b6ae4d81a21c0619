"""A stranger's image becomes a node of a job by the init container of docs/in-an-image.md, and by nothing else."""

import copy
import re

import pytest
import yaml

from container import podman, stranger
from container.conftest import SHIM_IMAGE
from lib.results import results

INSTALL = podman.REPOSITORY / "docs" / "in-an-image.md"
WORKERS = podman.REPOSITORY / "integration" / "kubeflow" / "workers"
MASTER = "stranger-master-0"
PODS = (MASTER, "stranger-worker-0")
JOB = 200  # seconds
# As pip writes it.
TORCHRUN = "#!/usr/bin/python3\nimport sys\nfrom torch.distributed.run import main\nsys.exit(main())\n"

pytestmark = [pytest.mark.torch, pytest.mark.usefixtures("torch")]


@pytest.fixture(scope="module")
def image(engine):
    """The stranger's image."""
    stranger.make_image(engine)
    engine.must("run", "--rm", "--network=none", stranger.IMAGE, "sh", "-c", "! command -v rankshim")
    return stranger.IMAGE


@pytest.fixture
def pods(image, tmp_path):
    """Two Pods as Kubeflow's training-operator 1.5 made them of a job whose command is torchrun."""
    torchrun = tmp_path / "torchrun"
    torchrun.write_text(TORCHRUN)
    torchrun.chmod(0o755)
    mounts = {"torch": (stranger.torch_folder(), stranger.PACKAGES, "Directory"),
              "torchrun": (torchrun, "/usr/local/bin/torchrun", "File"),
              "job": (WORKERS, "/job", "Directory")}
    variables = {"MASTER_ADDR": MASTER, "MASTER_PORT": "23456", "WORLD_SIZE": "2", "OMP_NUM_THREADS": "1"}
    return [
        {
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
            "spec": {
                "restartPolicy": "Never",
                "containers": [{
                    "name": "pytorch", "image": image, "imagePullPolicy": "Never",
                    "command": ["torchrun", "/job/ddp.py"],
                    "env": [{"name": key, "value": value} for key, value in {**variables, "RANK": str(rank)}.items()],
                    "volumeMounts": [{"name": volume, "mountPath": inside, "readOnly": True}
                                     for volume, (_, inside, _) in mounts.items()],
                }],
                "volumes": [{"name": volume, "hostPath": {"path": str(outside), "type": kind}}
                            for volume, (outside, _, kind) in mounts.items()],
            },
        }
        for rank, name in enumerate(PODS)
    ]


def with_init_container(pod):
    """The Pod with what the first YAML of docs/in-an-image.md shows."""
    shown = yaml.safe_load(re.search(r"^```yaml\n(.*?)^```", INSTALL.read_text(), re.M | re.S)[1])
    (installer,), (container,), (volume,) = shown["initContainers"], shown["containers"], shown["volumes"]
    installer |= {"image": SHIM_IMAGE, "imagePullPolicy": "Never"}
    # podman's pods share an emptyDir of one name.
    name = f"{pod['metadata']['name']}-{volume['name']}"
    for part in (volume, *installer["volumeMounts"], *container["volumeMounts"]):
        part["name"] = name
    changed = copy.deepcopy(pod)
    changed["spec"]["initContainers"] = [installer]
    changed["spec"]["volumes"].append(volume)
    (own,) = changed["spec"]["containers"]
    prefix = container["command"][:container["command"].index("--") + 1]
    own["command"] = [*prefix, *own["command"]]
    own["volumeMounts"] += container["volumeMounts"]
    return changed


def trained(engine, play, pods):
    """Rank and size of the world of each pod's worker, in the order of the pods."""
    nodes = [play(pod) for pod in pods]
    found = []
    for node in nodes:
        assert engine.must("wait", f"{node.name}-pytorch", timeout=JOB) == "0", node.transcript()
        node.wait()
        found += [(rank, result["world"]) for rank, result in results(node).items()]
    return found


@pytest.mark.nightly  # 40 s of processor time
def test_with_the_init_container_alone_a_strangers_image_trains_on_two_nodes(engine, play, pods):
    assert trained(engine, play, map(with_init_container, pods)) == [(0, "2"), (1, "2")]


@pytest.mark.nightly
def test_without_it_each_pod_trains_alone(engine, play, pods):
    assert trained(engine, play, pods) == [(0, "1"), (0, "1")]
