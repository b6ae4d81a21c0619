"""Processes that not even SIGKILL ends."""

import json
import os
import signal
import subprocess

import pytest

from lib.events import until
from lib.process import descendants
from supervise.conftest import ended, name, status


class Frozen:
    """A frozen file system: a process that writes to it waits in the kernel, and no signal ends it."""

    def __init__(self, image, folder):
        self.folder = folder
        for command in (["mkfs.ext4", "-q", image], ["mount", "-o", "loop", image, folder], ["fsfreeze", "--freeze", folder]):
            if subprocess.run(command, capture_output=True).returncode != 0:
                subprocess.run(["umount", folder], capture_output=True)
                pytest.skip(f"{command[0]} is not possible here: no loop devices?")

    def thaw(self):
        subprocess.run(["fsfreeze", "--unfreeze", self.folder], capture_output=True)

    def end(self):
        self.thaw()
        until(lambda: subprocess.run(["umount", self.folder], capture_output=True).returncode == 0, "it is not in use")


@pytest.fixture
def frozen(tmp_path):
    folder = tmp_path / "frozen"
    folder.mkdir()
    with (tmp_path / "image").open("wb") as file:
        file.truncate(16 << 20)
    system = Frozen(tmp_path / "image", folder)
    yield system
    system.end()


def waits_for_the_frozen(process):
    """Whether dd has opened what it reads, after which it opens what it writes, and waits in the kernel."""
    return any(name(pid) == "dd" and os.readlink(f"/proc/{pid}/fd/0") == "/dev/zero" and status(pid, "State").startswith("D")
               for pid in descendants(process.pid))


def test_a_command_that_not_even_kill_ends_is_named_with_where_it_waits_and_left(start, frozen, tmp_path, request):
    report = tmp_path / "report.json"
    process = start("dd", "if=/dev/zero", f"of={frozen.folder}/file", "count=1",
                    options=["--grace=0", f"--report={report}"])
    until(lambda: waits_for_the_frozen(process), "the writer waits")
    process.send(signal.SIGTERM)
    process.wait_line("dd did not end even on SIGKILL, after ")
    until(report.exists, "the report")
    written = json.loads(report.read_text())
    assert written["outcome"] == "stopped" and written["exit_code"] == 137
    assert "(dd, " in written["left_behind"] and written["left_behind"] in written["verdict"]
    if request.node.callspec.params["start"] == "subreaper":  # the kernel lets a PID namespace end only with its last process
        until(lambda: ended(process.pid), "rankshim's end")
    frozen.thaw()
    assert process.wait() == 137
