"""The block of install/README.md for compose, run as it is by the real docker compose, with podman as its engine.

The images are made here: rankshim's, and one of Debian's Python, whose script says which node it is. `docker` is docker compose
for `docker compose`, and there is no other use of it.
"""

import pathlib
import shutil
import sys

import pytest

from container import podman, stranger
from container.conftest import SHIM_IMAGE
from lib.documents import REPOSITORY, shell
from lib.events import until
from lib.requirements import cannot

COMPOSE = pathlib.Path(sys.prefix) / "share" / "compose" / "docker-compose"
SOCKET = "/run/podman.sock"
DOCKER = f"""#!/bin/sh
[ "$1" = compose ] && shift && exec {COMPOSE} "$@"
exit 64
"""
# The nodes meet, as those of a training do.
SCRIPT = """import os, socket, time
address = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
if os.environ["NODE_RANK"] == "0":
    socket.create_server(("", address[1])).accept()
else:
    with socket.socket() as met:
        while met.connect_ex(address) != 0:
            time.sleep(0.1)
print("node %(NODE_RANK)s of %(NNODES)s" % os.environ)
"""
IMAGE = f"""FROM {stranger.IMAGE}
COPY train.py /
ENV RANKSHIM_LAUNCHER=none
"""


@pytest.fixture
def docker(engine, tmp_path):
    """Runs a shell block in a copy of install/, where `docker compose` works: the ended Process."""
    if not COMPOSE.exists():
        cannot(f"missing: {COMPOSE} (scripts/setup puts it there)")
    stranger.make_image(engine)
    (tmp_path / "Dockerfile").write_text(IMAGE)
    (tmp_path / "train.py").write_text(SCRIPT)
    podman.build(engine, tmp_path / "Dockerfile", tmp_path, "registry.example/mnist:v1", timeout=60)
    engine.must("tag", SHIM_IMAGE, "registry.example/rankshim:0.1.0")
    shutil.copytree(REPOSITORY / "install", tmp_path / "install")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "docker").write_text(DOCKER)
    (tmp_path / "bin" / "docker").chmod(0o755)
    service = engine.start("podman", "system", "service", "--time=0", f"unix://{SOCKET}")
    until(lambda: engine.run("test", "-S", SOCKET).code == 0, "podman's service listens")
    yield lambda block: engine.run(
        "bash", "-ec", f"cd {tmp_path}\n{block}", timeout=120,
        env={"DOCKER_HOST": f"unix://{SOCKET}", "PATH": f"{tmp_path}/bin:{podman.tool_environment()['PATH']}"})
    service.kill()


def test_the_first_service_brings_rankshim_and_the_others_are_two_nodes(docker, engine):
    done = docker(shell("install/README.md", "Docker compose").text)
    assert done.code == 0, done.transcript()
    for rank in (0, 1):
        # An older podman does not pass what a container prints on to compose.
        assert engine.must("logs", f"compose-node-{rank}-1").splitlines()[-1] == f"node {rank} of 2"
