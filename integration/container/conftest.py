"""The images under test, built once for all tests of this folder."""

import itertools
import json
import pathlib
import shutil
import subprocess
import tempfile

import pytest

from container import podman, stranger
from lib.requirements import cannot, why_not_static

SHIM_IMAGE = "localhost/rankshim"
USER_IMAGE = "localhost/user"
HERE = pathlib.Path(__file__).resolve().parent
PROJECT = podman.REPOSITORY / "Dockerfile"
USER = HERE / "user.Dockerfile"
BUILD_TIMEOUT = 300
COMPILE_TIMEOUT = 1500  # minutes on two idle cores, and the machine may not be idle
# Replaces the Dockerfile's first stage, which would compile for minutes what is compiled already.
BUILT = "FROM scratch AS build\nCOPY rankshim /rankshim.built\n\n"


def last_stage(dockerfile):
    """The text of a Dockerfile from its last FROM on."""
    text = dockerfile.read_text()
    return text[text.rindex("\nFROM ") + 1:]


@pytest.fixture(scope="session")
def image_folder(rankshim):
    """A folder of images with the project's own, a user's that copies from it, and what they start from."""
    if reason := podman.why_not() or why_not_static(rankshim):
        cannot(reason)
    folder = tempfile.mkdtemp(prefix="rankshim-images-")
    context = pathlib.Path(folder) / "context"
    context.mkdir()
    shutil.copy(rankshim, context / "rankshim")
    (context / "Dockerfile").write_text(BUILT + last_stage(PROJECT))
    try:
        with podman.Engine(folder, machine_network=True) as engine:
            # The stranger's image, too: one minimal Debian serves all.
            names = sorted({*podman.base_names(PROJECT), *podman.base_names(USER), stranger.IMAGE})
            podman.make_base_image(engine, names, "python3")
            podman.build(engine, context / "Dockerfile", context, SHIM_IMAGE, timeout=BUILD_TIMEOUT)
            podman.build(engine, USER, HERE, USER_IMAGE, timeout=BUILD_TIMEOUT)
        yield folder
    finally:
        # Not waited for: on a busy disk it takes half a minute, at the very end of all tests.
        subprocess.Popen(["rm", "-rf", folder], start_new_session=True)


@pytest.fixture(scope="session")
def compiled_image():
    """podman with the image that the Dockerfile makes as it is, compiler and all."""
    if reason := podman.why_not():
        cannot(reason)
    with tempfile.TemporaryDirectory(prefix="rankshim-compiled-", ignore_cleanup_errors=True) as folder:
        with podman.Engine(folder, machine_network=True) as engine:
            podman.make_base_image(engine, podman.base_names(PROJECT))
            podman.build(engine, PROJECT, podman.REPOSITORY, SHIM_IMAGE, f"--build-arg=FOLDER={podman.REPOSITORY}",
                         timeout=COMPILE_TIMEOUT)
            yield engine


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


@pytest.fixture
def play(engine, tmp_path):
    """Starts a pod by `podman kube play`: play(POD) is a Process that prints what its container "pytorch" prints; ends it
    with the test."""
    followers = []

    def start_pod(pod):
        name = pod["metadata"]["name"]
        manifest = tmp_path / f"{name}.json"
        manifest.write_text(json.dumps(pod))
        followers.append((name, None))  # what fails half-way is removed, too
        engine.must("kube", "play", "--network=job", manifest)
        followers[-1] = name, engine.start("podman", "logs", "--follow", f"{name}-pytorch", name=name)
        return followers[-1][1]

    yield start_pod
    for name, follower in followers:
        engine.podman("pod", "rm", "--force", "--time=0", "--ignore", name)
        if follower:
            follower.kill()
