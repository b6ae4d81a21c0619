"""Who gets a stop signal: those who handle it, and nobody below them."""

import os
import pathlib
import re
import signal
import sys

import pytest

from lib.events import until
from lib.process import Process, clean_environment, descendants
from lib.requirements import needs_strace
from supervise.conftest import name, status

SAVING = str(pathlib.Path(__file__).with_name("saving.py"))
START = 120  # for torch and the helpers of the data loaders, on a busy machine

# `helper` is a process that does not handle the signal. It prints its end, which only its parent can see.
HANDLES = """
import os, signal, subprocess, sys
number = signal.Signals[sys.argv[1]]
asked = []
woken, wake = os.pipe()
os.set_blocking(wake, False)
signal.set_wakeup_fd(wake)
helper = subprocess.Popen(["setsid", "sleep", "1000"] if sys.argv[2:] == ["session"] else ["sleep", "1000"])
signal.signal(number, lambda *_: asked.append(1))
print("ready", flush=True)
while not asked: os.read(woken, 1)
print("asked, helper", "lives" if helper.poll() is None else "is gone", flush=True)
while os.environ.get("WAITS"): signal.pause()
helper.kill()
sys.exit(9)
"""
STOPS = ["SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT"]


STOPPED = """
import os, signal, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit(9))
print("ready", flush=True)
os.kill(os.getpid(), signal.SIGSTOP)
"""


@pytest.mark.parametrize("options", [["--signal-scope=auto"], ["--signal-scope=child"], ["--signal-scope=group"], ["--signal-scope=tree"],
                                     ["--launcher=native", "--platform=none"]])
def test_what_is_stopped_is_continued_by_a_stop_and_can_follow_it(start, options):
    process = start(sys.executable, "-c", STOPPED, options=options)
    process.wait_line("ready", stream="stdout")
    until(lambda: any(status(pid, "State").startswith("T") for pid in descendants(process.shim())), "the program is stopped")
    process.send(signal.SIGTERM)
    assert process.wait() == (143 if "native" in options[0] else 9), "a stopped job of workers is not done"


@pytest.mark.parametrize("stop", STOPS)
def test_a_program_that_handles_a_stop_keeps_its_helpers(start, stop):
    process = start(sys.executable, "-c", HANDLES, stop)
    process.wait_line("ready", stream="stdout")
    process.send(signal.Signals[stop])
    assert process.wait() == 9
    assert "asked, helper lives" in process.stdout


@pytest.mark.parametrize("stop", STOPS)
@pytest.mark.parametrize("shell", ["bash", "dash", "bash -e", "busybox sh"])
def test_a_shell_without_a_trap_does_not_keep_the_stop_from_what_it_runs(start, shell, stop, tmp_path):
    # bash catches INT while it waits, and what it runs gets it nevertheless.
    script = tmp_path / "run.sh"
    script.write_text(f"#!/usr/bin/env -S {shell}\npython -c '{HANDLES}' {stop}\necho after >{tmp_path}/after\n")
    script.chmod(0o755)
    process = start(str(script), options=["--grace=30s"])
    process.wait_line("ready", stream="stdout")
    process.send(signal.Signals[stop])
    process.wait_line("asked, helper lives", stream="stdout")
    code = process.wait()
    if stop in ("SIGTERM", "SIGHUP"):  # a shell goes on after an INT or a QUIT that its command has handled
        assert code == 128 + signal.Signals[stop]
        assert not (tmp_path / "after").exists()


@pytest.mark.parametrize("shell", ["bash", "dash", "busybox sh"])
def test_a_shells_trap_does_not_keep_the_stop_from_what_runs_in_its_foreground(start, shell):
    # It runs its trap only when that has ended.
    script = f"trap 'echo trapped; exit 7' TERM; python -c '{HANDLES}' SIGTERM; echo goes on"
    process = start(*shell.split(), "-c", script)
    process.wait_line("ready", stream="stdout")
    process.send(signal.SIGTERM)
    assert process.wait() == 7
    assert process.stdout.split("\n")[1:] == ["asked, helper lives", "trapped", ""]


@pytest.mark.parametrize("shell", ["bash", "dash", "busybox sh"])
def test_a_shells_trap_answers_for_what_runs_in_its_background(start, shell):
    script = f"""
        WAITS=1 python -c '{HANDLES}' SIGUSR2 &
        trap 'echo trapped; kill -USR2 $!' TERM
        while kill -0 $! 2>/dev/null; do wait; done; exit 7"""
    process = start(*shell.split(), "-c", script)
    process.wait_line("ready", stream="stdout")
    process.send(signal.SIGTERM)
    process.wait_line("asked, helper lives", stream="stdout")
    python = next(pid for pid in descendants(process.shim()) if name(pid).startswith("python"))
    os.kill(python, signal.SIGTERM)  # which had not come before, for it ends a Python without a handler
    assert process.wait() == 7
    assert "trapped" in process.stdout


@pytest.mark.parametrize("stop", ["SIGINT", "SIGQUIT"])
def test_a_program_that_ignores_int_while_it_waits_does_not_keep_it_from_its_child(start, tmp_path, stop):
    # As system(3) does, and time(1).
    (tmp_path / "handles.py").write_text(HANDLES)
    waits = f"import os; raise SystemExit(os.waitstatus_to_exitcode(os.system('exec python {tmp_path}/handles.py {stop}')))"
    process = start(sys.executable, "-c", waits)
    process.wait_line("ready", stream="stdout")
    process.send(signal.Signals[stop])
    assert process.wait() == 9
    assert "asked, helper lives" in process.stdout


