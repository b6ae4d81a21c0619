"""The images under test, built once for all tests of this folder."""

import itertools
import shutil
import tempfile
import time

import pytest

from container import podman
from lib.process import log
from lib.requirements import cannot

SHIM_IMAGE = "localhost/rankshim"
USER_IMAGE = "localhost/user"
# The build is made from nothing: minutes on two idle cores, and the machine may not be idle.
BUILD_TIMEOUT = 1500


@pytest.fixture(scope="session")
def image_folder():
    """A folder of images with the project's own, a user's that copies from it, and what they start from."""
    if reason := podman.why_not():
        cannot(reason)
    folder = tempfile.mkdtemp(prefix="rankshim-images-")
    here = podman.REPOSITORY / "integration" / "container"
    user = here / "user.Dockerfile"
    project = podman.REPOSITORY / "Dockerfile"
    try:
        with podman.Engine(folder, machine_network=True) as engine:
            bases = podman.base_names(project) + podman.base_names(user)
            podman.make_base_image(engine, sorted(set(bases)))
            started = time.monotonic()
            podman.build(engine, project, podman.REPOSITORY, SHIM_IMAGE,
                         f"--build-arg=FOLDER={podman.REPOSITORY}", timeout=BUILD_TIMEOUT)
            log.info("building the Dockerfile took %.0f s", time.monotonic() - started)
            podman.build(engine, user, here, USER_IMAGE, timeout=BUILD_TIMEOUT)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def engine(image_folder):
    """podman with the images, and with a network "job" on which containers know each other's names."""
    with podman.Engine(image_folder) as engine:
        engine.must("network", "create", "job")
        yield engine


@pytest.fixture
def start(engine):
    """Starts a container from an image: start(IMAGE, COMMAND..., options=[...]) is its Process, whose
    `.name` is the container's; ends it with the test."""
    started = []
    numbers = itertools.count()

    def run(image, *command, options=(), name=None):
        name = name or f"container{next(numbers)}"
        process = engine.container(image, *command, options=options, name=name)
        started.append(process)
        return process

    yield run
    for process in started:
        engine.podman("rm", "--force", "--time=0", "--ignore", process.name)
        process.kill()
