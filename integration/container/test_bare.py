"""README's commands where nothing is installed: a bare Debian with a checkout in it. Its scripts/build is in test_image.py."""

import subprocess
import tempfile

import pytest

from container import podman
from lib.requirements import cannot

IMAGE = "localhost/bare"
SECONDS = 1500  # apt, a compiler's work and PyTorch over the network, on a machine that may be busy

pytestmark = pytest.mark.nightly


@pytest.fixture(scope="module")
def in_a_checkout(tmp_path_factory):
    """Runs a line of shell there, and gives the ended process."""
    if reason := podman.why_not():
        cannot(reason)
    checkout = tmp_path_factory.mktemp("bare") / "rankshim"
    subprocess.run(["git", "clone", "--quiet", podman.REPOSITORY, checkout], check=True)
    with tempfile.TemporaryDirectory(prefix="rankshim-bare-", ignore_cleanup_errors=True) as folder:
        with podman.Engine(folder, machine_network=True) as engine:
            podman.make_base_image(engine, [IMAGE])
            pip = podman.pip_options(tmp_path_factory.mktemp("pip"))
            yield lambda line: engine.podman(
                "run", "--rm", "--privileged", "--network=host", *pip, f"--volume={checkout}:/rankshim", "--workdir=/rankshim",
                IMAGE, "sh", "-c", line, timeout=SECONDS, env=podman.proxies())


@pytest.fixture(scope="module")
def demonstration(in_a_checkout):
    """A fixture: it has no limit of time."""
    return in_a_checkout("scripts/demo")


@pytest.fixture(scope="module")
def release(in_a_checkout):
    return in_a_checkout("touch new; scripts/release $(sed -n 's/^project(rankshim VERSION //p' CMakeLists.txt | cut -d' ' -f1)")


def test_the_demonstration_needs_nothing_that_a_bare_debian_lacks(demonstration):
    assert demonstration.code == 0, demonstration.transcript()
    assert "Equal loss and weights: the nodes trained together." in demonstration.stdout


def test_a_release_installs_the_git_that_says_what_is_not_committed(release):
    assert release.stderr.splitlines()[-1] == "release: not committed, so no release could name its source: ?? new", release.transcript()
