"""The compose files of examples/ and install/, service by service: podman stands in for compose."""

import json
import pathlib

import pytest
import yaml

from container import podman
from container.conftest import SHIM_IMAGE, USER, USER_IMAGE

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]


def options(service):
    """As `docker compose` hands a service to the engine."""
    return [
        "--network=job", f"--hostname={service['hostname']}", f"--entrypoint={json.dumps(service['entrypoint'])}",
        *(f"--env={name}={value}" for name, value in service["environment"].items()),
        *(f"--volume={volume}" for volume in service.get("volumes", ())),
        f"--user={service['user']}", f"--shm-size={service['shm_size'].removesuffix('b')}",
        *(f"--cap-drop={each}" for each in service["cap_drop"]),
        *(f"--security-opt={each}" for each in service["security_opt"]),
    ]


@pytest.mark.parametrize("folder", ["examples/docker-compose", "install/compose"])
def test_the_services_of_a_compose_file_are_the_nodes_of_one_job(engine, start, folder):
    services = yaml.safe_load((REPOSITORY / folder / "compose.yaml").read_text())["services"]
    (image,) = [USER_IMAGE] if folder.startswith("examples") else podman.base_names(USER)
    if "rankshim" in services:
        (volume,) = services["rankshim"]["volumes"]
        engine.must("run", "--rm", "--read-only", f"--user={services['rankshim']['user']}", f"--volume={volume}",
                    SHIM_IMAGE, *services["rankshim"]["command"])
    script = 'echo "node $NODE_RANK of $NNODES"; '
    worker = start(image, "sh", "-c", script, options=options(services["node-1"]), name="node-1")
    worker.wait_line("waiting for master node-0")
    master = start(image, "sh", "-c", script + "sleep 1000", options=options(services["node-0"]), name="node-0")
    master.wait_line("^node 0 of 2$")
    assert worker.wait() == 0, worker.transcript()
    assert worker.stdout == "node 1 of 2\n"
