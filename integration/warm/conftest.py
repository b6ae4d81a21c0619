"""A prepared process beside one that is started plainly.

Start.prepared() stands in for rankshim: it speaks rankshim's side of the gate (shim/launchers/torchrun/python/gate.py), with
the files that the binary under test writes.
"""

import contextlib
import json
import os
import re
import socket
import sys
import tempfile
import textwrap
import time

import pytest

from lib.events import PATIENCE, until
from lib.process import Process, clean_environment, run
from lib.pythons import pythons


class Prepared(Process):
    """A process with rankshim's end of its gate's socket."""

    def __init__(self, argv, env, names, cwd):
        self.end, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.end.settimeout(PATIENCE)
        with theirs:
            gate = {"RANKSHIM_GATE": f"{theirs.fileno()} {names}".strip()}
            super().__init__(argv, env | gate, name="prepared", cwd=cwd, pass_fds=[theirs.fileno()])

    def hear(self):
        """The next message; empty where the process has closed its end."""
        return self.end.recv(300).decode()

    def is_ready(self):
        return [self.hear(), self.hear()] == ["h", "r"]

    def go(self):
        """Its exit code after go."""
        self.end.send(b"g")
        assert self.hear() == ""
        return self.wait()

    def __exit__(self, *how):
        self.end.close()
        return super().__exit__(*how)


class Start:
    """How rankshim starts a worker of two: plainly, or prepared."""

    def __init__(self, modules, folder):
        self.folder = folder
        self.site = folder / "rankshim-site"
        self.site.mkdir()
        self.error_file = folder / "error.json"
        self.environment = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "OMP_NUM_THREADS": "1"}
        for name, text in modules.items():
            (self.site / name).write_text(text)
        with open(self.site / "sitecustomize.py", "a") as file:
            file.write(f"serve(False, None, '', True, {os.getpid()})\n")

    def write(self, **files):
        """Files of the script's folder, by their names, "__" for "/" and without ".py"."""
        for name, text in files.items():
            path = self.folder / (re.sub("(?<=[a-z])__(?=.)", "/", name, count=1) + ".py")
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)

    def _environment(self, rank, env):
        self.error_file.unlink(missing_ok=True)
        worker = {"RANK": str(rank), "LOCAL_RANK": str(rank), "TORCHELASTIC_ERROR_FILE": str(self.error_file)}
        path = {"PYTHONPATH": str(self.site) + (env or {}).get("PYTHONPATH", "")}
        return clean_environment(self.environment | worker | (env or {}) | path)

    def plain(self, *argv, rank=0, env=None, python=sys.executable):
        return Process([python, *argv], self._environment(rank, env), name="plain", cwd=self.folder)

    def prepared(self, *argv, rank=0, env=None, python=sys.executable, names="auto"):
        return Prepared([python, *argv], self._environment(rank, env), names, self.folder)

    def both(self, *argv, env=None, python=sys.executable, names="auto"):
        """The code and the output of both, as [(code, stdout, stderr), …]."""
        ended = []
        with self.plain(*argv, env=env, python=python) as plain:
            ended.append((plain.wait(), plain.stdout, plain.stderr))
        with self.prepared(*argv, env=env, python=python, names=names) as prepared:
            assert prepared.is_ready(), prepared.transcript()
            ended.append((prepared.go(), prepared.stdout, prepared.stderr))
        return ended


@pytest.fixture(scope="session")
def modules(rankshim):
    """The files that rankshim writes for Python, without the call at the end."""
    text = {}
    for name in ("sitecustomize.py", "gate.py", "rankshim_store.py", "rankshim_numbers.py"):
        env = {"NNODES": "2", "NODE_RANK": "0", "MASTER_ADDR": "node-0"}
        done = run([rankshim, "--wait=none", "--", "sh", "-c", "cat ${PYTHONPATH%%:*}/" + name], clean_environment(env))
        assert done.code == 0, done.transcript()
        text[name] = done.stdout
    site = text["sitecustomize.py"]
    return text | {"sitecustomize.py": site[: site.rindex("serve(")]}


@pytest.fixture
def start(modules, tmp_path):
    return Start(modules, tmp_path)


@pytest.fixture(params=sorted(pythons()))
def python(request):
    return pythons()[request.param]


# ---- two nodes ----

SCRIPT = """\
    import json
    import os
    import sys
    names = sorted(name for name in os.environ if name.startswith("RANKSHIM"))
    os.write(1, f"RAN {os.environ['RANK']} {os.getpid()} {os.getppid()} {sys.argv[1:]} {names}\\n".encode())
    """


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(textwrap.dedent(SCRIPT))
    return path


@pytest.fixture
def node(rankshim, tmp_path):
    """node(RANK, COMMAND, OPTION...): one of two nodes, all on this machine."""

    with contextlib.ExitStack() as stack:

        def start(rank, command, *options, launcher="native", nproc=1, folder=tmp_path, before=(), **variables):
            """`folder`: of this job, and its working directory. `before`: a command that starts rankshim."""
            run_dir = stack.enter_context(tempfile.TemporaryDirectory(prefix="warm-"))  # a socket's name must be short
            process = stack.enter_context(Process(
                [*before, rankshim, "--nnodes=2", f"--node-rank={rank}", f"--nproc-per-node={nproc}", "--master-addr=127.0.0.1",
                 f"--launcher={launcher}", f"--run-id={folder}", f"--run-dir={run_dir}",
                 f"--report={folder}/report-{rank}.json", *options, "--", *command], clean_environment(variables), cwd=folder))
            process.status = lambda: ask(rankshim, run_dir)
            process.report = lambda: json.loads((folder / f"report-{rank}.json").read_text())
            return process

        yield start


def ask(rankshim, folder):
    asked = Process([rankshim, "status", f"--run-dir={folder}"], clean_environment())
    return json.loads(asked.stdout) if asked.wait(30) == 0 else {}


def is_ready(process, attempt=0):
    """Until all that is prepared is ready."""
    def look():
        time.sleep(0.1)  # each question is a line of this test's log
        prepared = process.status().get("prepared", {})
        return prepared.get("attempt") == attempt and prepared["ready"] == prepared["processes"] and prepared
    return until(look, "a prepared process")


def ran(process):
    return [line.split() for line in process.stdout.splitlines() if line.startswith("RAN")]
