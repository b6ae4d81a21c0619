"""README's commands where nothing is installed: a bare Debian with a checkout in it. Its scripts/build is in test_image.py."""

import subprocess
import tempfile

import pytest

from container import podman
from lib.requirements import cannot

IMAGE = "localhost/bare"
DEMONSTRATION = 1500  # seconds: apt, a compiler's work and PyTorch over the network, on a machine that may be busy

pytestmark = pytest.mark.nightly


@pytest.fixture(scope="module")
def demonstration(tmp_path_factory):
    """What scripts/demo printed there. A fixture: it has no limit of time."""
    if reason := podman.why_not():
        cannot(reason)
    checkout = tmp_path_factory.mktemp("bare") / "rankshim"
    subprocess.run(["git", "clone", "--quiet", podman.REPOSITORY, checkout], check=True)
    with tempfile.TemporaryDirectory(prefix="rankshim-bare-", ignore_cleanup_errors=True) as folder:
        with podman.Engine(folder, machine_network=True) as engine:
            podman.make_base_image(engine, [IMAGE])
            pip = podman.pip_options(tmp_path_factory.mktemp("pip"))
            return engine.must("run", "--rm", "--privileged", "--network=host", *pip, f"--volume={checkout}:/rankshim",
                               "--workdir=/rankshim", IMAGE, "scripts/demo", timeout=DEMONSTRATION, env=podman.proxies())


def test_the_demonstration_needs_nothing_that_a_bare_debian_lacks(demonstration):
    assert "Equal loss and weights: the nodes trained together." in demonstration
