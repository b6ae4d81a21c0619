"""What torchrun does without rankshim, as docs/how-it-works.md describes it: the control for the other tests of this folder."""

import os
import pathlib
import signal
import sys

import pytest

from lib.events import until
from lib.process import Process, clean_environment

# What they find changes with torch only.
pytestmark = [pytest.mark.torch, pytest.mark.nightly, pytest.mark.usefixtures("torch")]

TORCHRUN = str(pathlib.Path(sys.executable).with_name("torchrun"))
PORT = 23456
LONG = 120  # for torchrun on a busy machine


@pytest.fixture
def script(tmp_path):
    """Writes the worker's script: its path."""

    def write(text):
        path = tmp_path / "train.py"
        path.write_text(text)
        return str(path)

    return write


def test_as_pid_1_it_ignores_a_term_while_it_waits_for_the_others_and_logs_nothing(network, script):
    flags = ["--nnodes=2", "--node_rank=0", "--master_addr=127.0.0.1", f"--master_port={PORT}", "--rdzv_conf=timeout=6"]
    process = network.node("alone").start([TORCHRUN, *flags, script("")], {})
    until(lambda: process.listens(PORT), "torchrun waits for its peer", LONG)
    assert process.lines == []
    process.signal(signal.SIGTERM)
    # Its own timeout ends it.
    assert process.wait(LONG) == 1
    assert "timed out after 6000ms" in process.stderr


def test_its_timeout_is_15_minutes_by_default():
    from torch.distributed.launcher.api import LaunchConfig

    assert LaunchConfig(min_nodes=2, max_nodes=2, nproc_per_node=1).rdzv_configs["timeout"] == 15 * 60


def test_its_exit_code_is_1_whatever_the_workers_was_and_it_knows_no_exception(script):
    with Process([TORCHRUN, "--standalone", script("raise SystemExit(42)")], clean_environment()) as process:
        assert process.wait(LONG) == 1
        assert "To enable traceback see" in process.stderr


def test_usr1_ends_it_and_orphans_its_worker(script):
    worker = script("import os, time\nprint('worker', os.getpid(), flush=True)\ntime.sleep(1000)\n")
    with Process([TORCHRUN, "--standalone", worker], clean_environment()) as process:
        pid = int(process.wait_line(r"^worker \d+$", LONG).text.split()[1])
        process.signal(signal.SIGUSR1)
        try:
            process.popen.wait(LONG)
            assert process.popen.returncode == -signal.SIGUSR1
            os.kill(pid, 0)  # it is still there
        finally:
            os.kill(pid, signal.SIGKILL)
