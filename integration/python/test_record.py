"""The exception that ends a worker is written to the file that torch's @record would write, and nothing else changes."""

import json
import shutil
import sys

import pytest

from lib.process import clean_environment, run
from lib.requirements import cannot

PLAIN = "def fail():\n    raise ValueError('boom')\nfail()\n"
CHAINED = "try:\n    1 / 0\nexcept ZeroDivisionError as error:\n    raise RuntimeError('no batch') from error\n"
OTHER_HOOK = "import sys\nsys.excepthook = lambda *error: print('their hook', file=sys.stderr)\nraise ValueError('boom')\n"
THREAD = "import threading\nthread = threading.Thread(target=lambda: 1 / 0)\nthread.start()\nthread.join()\n"
FORKED = """import os, sys
if os.fork() == 0:
    raise ValueError('of the fork')
os.wait()
"""
PROCESS = """
import multiprocessing, sys
def work():
    raise ValueError('boom')
child = multiprocessing.get_context('fork').Process(target=work)
child.start()
child.join()
%s
"""
CAUGHT = "import sys\ntry:\n    sys.exit('no data')\nexcept SystemExit:\n    pass\nsys.exit(3)\n"
SURROGATE = "raise ValueError('\\ud83d \\U0001f680')\n"
UNPRINTABLE = "class Odd(Exception):\n    def __str__(self):\n        raise KeyError\nraise Odd\n"

# A script, its exit code (None: by a signal) and its message.
CASES = {
    "an exception": (PLAIN, 1, "ValueError: boom"),
    "a chain": (CHAINED, 1, "RuntimeError: no batch"),
    "a syntax error": ("def broken(:\n", 1, "SyntaxError: invalid syntax (script.py, line 1)"),
    "a text of sys.exit": ("import sys\nsys.exit('no data in /x')\n", 1, "no data in /x"),
    "a text of its import": ("from sys import exit\nexit('no data in /x')\n", 1, "no data in /x"),
    "a text of the builtin": ("exit('no data in /x')\n", 1, "no data in /x"),
    "a process": (PROCESS % "sys.exit(child.exitcode)", 1, "in ForkProcess-1: ValueError: boom"),
    "a process that is got over": (PROCESS % "print('well')", 0, "in ForkProcess-1: ValueError: boom"),
    "an exception after a process": (PROCESS % "raise RuntimeError('lost a process')", 1, "RuntimeError: lost a process"),
    "a number": ("import sys\nsys.exit(3)\n", 3, "sys.exit(3) at SCRIPT, line 2"),
    "a number in a function": ("import sys\ndef end(code):\n    sys.exit(code)\n[end(code) for code in (3,)]\n", 3,
                               "sys.exit(3) at SCRIPT, line 3"),
    "a caught text": (CAUGHT, 3, "sys.exit(3) at SCRIPT, line 6"),
    "zero": ("import sys\nsys.exit(0)\n", 0, None),
    "no text": ("import sys\nsys.exit()\n", 0, None),
    "the end": ("print('done')\n", 0, None),
    "an interrupt": ("raise KeyboardInterrupt\n", 130, None),
    "another hook": (OTHER_HOOK, 1, "ValueError: boom"),
    "a thread": (THREAD, 0, None),
    "a fork": (FORKED, 0, None),
    "an emoji and half of one": (SURROGATE, 1, "ValueError: \ud83d \U0001f680"),
    "an exception without words": (UNPRINTABLE, 1, "Odd: <unprintable>"),
}


@pytest.mark.parametrize("name", CASES)
def test_a_worker_ends_as_without_rankshim_and_records_why(site, name):
    text, code, message = CASES[name]
    done = site().worker(text)
    assert done.code == code, done.transcript()
    assert (done.error and done.error["message"]) == (message and message.replace("SCRIPT", str(done.argv[-1])))
    bare = run(done.argv, clean_environment(), name="bare")
    assert (done.code, done.stdout, done.stderr) == (bare.code, bare.stdout, bare.stderr)


def test_a_sys_exit_that_no_python_code_calls_is_the_scripts_alone(site):
    """Python prints the exception of an atexit callback: ours would be one more."""
    done = site().worker("import atexit, sys\natexit.register(sys.exit, 3)\n")
    assert done.stderr.count("SystemExit: 3\n") == 1 and "sitecustomize" not in done.stderr, done.stderr
    assert done.error is None


# What only CPython lets us see.
OF_CPYTHON = {name for name, (_, _, message) in CASES.items()
              if name.startswith(("a text of", "a process")) or (message or "").startswith("sys.exit(")}


@pytest.mark.parametrize("name", [name for name in CASES if name != "a syntax error"])  # whose words are CPython's
def test_under_pypy_a_worker_ends_as_without_rankshim_and_records_what_the_language_promises(site, name):
    python = shutil.which("pypy3") or cannot("missing: pypy3 (scripts/setup installs it)")
    text, code, message = CASES[name]
    done = site().worker(text, python=python)
    bare = run(done.argv, clean_environment(), name="bare")
    assert (done.code, done.stdout, done.stderr) == (bare.code, bare.stdout, bare.stderr)
    assert done.code == code, done.transcript()
    assert (done.error and done.error["message"]) == (None if name in OF_CPYTHON else message)


