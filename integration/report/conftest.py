"""What the tests of the report, the status and the hooks share."""

import json

import pytest

from lib.events import until
from lib.process import Process, clean_environment

# The master of a job of two, which waits for no other node.
JOB = {"NNODES": "2", "NODE_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29511", "RANKSHIM_WAIT": "none"}


@pytest.fixture
def start(rankshim):
    """Starts rankshim with arguments; ended with the test."""
    started = []

    def begin(*arguments, env=None):
        process = Process([rankshim, *arguments], clean_environment(env), name="rankshim")
        started.append(process)
        return process

    yield begin
    for process in started:
        process.kill()


def read_report(path):
    """What --report wrote to this file."""
    return json.loads(path.read_text())


class Reporting:
    """rankshim as `process`, with its report and its termination log in `folder`, and TMPDIR there in tmp."""

    def end(self, limit):
        """Waits for the end; returns itself with the results."""
        self.code = self.process.wait(limit)
        self.report = read_report(self.folder / "report.json")
        log = self.folder / "log"
        self.log = log.read_text() if log.exists() else ""
        self.last_line = self.process.stderr.splitlines()[-1]
        self.cause = self.report["root_cause"]
        assert list((self.folder / "tmp").iterdir()) == []
        return self


def wait_channel(pid):
    """Where in the kernel it waits."""
    with open(f"/proc/{pid}/wchan") as file:
        return file.read()


def status(shim, folder, *options):
    """The exit code of `rankshim status`, and its answer."""
    asked = shim("status", f"--run-dir={folder}", *options)
    return asked.code, json.loads(asked.stdout or "{}")


def answers(shim, folder):
    """Until an instance answers."""
    return until(lambda: status(shim, folder)[1], "an answer to rankshim status")
