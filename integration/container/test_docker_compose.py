"""The block of docs/compose.md for an image without rankshim, run as it is by the real docker compose, with podman as its engine.

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
[ "$1" = compose ] && shift && exec '{COMPOSE}' "$@"
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
    """Starts a shell block in a copy of install/, where `docker compose` works: the Process."""
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
    started = []

    def start(block):
        path = f"{tmp_path}/bin:{podman.tool_environment()['PATH']}"
        started.append(engine.start("bash", "-ec", f"cd '{tmp_path}'\n{block}", name="compose",
                                    env={"DOCKER_HOST": f"unix://{SOCKET}", "PATH": path}))
        return started[-1]

    yield start
    for process in (*started, service):
        process.kill()


@pytest.mark.nightly  # test_compose.py has the same without docker, in a tenth of the time
def test_the_first_service_brings_rankshim_and_the_others_are_two_nodes(docker, engine):
    compose = docker(shell("docs/compose.md", "Two containers on one machine").text)
    for rank in (0, 1):
        name = f"compose-node-{rank}-1"

        def end(name=name):
            shown = engine.podman("inspect", "--format={{.State.Status}} {{.State.ExitCode}}", name).stdout.strip()
            gave_up = compose.popen.poll() not in (None, 0)
            return shown if shown.startswith("exited") or gave_up else None

        # podman's own words: its service sometimes loses the event of a container's end, and then compose never returns. An
        # older one does not pass on what a container prints, either.
        assert until(end, f"{name} has exited", timeout=120) == "exited 0", compose.transcript()
        assert engine.must("logs", name).splitlines()[-1] == f"node {rank} of 2"
