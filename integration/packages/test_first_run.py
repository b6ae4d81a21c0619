"""From a package to a training on two nodes within a minute, where PyTorch is there already."""

import os
import subprocess

import pytest

from container import podman, stranger
from lib.process import clean_environment, run
from lib.requirements import cannot
from packages.conftest import PYTHON

pytestmark = [pytest.mark.torch, pytest.mark.nightly, pytest.mark.usefixtures("torch")]


@pytest.fixture(params=[180, pytest.param(60, marks=pytest.mark.alone)], ids=["busy", "idle"])
def patience(request):
    """How long the demonstration may take, in seconds: on an idle machine a minute."""
    return request.param


def trained(demo):
    assert demo.code == 0, demo.transcript()
    assert "node 0  rank 0  world 2" in demo.stdout and "node 1  rank 1  world 2" in demo.stdout
    return "the nodes trained together" in demo.stdout


def test_pip_install_in_a_fresh_environment_and_one_command_train_on_two_nodes(only, patience, tmp_path):
    environment = tmp_path / "venv"
    subprocess.run([PYTHON, "-m", "venv", "--without-pip", environment], check=True)
    (packages,) = environment.glob("lib/python*/site-packages")
    (packages / "torch.pth").write_text(f"{stranger.torch_folder()}\n")
    subprocess.run([PYTHON, "-m", "pip", "--python", environment / "bin" / "python", "install", "--quiet", "--no-index",
                    only(f"*_{os.uname().machine}.whl")], check=True)
    # As `source venv/bin/activate` leaves PATH.
    activated = clean_environment({"PATH": f"{environment}/bin:/usr/bin:/bin"})
    assert trained(run(["rankshim", "demo"], activated, timeout=patience))


@pytest.fixture
def debian(tmp_path):
    """An engine with the image of a Debian that has PyTorch."""
    if reason := podman.why_not():
        cannot(reason)
    with podman.Engine(tmp_path) as engine:
        stranger.make_image(engine)
        yield engine


@pytest.mark.nightly
def test_apt_get_install_in_a_fresh_debian_and_one_command_train_on_two_nodes(release, documented, patience, debian):
    demo = debian.podman(
        "run", "--rm", "--network=none", f"--volume={release}:/release:ro", "--workdir=/release",
        f"--volume={stranger.torch_folder()}:{stranger.PACKAGES}:ro", stranger.IMAGE,
        "sh", "-c", '"$@" && rankshim demo', "sh", *documented("apt-get "), timeout=patience)
    assert trained(demo)