@pytest.mark.torch
def test_the_file_is_the_one_that_torchs_record_writes(site, torch):
    text = "{}def main():\n    raise ValueError('boom')\n{}\n"
    subject = site()
    ours = subject.worker(text.format("", "main()")).error
    subject.error_file.unlink()
    handler = "from torch.distributed.elastic.multiprocessing.errors import record\n"
    theirs = subject.worker(text.format(handler, "record(main)()")).error
    assert set(ours) == set(theirs) and set(ours["extraInfo"]) == set(theirs["extraInfo"])
    assert ours["message"] == theirs["message"]
    for error in (ours, theirs):
        assert error["extraInfo"]["py_callstack"].startswith("Traceback (most recent call last):\n")
        assert error["extraInfo"]["py_callstack"].endswith("raise ValueError('boom')\nValueError: boom\n")
        assert int(error["extraInfo"]["timestamp"]) > 1e9


def test_an_error_file_that_is_there_stays(site, tmp_path):
    (tmp_path / "error.json").write_text(json.dumps({"message": "first"}))
    assert site().worker(PLAIN).error == "first"


def test_without_a_folder_to_write_to_nothing_is_printed(site):
    subject = site()
    subject.error_file = subject.folder / "missing" / "error.json"
    done = subject.worker(PLAIN)
    assert done.code == 1 and done.stderr.count("\n") == 6 and "sitecustomize" not in done.stderr, done.transcript()


@pytest.mark.parametrize("options", [["-I"], ["-S"], ["-E"]])
def test_an_isolated_python_is_left_alone(site, options):
    assert site().worker(PLAIN, *options).error is None


def test_a_process_that_is_no_worker_is_not_recorded(site, tmp_path):
    subject = site()
    (tmp_path / "script.py").write_text(PLAIN)
    environment = {"TORCHELASTIC_ERROR_FILE": str(subject.error_file)}
    assert subject.run([sys.executable, tmp_path / "script.py"], env=environment).code == 1
    assert not subject.error_file.exists()


def test_records_can_be_switched_off(site):
    assert site(records=False).worker(PLAIN).error is None


def test_a_hook_that_was_there_before_still_runs_after_us(site, tmp_path):
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "sitecustomize.py").write_text(
        "import os, sys\nsys.excepthook = lambda *error: "
        "print('their hook', os.path.exists(os.environ['TORCHELASTIC_ERROR_FILE']))\n")
    done = site(had_path=True).worker(PLAIN, path=f":{tmp_path}/own")
    assert (done.stdout, done.error["message"]) == ("their hook True\n", "ValueError: boom")


@pytest.mark.torch
def test_a_child_of_a_worker_knows_nothing_of_us_and_its_exception_comes_with_the_workers(site, torch):
    text = """import os, subprocess, sys
import torch.multiprocessing
def child(rank):
    assert not [name for name in os.environ if name.startswith("PYTHONPATH")], os.environ
    raise ValueError("of the child")
if __name__ == "__main__":
    subprocess.run([sys.executable, "-c", "1 / 0"])
    assert not os.path.exists(os.environ["TORCHELASTIC_ERROR_FILE"])
    torch.multiprocessing.spawn(child)
"""
    done = site().worker(text)
    assert done.code == 1, done.transcript()
    assert done.error["message"].startswith("ProcessRaisedException") and "ValueError: of the child" in done.error["message"]


@pytest.mark.parametrize("command, message", [
    (["python", "SCRIPT"], "ValueError: boom"),
    (["sh", "-c", "exec python SCRIPT"], None),  # no Python by its name: only where the job has several nodes
    (["--launcher=none", "--", "SCRIPT"], "ValueError: boom"),
    (["--no-record", "--", "python", "SCRIPT"], None),
    (["--nnodes=2", "--node-rank=0", "--master-addr=node-0", "--wait=none", "--", "sh", "-c", "exec python SCRIPT"], "ValueError: boom"),
    (["python", "-c", "import subprocess, sys; sys.exit(subprocess.run([sys.executable, 'SCRIPT']).returncode)"], None),
], ids=["python", "a shell", "none", "no record", "a shell of two nodes", "its child"])
def test_the_exception_of_a_python_that_is_the_command_is_in_the_verdict(rankshim, tmp_path, command, message):
    script = tmp_path / "train.py"
    script.write_text(PLAIN)
    words = [word.replace("SCRIPT", str(script)) for word in command]
    done = run([rankshim, f"--report={tmp_path}/report.json", *words], clean_environment(), name="rankshim")
    assert done.code == 1, done.transcript()
    cause = json.loads((tmp_path / "report.json").read_text())["root_cause"]
    assert cause.get("exception") == message
    assert (": ValueError: boom" in done.stderr.splitlines()[-1]) == (message is not None)
    if message:
        assert cause["traceback"][-1] == message


def test_what_a_recorded_command_starts_knows_nothing_of_us(rankshim):
    command = ["python", "-c", "import subprocess, sys; subprocess.run(['env']); print(sys.path)"]
    done = run([rankshim, "--", *command], clean_environment(), name="rankshim")
    assert done.code == 0 and "PYTHONPATH" not in done.stdout, done.transcript()
    assert done.stdout.splitlines()[-1] == run(command, clean_environment(), name="bare").stdout.splitlines()[-1]
