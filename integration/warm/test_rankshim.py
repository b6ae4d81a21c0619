"""What rankshim itself prepares, while it waits for the other node, is what it would start plainly."""

import json
import os
import pathlib
import re
import signal
import sys

import pytest

from lib.events import PATIENCE, until
from lib.process import Process, clean_environment, descendants, last_line

PROPERTIES = pathlib.Path(__file__).with_name("properties.py").read_text()
WORK = pathlib.Path(__file__).with_name("work.py").read_text()
OWN_FOLDER = re.compile(r"rankshim-job-master-0-\w{6}")


@pytest.fixture
def job(pods, rankshim, shim, tmp_path):
    """job(WARM, OPTION…) runs train.py on two nodes; the second comes when the first has prepared its workers."""

    def start(rank, *options, before=(), **env):
        (tmp_path / f"run{rank}").mkdir(exist_ok=True)
        env = {"NNODES": "2", "NODE_RANK": str(rank), "MASTER_ADDR": "job-master-0", "TELL_FILE": str(tmp_path / "told"), **env}
        argv = [*before, rankshim, "--launcher=native", f"--run-dir={tmp_path}/run{rank}", *options]
        return pods[rank].start(argv, env, cwd=tmp_path)

    def prepared():
        status = shim("status", f"--run-dir={tmp_path}/run0", timeout=PATIENCE)
        return json.loads(status.stdout).get("prepared") if status.code == 0 else None

    def is_ready(node):
        return (prepared() or {}).get("ready") == 1

    def run(warm, *options, until_true=is_ready, then=lambda node: None, **env):
        options = [f"--warm={warm}", "--nproc-per-node=1", *options]
        nodes = [start(0, *options, **env)]
        if warm != "off":
            until(lambda: until_true(nodes[0]), "node 0 has come so far")
            then(nodes[0])
        nodes.append(start(1, *options, **env))
        return nodes

    run.start, run.prepared = start, prepared
    return run


def test_a_prepared_worker_is_the_one_that_would_be_started(job, tmp_path):
    first, rest = PROPERTIES.split("\n", 1)
    only_on_node_0 = rest.replace('== "__main__":', '== "__main__" and os.environ["NODE_RANK"] == "0":')
    (tmp_path / "train.py").write_text(f"{first}\nimport asyncio, json, multiprocessing\n{only_on_node_0}")
    told = {}
    for warm in ("off", "auto"):
        (tmp_path / "told").unlink(missing_ok=True)
        nodes = job(warm, "--", "train.py", "a")
        assert [node.wait() for node in nodes] == [0, 0], nodes[0].transcript()
        told[warm], _ = json.loads(OWN_FOLDER.sub("OWN", (tmp_path / "told").read_text()))
    plain, prepared = told.values()
    assert {name: (plain[name], prepared[name]) for name in plain if plain[name] != prepared[name]} == {}


@pytest.mark.torch
@pytest.mark.nightly  # test_attempts.py has a restart from prepared workers
def test_workers_that_were_prepared_train_and_end_as_they_would(job, torch, tmp_path):
    (tmp_path / "train.py").write_text(WORK)
    ends = []
    for warm in ("off", "auto"):
        nodes = job(warm, "--", "train.py", "ddp", "pickle", "fork", "program", "0")
        ends.append([(node.wait(PATIENCE * 2), node.stdout) for node in nodes])
    plain, prepared = ends
    assert plain == prepared
    assert [code for code, _ in plain] == [0, 0] and "ddp 32.0" in plain[0][1]


@pytest.fixture
def noted(job, tmp_path):
    """noted(…) is job(…) with a fake torch, which notes which process imports it. Returns that of node 0 before node 1 comes,
    the worker there, and node 0."""
    (tmp_path / "packages").mkdir()
    (tmp_path / "packages" / "torch.py").write_text("import os\nopen('imported.' + os.environ['NODE_RANK'], 'w').write(str(os.getpid()))\n")
    (tmp_path / "train.py").write_text("import os, torch\nprint('worker', os.getpid(), flush=True)\n")

    def run(warm="auto", *options, then=lambda node: None, **how):
        found = []

        def note(node):
            found.append((tmp_path / "imported.0").read_text() if (tmp_path / "imported.0").exists() else None)
            then(node)

        nodes = job(warm, *options, "--", "train.py", then=note, PYTHONPATH=f"{tmp_path}/packages", **how)
        codes = [node.wait() for node in nodes]
        assert codes == [0, 0], nodes[0].transcript()
        assert [node.stdout.count("worker") for node in nodes] == [1, 1]
        return found[0], re.search(r"worker (\d+)", nodes[0].stdout)[1], nodes[0]

    run.prepared = job.prepared
    return run


def test_the_worker_is_the_process_that_has_imported(noted):
    early, worker, node = noted()
    assert early == worker and "prepared" not in node.stderr


