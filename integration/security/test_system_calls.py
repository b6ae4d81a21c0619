"""install/system-calls.txt names the system calls that rankshim makes, for the author of a seccomp profile: what strace sees of the main
scenarios must be among them."""

import json
import os
import pathlib
import re
import shutil
import socket
import sys

import pytest

from lib.process import clean_environment, run
from lib.requirements import cannot
from lib.torch_stand_in import make_torch_stand_in

pytestmark = pytest.mark.attack

LIST = pathlib.Path(__file__).parents[2] / "install" / "system-calls.txt"
# torch.distributed.run as far as rankshim sees of it.
LAUNCHER = """
import os, subprocess, sys, tempfile
logs = next(word.partition("=")[2] for word in sys.argv if word.startswith("--log_dir="))
folder = tempfile.mkdtemp(dir=logs) + "/attempt_0"
os.mkdir(folder)
worker = subprocess.Popen(["sh", "-c", os.environ["ORPHAN"] + "exit 3"],
                          env={**os.environ, "LOCAL_RANK": "0", "TORCHELASTIC_ERROR_FILE": folder + "/0/error.json"})
worker.wait()
sys.exit(1)
"""

# For shells: an orphan that ends, and is gone; a process that can be signalled is not reaped yet.
ORPHAN = "orphan=$(sh -c 'kill $$' >/dev/null & echo $!); while kill -0 $orphan 2>/dev/null; do sleep 0.01; done; "
# For shells: waits until the last child that was started in the background is sleep(1).
UNTIL_ASLEEP = "until grep -q sleep /proc/$!/comm; do :; done; "


def documented():
    """The names in the list, without its comments."""
    return set(re.sub(r"^#.*", "", LIST.read_text(), flags=re.M).split())


def calls(trace):
    """The calls of rankshim itself, and of its own children until they have executed something."""
    lines = [line.split(maxsplit=1) for line in trace.read_text().splitlines()]
    shim = lines[0][0]
    makes = re.compile(r"(?:<\.\.\. )?(?:vfork|fork|clone3?)\b.* = (\d+)$")
    ours = {shim} | {made.group(1) for pid, rest in lines if pid == shim and (made := makes.match(rest))}
    found, executed = set(), set()
    for pid, rest in lines:
        name = re.match(r"(?:<\.\.\. )?(\w+)", rest)
        if name is None or rest.startswith(("+++", "---")) or pid not in ours or pid in executed:
            continue
        found.add(name.group(1))
        if pid != shim and "execve" in rest and rest.endswith("= 0"):
            executed.add(pid)
    return found


@pytest.fixture(scope="module")
def scenarios(tmp_path_factory):
    """Arguments and environments of rankshim that between them go every way once."""
    folder = tmp_path_factory.mktemp("security")
    make_torch_stand_in(folder, LAUNCHER)
    (folder / "train.py").touch()
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    reports = [f"--report={folder}/report.json", f"--termination-log={folder}/log", f"--run-dir={folder}"]
    (folder / "log").touch()
    (folder / "config.toml").write_text('log-level = "debug"\n')
    job = ["--nnodes=2", "--node-rank=1", f"--master-port={port}"]
    python = {"PYTHONPATH": str(folder), "ORPHAN": ORPHAN}
    return [
        (["--", "true"], {}),
        ([*reports, f"--config={folder}/config.toml", "--pre-start=true", "--post-stop=true", "--", "sh", "-c",
          f"{ORPHAN}setsid sleep 1000 & {UNTIL_ASLEEP}exit 3"], {}),
        (["--leftover-grace=100ms", "--", "sh", "-c", f"(trap '' TERM; exec setsid sleep 1000) & {UNTIL_ASLEEP}"], {}),
        (["--grace=100ms", "--parent-death-signal=TERM", "--", "sh", "-c",
          "trap '' TERM; kill -USR1 $PPID; kill -TERM $PPID; while :; do sleep 0.05; done"], {}),
        ([*reports, f"--python={sys.executable}", "--", str(folder / "train.py")], python),
        ([*job, "--master-addr=127.0.0.1", "--wait-timeout=1s", "--", "true"], {}),
        ([*job, "--master-addr=no-such-master.invalid", "--wait-timeout=1s", "--", "true"], {}),
        (["--report=/dev/stdout", "--termination-log=/dev/fd/2", "--", "false"], {}),
        (["doctor", "--", "train.py"], {}),
        (["explain", "--", "train.py"], {}),
        (["env"], {}),
        (["platforms"], {}),
        (["status", f"--run-dir={folder}"], {}),
        (["install", str(folder / "bin")], {}),
    ]


def test_every_system_call_is_documented(rankshim, scenarios, tmp_path):
    if shutil.which("strace") is None:
        cannot("strace is missing")
    seen = {}
    for number, (arguments, environment) in enumerate(scenarios):
        trace = tmp_path / f"trace-{number}"
        run(["strace", "-f", "-qq", "-o", str(trace), rankshim, *arguments], clean_environment(environment))
        for name in calls(trace):
            seen.setdefault(name, []).append(arguments)
    if "SECCOMP_LIST" in os.environ:  # to write the document
        pathlib.Path(os.environ["SECCOMP_LIST"]).write_text(json.dumps(sorted(seen)))
    assert {name: where[0] for name, where in seen.items() if name not in documented()} == {}
