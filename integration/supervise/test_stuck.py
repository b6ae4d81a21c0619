"""Processes that not even SIGKILL ends."""

import json
import os
import signal
import subprocess
import sys

import pytest

from lib.events import until
from lib.process import descendants
from lib.torch_stand_in import make_torch_stand_in
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
    process.wait_line("dd survived SIGKILL, after ")
    until(report.exists, "the report")
    written = json.loads(report.read_text())
    assert written["outcome"] == "stopped" and written["exit_code"] == 137
    assert "(dd, " in written["left_behind"] and written["left_behind"] in written["verdict"]
    if request.node.callspec.params["start"] == "subreaper":  # the kernel lets a PID namespace end only with its last process
        until(lambda: ended(process.pid), "rankshim's end")
    frozen.thaw()
    assert process.wait() == 137


# torchrun with two workers, as far as it matters here: when one has failed, it asks the other to stop, kills it when its time
# is over, and waits for its end without a limit (torch/distributed/elastic/multiprocessing/api.py, close).
KILLS = """
import glob, os, pathlib, subprocess, sys, tempfile, time
logs = next(word.partition("=")[2] for word in sys.argv if word.startswith("--log_dir="))
attempt = tempfile.mkdtemp(prefix="run_", dir=logs) + "/attempt_0"
workers = []
for rank, then in enumerate(["exit 7", "exec dd if=/dev/zero of=$FILE count=1"]):
    pathlib.Path(attempt, str(rank)).mkdir(parents=True)
    workers.append(subprocess.Popen(["sh", "-c", "read go; " + then], stdin=subprocess.PIPE, start_new_session=True, env={
        **os.environ, "LOCAL_RANK": str(rank), "TORCHELASTIC_ERROR_FILE": f"{attempt}/{rank}/error.json"}))

def followed(worker):
    for name in glob.glob("/proc/%d/fdinfo/*" % os.getppid()):
        try:
            if "Pid:\\t%d\\n" % worker.pid in open(name).read(): return True
        except FileNotFoundError:
            pass

while not all(map(followed, workers)): time.sleep(0.01)
workers[1].stdin.write(b"on\\n")
workers[1].stdin.flush()
open(os.environ["GO"]).read()
workers[0].stdin.write(b"on\\n")
workers[0].stdin.flush()
while workers[0].poll() is None: time.sleep(0.1)
workers[1].terminate()
workers[1].kill()
workers[1].wait()
sys.exit(1)
"""


def test_a_torchrun_that_waits_for_a_worker_that_not_even_kill_ends_is_ended_and_the_worker_named(start, frozen, tmp_path, request):
    make_torch_stand_in(tmp_path, KILLS)
    (tmp_path / "train.py").touch()
    go, report = tmp_path / "go", tmp_path / "report.json"
    os.mkfifo(go)
    process = start(str(tmp_path / "train.py"), options=["--python", sys.executable, "--nproc-per-node=2", f"--report={report}"],
                    env={"PYTHONPATH": str(tmp_path), "TORCH_ELASTIC_SHUTDOWN_TIMEOUT": "1", "GO": str(go),
                         "FILE": f"{frozen.folder}/file"})
    until(lambda: waits_for_the_frozen(process), "the writer waits")
    go.write_text("on\n")
    process.wait_line(r"not even SIGKILL has ended worker 1 \(.*pid \d+, state D, .*\), for which torchrun waits without a limit")
    until(report.exists, "the report")
    written = json.loads(report.read_text())
    assert written["exit_code"] == 7, written["verdict"]
    assert "(dd, " in written["left_behind"]
    if request.node.callspec.params["start"] == "subreaper":
        until(lambda: ended(process.pid), "rankshim's end")
    frozen.thaw()
    assert process.wait() == 7
