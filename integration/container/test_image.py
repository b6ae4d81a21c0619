"""The image that the repository's Dockerfile makes: from `scratch`, with the one binary."""

import json
import re
import subprocess

import pytest

from container import podman
from container.conftest import SHIM_IMAGE, USER_IMAGE
from lib.documents import shell
from lib.process import clean_environment

LARGEST_BYTES = 3 << 20
KUBEFLOW_WORKER = {
    "RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "job-master-0", "MASTER_PORT": "23456", "PYTHONUNBUFFERED": "0",
}


def variables(values):
    """As options of `podman run`."""
    return [f"--env={name}={value}" for name, value in values.items()]


@pytest.fixture(scope="session")
def binary(engine, tmp_path_factory):
    """The binary out of the image, by the image's own `install` as the document shows it, on this machine."""
    folder = tmp_path_factory.mktemp("installed")
    block = shell("docs/in-an-image.md", "Get the binary alone").text
    done = engine.run("bash", "-ec", f'docker() {{ podman "$@"; }}; cd {folder}; {block}')
    assert done.code == 0, done.transcript()
    return folder / "rankshim"


def test_the_image_holds_nothing_but_the_binary(engine):
    root = engine.must("image", "mount", SHIM_IMAGE)
    found = engine.run("find", root, "-mindepth", "1", "-printf", "%P %y %m %s\n")
    engine.must("image", "unmount", SHIM_IMAGE)
    (line,) = found.stdout.splitlines()
    path, kind, mode, size = line.split()
    assert (path, kind, mode) == ("rankshim", "f", "755")
    assert int(size) <= LARGEST_BYTES


@pytest.mark.nightly
def test_the_dockerfile_compiles_from_nothing(compiled_image):
    assert compiled_image.must("run", "--rm", "--network=none", SHIM_IMAGE, "--version").startswith("rankshim ")
    assert settings(compiled_image) == []


def settings(engine):
    """The variables that the image sets, but PATH."""
    (image,) = json.loads(engine.must("image", "inspect", SHIM_IMAGE))
    return [entry for entry in image["Config"].get("Env") or [] if not entry.startswith("PATH=")]


def test_the_image_carries_no_setting_of_the_machine_that_built_it(engine):
    assert settings(engine) == []


@pytest.mark.parametrize("dockerfile", ["Dockerfile", "packaging/Containerfile"])
def test_its_user_is_a_number_that_is_not_roots(dockerfile):
    """kubernetes/kubernetes:pkg/kubelet/kuberuntime/security_context.go verifyRunAsNonRoot refuses a name."""
    assert re.findall(r"^USER (\d+):(\d+)$", (podman.REPOSITORY / dockerfile).read_text(), re.M) == [("65532", "65532")]


def test_the_built_image_has_that_user(engine):
    (image,) = json.loads(engine.must("image", "inspect", SHIM_IMAGE))
    assert image["Config"]["User"] == "65532:65532"


def test_a_container_from_it_runs(start):
    container = start(SHIM_IMAGE, "--version")
    assert container.wait() == 0
    assert container.stdout.startswith("rankshim ")


def test_install_copies_the_binary_into_a_volume(binary):
    assert binary.stat().st_mode & 0o777 == 0o755
    done = subprocess.run([binary, "--version"], capture_output=True, text=True, timeout=20, env=clean_environment())
    assert (done.returncode, done.stdout.startswith("rankshim ")) == (0, True)


def test_an_image_with_another_entrypoint_is_checked_as_the_document_shows(engine):
    block = shell("docs/in-an-image.md", "Check the container").text.replace("IMAGE", USER_IMAGE)
    done = engine.run("bash", "-ec", f'docker() {{ podman "$@"; }}; {block}')
    assert done.stdout.startswith("ok       job              this node is the only one (single-node)\n"), done.transcript()
    assert done.code == 78 and "problem  torch" in done.stdout, "there is none in this image"


def test_the_users_image_has_the_same_binary(engine, binary):
    root = engine.must("image", "mount", USER_IMAGE)
    compared = engine.run("cmp", f"{root}/usr/local/bin/rankshim", binary)
    engine.must("image", "unmount", USER_IMAGE)
    assert compared.code == 0, compared.transcript()


@pytest.mark.parametrize("image, entrypoint", [(SHIM_IMAGE, "/rankshim"), (USER_IMAGE, "rankshim")])
def test_explain_reads_a_kubeflow_environment_in_a_container(start, image, entrypoint):
    container = start(image, "explain", "--format", "json", "--", "train.py",
                      options=[f"--entrypoint={entrypoint}", *variables(KUBEFLOW_WORKER)])
    assert container.wait() == 0, container.transcript()
    topology = json.loads(container.stdout)["topology"]
    assert {name: fact["value"] for name, fact in topology.items() if name != "run_id"} == {
        "nnodes": "2", "node_rank": "1", "nproc_per_node": "1", "master_addr": "job-master-0", "master_port": "23456",
    }
    assert topology["node_rank"]["source"] == "env RANK"


def test_a_name_resolves_in_scratch_as_soon_as_it_appears(start):
    waiting = start(SHIM_IMAGE, "wait", "--wait", "dns", options=["--network=job", *variables(KUBEFLOW_WORKER)])
    waiting.wait_line("job-master-0")
    start(USER_IMAGE, "sleep", "1000", options=["--network=job"], name="job-master-0")
    assert waiting.wait() == 0, waiting.transcript()


def test_a_name_that_never_appears_is_75_and_named(start):
    waiting = start(SHIM_IMAGE, "wait", "--wait", "dns", "--wait-timeout", "1s",
                    options=["--network=job", *variables({**KUBEFLOW_WORKER, "MASTER_ADDR": "job-master-9"})])
    assert waiting.wait() == 75, waiting.transcript()
    assert "job-master-9" in waiting.stderr.splitlines()[-1]