def test_what_a_program_left_behind_is_asked_from_the_top_too(start):
    # The shell is gone at once; its child has its own time, and its helper is asked only when that has ended.
    script = f"python -c '{HANDLES.replace('helper.kill()', '')}' SIGTERM session; exit 3"
    process = start("sh", "-c", script, options=["--leftover-grace=1h"])
    process.wait_line("ready", stream="stdout")
    process.send(signal.SIGTERM)
    process.wait_line("asked, helper lives", stream="stdout")
    assert process.wait() == 143
    assert process.stdout.count("asked") == 1, "it was asked once"


def test_after_the_programs_own_end_what_it_left_is_asked_from_the_top_too(start, tmp_path):
    os.mkfifo(tmp_path / "up")
    script = f"""python -c '{HANDLES.replace('print("ready", flush=True)', 'open(sys.argv[2], "w").write("up")')
                                       .replace('sys.argv[2:] == ["session"]', "False")}' SIGTERM {tmp_path}/up &
                 read up <{tmp_path}/up; exit 3"""
    process = start("bash", "-c", script, options=["--leftover-grace=1h"])
    process.wait_line("asked, helper lives", stream="stdout")
    assert process.wait() == 3


def test_a_handler_that_is_installed_at_the_last_moment_counts(start):
    # rankshim is held just before it sends. Had it looked at the handlers before, it would send to the helper as well.
    needs_strace()
    late = HANDLES.replace("signal.signal(number", "signal.sigwait({signal.SIGUSR2}); signal.signal(number").replace(
        'print("ready", flush=True)', 'print("installed", flush=True)').replace(
        "asked = []", 'asked = []; signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2}); print("ready", flush=True)')
    hold = ["strace", "-qq", "-f", "-o", "/dev/null", "-e", "trace=pidfd_send_signal,kill", "-e",
            "inject=pidfd_send_signal,kill:delay_enter=3000000:when=1"]
    process = start(sys.executable, "-c", late, "SIGTERM", around=hold)
    process.wait_line("ready", stream="stdout")
    until(lambda: [name(pid) for pid in descendants(process.shim())][1:] == ["sleep"], "its helper is there")
    python = descendants(process.shim())[0]
    shim = process.shim()
    os.kill(shim, signal.SIGTERM)
    until(lambda: int(status(shim, "ShdPnd"), 16) == 0, "rankshim has taken it")
    os.kill(python, signal.SIGUSR2)
    process.wait_line("installed", stream="stdout")
    assert process.wait() == 9
    assert "asked, helper lives" in process.stdout


@pytest.mark.torch
@pytest.mark.usefixtures("torch")
@pytest.mark.parametrize("options, command, code", [
    pytest.param((), ("python",), 0, marks=pytest.mark.nightly),
    pytest.param(("--launcher=none",), (), 0, marks=pytest.mark.nightly),
    pytest.param(("--launcher=native", "--nproc-per-node=2"), (), 143, marks=pytest.mark.nightly),
    (("--launcher=torchrun", "--nproc-per-node=2"), (), 143),
    pytest.param(("--launcher=torchrun", "--nproc-per-node=2", "--grace=60s"), (), 143, marks=pytest.mark.nightly),
    pytest.param((), ("bash", "-c", 'python "$@"; exit 5', "bash"), 143, marks=pytest.mark.nightly),
], ids=["program", "none", "native", "torchrun", "torchrun with a grace", "script of a shell"])
def test_a_checkpoint_is_saved_with_the_helpers_of_the_data_loader(rankshim, tmp_path, options, command, code):
    workers = 2 if "--nproc-per-node=2" in options else 1
    environment = clean_environment({"OMP_NUM_THREADS": "1"})
    with Process([rankshim, *options, "--", *command, SAVING, str(tmp_path)], environment, name="rankshim") as process:
        until(lambda: process.stdout.count("TRAINING") == workers, "all workers train", START)
        process.signal(signal.SIGTERM)
        assert process.wait(START) == code
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"{rank}.pt" for rank in range(workers)]
    assert process.stdout.count("SAVED after 1 signals") == workers, "each was asked once"
    if workers == 2:  # torchrun itself gets the signal, too, where it does not end within two seconds of its workers
        assert re.search("(all|the) workers (then )?exited with code 0", process.stderr.splitlines()[-1])
    else:
        assert "killed by" not in process.stderr


def test_a_program_without_a_fault_handler_has_its_whole_grace(start):
    # A sleep that ignores TERM and would end by ABRT, 0.3 s before the KILL.
    process = start("sh", "-c", 'trap "" TERM; kill -TERM $PPID; exec sleep 3.7', options=["--grace=4s"])
    assert process.wait() == 0
    assert "SIGABRT" not in process.stderr


def test_a_program_with_one_shows_its_stacks_when_its_grace_is_over_and_the_verdict_names_that(start):
    deaf = "import os, signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready', flush=True); time.sleep(1000)"
    process = start(sys.executable, "-X", "faulthandler", "-c", deaf, options=["--grace=2s"])
    process.wait_line("ready", stream="stdout")
    process.send(signal.SIGTERM)
    came = process.wait_line("received and passed on").at
    stacks = process.wait_line("Fatal Python error: Aborted")
    assert stacks.at - came > 1.9
    assert process.wait() == 137, "as by the KILL, which would have come"
    assert "was killed by SIGABRT" in process.stderr.splitlines()[-1]
    assert "when rankshim asked the processes that had not stopped for their stacks" in process.stderr.splitlines()[-1]
