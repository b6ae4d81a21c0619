"""The YAML blocks of the pages agree with their manifests, the API server would accept them, and rankshim can start their
commands."""

import pathlib
import subprocess

import pytest
import yaml

from examples.schema import mistakes
from examples.test_manifests import EXAMPLES, INSTALL
from lib.documents import blocks
from lib.explain import explained

IMAGE = {"name": "pytorch", "image": "registry.example/mnist"}


def pod(spec):
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "mnist"}, "spec": spec}


def container(fragment):
    """A Pod with these keys of its container, and its own."""
    own = {**IMAGE, **fragment}
    grace = {key: own.pop(key) for key in ("terminationGracePeriodSeconds",) if key in own}
    return pod({**grace, "containers": [own]})


def halves(block):
    """The fragments of a block: what it shows before and after a change, or the one that it shows."""
    if block.language == "diff":
        lines = {mark: [line[2:] for line in block.text.splitlines() if line[0] == mark] for mark in "-+"}
        return {"before": yaml.safe_load("\n".join(lines["-"])), "after": yaml.safe_load("\n".join(lines["+"]))}
    if block.text.startswith("# before"):
        return {when: yaml.safe_load(text) for when, text in block.halves().items()}
    return {"after": yaml.safe_load(block.text)}


def check_compose(fragment):
    service = yaml.safe_load((EXAMPLES / "docker-compose" / "compose.yaml").read_text())["services"]["node-1"]
    assert {key: service[key] for key in fragment} == fragment


def check_kustomization(fragment):
    assert yaml.safe_load((INSTALL / "kustomize" / "example" / "kustomization.yaml").read_text()).items() >= fragment.items()


def check_skypilot(fragment):
    assert yaml.safe_load((EXAMPLES / "skypilot" / "task.yaml").read_text())["run"] == fragment["run"]


def check_operator(fragment):
    (argument,) = fragment["args"]
    assert argument in (INSTALL / "kubeflow-operator" / "kustomization.yaml").read_text()


def check_init_container(fragment):
    assert mistakes(pod({**fragment, "containers": [IMAGE]})) == []
    (init,) = fragment["initContainers"]
    assert init["command"][:3] == ["rankshim", "preflight", "--check"]  # integration/link/test_preflight.py starts it


# What is no container of a Pod, by its first key.
OTHERS = {"initContainers": check_init_container, "entrypoint": check_compose, "resources": check_kustomization, "run": check_skypilot, "args": check_operator}


@pytest.mark.parametrize("block", [pytest.param(block, id=block.name) for block in blocks("yaml", "diff")])
def test_a_fragment_is_right(block, shim, tmp_path):
    found = halves(block)
    first = next(iter(found["after"]))
    for fragment in found.values():
        check_shell(["bash", "-c", fragment.get("run", "")])
    if first in OTHERS and "containers" not in found["after"]:
        OTHERS[first](found["after"])
        return
    for fragment in found.values():
        document = pod(fragment) if "containers" in fragment else container(fragment)
        assert mistakes(document) == []
        for each in document["spec"]["containers"]:
            check_shell(each["command"])
    check_start(document["spec"]["containers"][-1]["command"], shim, tmp_path)


def check_shell(command):
    """Checks the syntax of a shell's text."""
    if pathlib.Path(command[0]).name in ("sh", "bash") and "-c" in command:
        checked = subprocess.run(["bash", "-n"], input=command[command.index("-c") + 1], text=True, capture_output=True)
        assert checked.returncode == 0, checked.stderr


def check_start(command, shim, tmp_path):
    """rankshim can read its part of a command, and would start the rest."""
    at = next(i for i, word in enumerate(command) if pathlib.Path(word).name == "rankshim")
    script = tmp_path / "train.py"
    script.touch()
    words = [str(script) if word == "train.py" else word for word in command[at + 1:]]
    document = explained(shim("explain", "--format", "json", *words))
    program = words[words.index("--") + 1:] if "--" in words else words
    assert document["command"][-len(program):] == program or program[0] == "torchrun" == document["command"][0]