def prepared_process(node):
    """The process under the node's rankshim that is prepared, or None."""
    return next((pid for pid, line in node.tree().items() if line.endswith("train.py") and pid != node.init), None)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP, signal.SIGINT])
def test_a_prepared_process_that_got_a_signal_is_replaced(noted, number):
    early, worker, node = noted(then=lambda node: os.kill(prepared_process(node), number))
    assert early not in (None, worker)
    assert "a prepared process is not used: " in node.stderr


def test_a_script_that_is_edited_while_it_waits_is_the_new_one(noted, tmp_path):
    edit = lambda _: (tmp_path / "train.py").write_text("import os\nprint('new worker', os.getpid())\n")
    early, worker, node = noted(then=edit)
    assert early == worker and "new worker" in node.stdout


def test_a_module_that_cannot_be_imported_is_told_and_the_worker_starts_without_it(noted):
    def has_ended(node):
        return (noted.prepared() or {}).get("processes") == 1 and prepared_process(node) is None

    early, worker, node = noted("auto,no_such_module", until_true=has_ended)
    assert early not in (None, worker)
    assert "a prepared process is not used: ModuleNotFoundError: No module named 'no_such_module'" in node.stderr


@pytest.mark.parametrize("option", ["-I", "-E", "-S"])
def test_a_python_that_does_not_load_us_is_never_started_early(noted, tmp_path, option):
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} {option} "$@"\n')
    python.chmod(0o755)
    (tmp_path / "train.py").write_text("import os\nprint('worker', os.getpid(), flush=True)\n")
    told = "nothing is prepared: this Python does not import rankshim's startup module"
    noted("auto", f"--python={python}", until_true=lambda node: told in node.stderr)


def test_without_our_part_in_python_nothing_is_prepared(noted):
    told = "nothing is prepared: --no-record leaves out rankshim's startup module"
    early, _, _ = noted("auto", "--no-record", until_true=lambda node: told in node.stderr)
    assert early is None


GPU = """
mkdir -p {0}; mount -t tmpfs none {0}; cp -a /dev/null /dev/urandom {0}; touch {0}/nvidia0; mount --bind {0} /dev
exec "$@"
"""


def test_one_whose_imports_open_an_accelerator_is_not_used(noted, tmp_path):
    """Its memory there would be missing in the attempt that trains."""
    torch = tmp_path / "packages" / "torch.py"
    torch.write_text(torch.read_text() + "gpu = open('/dev/nvidia0')\n")
    before = ["sh", "-ec", GPU.format(tmp_path / "dev"), "sh"]
    early, worker, node = noted(until_true=lambda node: prepared_process(node) is None and (tmp_path / "imported.0").exists(), before=before)
    assert early not in (None, worker)
    assert "a prepared process is not used: an import has opened /dev/nvidia0" in node.stderr


def test_a_stop_while_a_worker_is_prepared_is_the_end_at_once(job, tmp_path):
    (tmp_path / "train.py").write_text("import json\nprint('ran')\n")
    node = job.start(0, "--warm=auto", "--", "train.py")
    until(lambda: (job.prepared() or {}).get("ready"), "a worker is prepared")
    pid = prepared_process(node)
    node.signal(signal.SIGTERM)
    assert node.wait() == 143 and "ran" not in node.stdout, node.transcript()
    assert "SIGTERM while waiting for the other nodes; nothing was started" in last_line(node) and not os.path.exists(f"/proc/{pid}")


RESTARTED = """import os, time
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
dist.all_reduce(torch.ones(1))
attempt = int(os.environ["RANKSHIM_ATTEMPT"])
os.write(1, f"attempt {attempt} worker {os.getpid()}\\n".encode())
while not os.path.exists(f"end.{attempt}"):
    time.sleep(0.01)
os._exit(3 if attempt < 3 else 0)
"""


@pytest.mark.nightly
@pytest.mark.torch
def test_restarts_go_on_with_the_workers_that_were_prepared_meanwhile(rankshim, shim, torch, tmp_path):
    (tmp_path / "train.py").write_text(RESTARTED)
    argv = [rankshim, "--launcher=native", "--nproc-per-node=2", "--job-restarts=3", "--restart-pause=0", "--warm=auto", f"--run-dir={tmp_path}"]
    with Process([*argv, "--", "train.py"], clean_environment(), cwd=tmp_path) as process:
        for attempt in range(4):
            process.wait_line(f"attempt {attempt} worker")
            if attempt < 3:

                def prepared():
                    status = json.loads(shim("status", f"--run-dir={tmp_path}").stdout).get("prepared", {})
                    return status.get("ready") == 2 and status["attempt"] == attempt + 1

                until(prepared, "the next attempt is prepared", PATIENCE * 2)
                early = set(descendants(process.pid))
            (tmp_path / f"end.{attempt}").touch()
        assert process.wait() == 0
        last = {int(pid) for pid in re.findall(r"attempt 3 worker (\d+)", process.stdout)}
        assert len(last) == 2 and last <= early and "not used" not in process.stderr
