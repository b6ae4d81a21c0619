"""No folder of rankshim is left after any end, unless rankshim itself is killed. A stand-in for torchrun has one worker;
that the real one's folders go too is seen in report/."""

import fcntl
import os
import signal
import sys
import time

import pytest

from lib.events import until

UP = 'print("up", flush=True); import time; time.sleep(1000)'
DEAF = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); " + UP
# It writes into its attempt's folder until it is killed.
WRITER = """
import os, subprocess, sys
folder = os.path.dirname(os.environ["TORCHELASTIC_ERROR_FILE"])
subprocess.Popen([sys.executable, "-c", '''
import itertools, os, signal, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for number in itertools.count():
    os.makedirs(f"{sys.argv[1]}/{number % 100}", exist_ok=True)
    if number == 100: print("up", flush=True)
''', folder], start_new_session=True)
"""
WAITS = ("--nnodes=2", "--node-rank=1", "--master-addr=no-such-master.invalid")
FAILS = "raise ValueError"

# What the worker does, rankshim's options, the exit code, and whether a TERM comes when a line has "up" in it.
ENDS = {
    "success": ("", (), 0),
    "a code": ("raise SystemExit(42)", (), 42),
    "an exception": (FAILS, (), 1),
    "a killed worker": ("import os; os.kill(os.getpid(), 9)", (), 137),
    "a killed launcher": ("import os; os.kill(os.getppid(), 9); " + UP, (), 137),
    "a stop": (UP, ("--signal-scope=tree",), 143, "up"),
    "a stop that needs a KILL": (DEAF, ("--grace=500ms",), 143, "up"),
    "a stop before the launch": ("", WAITS, 143, "waiting|not resolve"),
    "a master that never comes": ("", (*WAITS, "--wait-timeout=200ms"), 75),
    "refused settings": ("", ("--nnodes=2",), 78),
    "an interpreter that is missing": ("", ("--python=/no/such/python",), 127),
    "an interpreter that is none": ("", ("--python=/etc/passwd",), 126),
    "an option that is none": ("", ("--no-such-option",), 64),
    "a report that cannot be written": (FAILS, ("--report=/proc/nowhere/report",), 1),
    "a hook that fails before": ("", ("--pre-start=exit 3",), 3),
    "a hook that fails behind": (FAILS, ("--post-stop=exit 3",), 1),
    "a failure that is held": (FAILS, ("--hold-on-failure=1h",), 1, "is kept for 1h"),
    "a process that still writes there": (WRITER, ("--leftover-grace=300ms",), 0),
}


def alone(end):
    """A worker that ends at once is seen only if rankshim gets its turn before the launcher has reaped it."""
    return pytest.mark.alone if end in ("a code", "an exception", "a killed worker") or ENDS[end][0] == FAILS else ()


@pytest.mark.parametrize("end", [pytest.param(end, marks=alone(end)) for end in ENDS])
def test_no_folder_stays_after(start, torch_stand_in, tmp_path, end):
    worker, options, code, *stop = ENDS[end]
    if not any(option.startswith("--python") for option in options):
        options = (*options, f"--python={sys.executable}")
    folder = tmp_path / "tmp"
    folder.mkdir()
    environment = {"TMPDIR": str(folder), "PYTHONPATH": str(torch_stand_in), "WORKER": worker}
    process = start(str(torch_stand_in / "train.py"), options=[*options, f"--termination-log={tmp_path}/log"], env=environment)
    for line in stop:
        process.wait_line(line)
        process.send(signal.SIGTERM)
    assert process.wait() == code, process.transcript()
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("end", ["exit 3", "kill -9 $$", "python -c pass"])
def test_no_folder_stays_after_a_program_of_several_nodes(start, tmp_path, end):
    (tmp_path / "tmp").mkdir()
    options = ("--nnodes=2", "--node-rank=0", "--master-addr=127.0.0.1", "--wait=none")
    process = start("sh", "-c", "echo $PYTHONPATH; " + end, options=options, env={"TMPDIR": f"{tmp_path}/tmp"})
    process.wait()
    assert f"{tmp_path}/tmp/rankshim-" in process.stdout
    assert list((tmp_path / "tmp").iterdir()) == []


def is_locked(folder):
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def test_the_folder_of_a_container_that_was_killed_is_removed_by_the_next_one(start, request, tmp_path):
    """Where rankshim is not PID 1, processes may live on that look for Python code there: that folder stays."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    options = ("--nnodes=2", "--node-rank=0", "--master-addr=127.0.0.1", "--wait=none", "--run-dir=/nowhere")
    killed, living = (start("setpriv", "--pdeathsig=KILL", "sh", "-c", "echo up; exec sleep 1000", options=options,
                            env={"TMPDIR": str(folder)}) for _ in range(2))
    for process in (killed, living):
        process.wait_line("^up")
    killed.send(signal.SIGKILL)
    killed.wait()
    assert len(list(folder.iterdir())) == 2
    staying = 0 if request.node.callspec.params["start"] == "pid 1" else 1
    if staying == 0:  # the kernel may release a dead process's lock after its parent knows of its end
        until(lambda: sum(map(is_locked, folder.iterdir())) == 1, "the killed one's lock is released")
    for one in folder.iterdir():
        os.utime(one, times=(time.time() - 100,) * 2)  # one that is new may be about to be locked
    start("sleep", "1000", options=[f"--run-dir={tmp_path}"], env={"TMPDIR": str(folder)})
    until(lambda: list(tmp_path.glob("*.sock")), "it has its socket, and has looked for folders before")
    assert len(list(folder.iterdir())) == 1 + staying
    assert living.popen.poll() is None
    living.send(signal.SIGTERM)
    living.wait()
    assert len(list(folder.iterdir())) == staying
