"""A port that another job on this machine holds: the last line names the process."""

import os
import socket

NODE_0 = {"NNODES": "2", "NODE_RANK": "0", "MASTER_ADDR": "127.0.0.1"}
LISTENS = "import os, socket\nsocket.create_server(('127.0.0.1', int(os.environ['MASTER_PORT'])))\n"


def test_the_last_line_names_the_process_that_holds_the_port(shim, tmp_path):
    (tmp_path / "train.py").write_text(LISTENS)
    with socket.create_server(("127.0.0.1", 0)) as other_job:
        port = other_job.getsockname()[1]
        done = shim("--link=off", "--wait=none", "--", "python3", tmp_path / "train.py", env={**NODE_0, "MASTER_PORT": str(port)})
    with open("/proc/self/comm") as file:
        name = file.read().strip()
    assert done.code == 1
    assert "ddress already in use" in done.stderr.splitlines()[-1]
    assert f"; port {port} is held by {name} (pid {os.getpid()})" in done.stderr.splitlines()[-1], done.transcript()


def test_node_0_whose_master_is_a_wildcard_address_does_not_wait_for_itself(shim):
    for wildcard in ("0.0.0.0", "::", "[::]"):
        done = shim("--link=off", "--", "sh", "-c", "exit 3", env={**NODE_0, "MASTER_ADDR": wildcard, "MASTER_PORT": "29500"})
        assert done.code == 3, done.transcript()
