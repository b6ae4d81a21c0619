"""rankshim's startup module, as rankshim writes it, in the Python that runs the tests."""

import json
import sys

import pytest

from lib.process import clean_environment, run


class Site:
    """A folder with rankshim's sitecustomize in a separate folder, and Python processes that start with it."""

    def __init__(self, module, folder, had_path, job, records):
        self.folder = folder
        self.python = folder / "rankshim-site"
        self.python.mkdir(parents=True, exist_ok=True)
        (self.python / "sitecustomize.py").write_text(f"{module}serve({had_path}, {job!r}, '', {records})\n")
        self.error_file = folder / "error.json"

    def run(self, argv, *, path="", worker=False, env=None):
        """Runs `argv` with our folder in front of PYTHONPATH, as a worker of torchrun if that is wanted."""
        variables = {"PYTHONPATH": f"{self.python}{path}", **(env or {})}
        if worker:
            variables |= {"LOCAL_RANK": "0", "TORCHELASTIC_ERROR_FILE": str(self.error_file)}
        return run([str(word) for word in argv], clean_environment(variables), name="python")

    def worker(self, text, *options, python=sys.executable, **how):
        """Runs a script as a worker; the ended process, with its error file as `.error` (None: there is none)."""
        script = self.folder / "script.py"
        script.write_text(text)
        done = self.run([python, *options, script], worker=True, **how)
        done.error = json.loads(self.error_file.read_text())["message"] if self.error_file.exists() else None
        assert not [name for name in self.folder.iterdir() if name.name.startswith("error.json.")]
        return done


@pytest.fixture(scope="session")
def module(rankshim):
    """The module's text as rankshim writes it for a program, without the call at its end."""
    env = {"NNODES": "2", "NODE_RANK": "0", "MASTER_ADDR": "node-0"}
    done = run([rankshim, "--wait=none", "--", "sh", "-c", "cat ${PYTHONPATH%%:*}/sitecustomize.py"], clean_environment(env))
    assert done.code == 0, done.transcript()
    return done.stdout[:done.stdout.rindex("serve(")]


@pytest.fixture
def site(module, tmp_path):
    """site(had_path=…, job=…, records=…): a Site."""
    return lambda had_path=False, job=None, records=True: Site(module, tmp_path, had_path, job, records)
