"""The options about signals and processes, each by what it changes."""

import json
import os
import signal
import subprocess
import sys

import pytest

from lib.events import until
from lib.process import children, clean_environment, run
from supervise.conftest import PID_1, ended, name, status

# Prints each signal that it gets; ends with 3 at QUIT.
LISTENER = """
import signal, sys
wanted = set(signal.valid_signals()) - {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD}
signal.pthread_sigmask(signal.SIG_BLOCK, wanted)
print("ready", flush=True)
while (number := signal.sigwait(wanted)) != signal.SIGQUIT:
    print(f"got {int(number)}", flush=True)
sys.exit(3)
"""


def test_signals_are_rewritten_and_a_dropped_stop_stops_nothing(start):
    process = start(sys.executable, "-c", LISTENER, options=["--rewrite-signal", "TERM=INT,HUP=none,40=RTMIN+7", "--grace", "1h"])
    process.wait_line("ready", stream="stdout")
    process.send(signal.SIGHUP)
    for number in (40, signal.SIGTERM, signal.SIGUSR1):
        process.send(number)
        process.wait_line({40: "got 41", signal.SIGTERM: "got 2", signal.SIGUSR1: "got 10"}[number], stream="stdout")
    process.send(signal.SIGQUIT)
    assert process.wait() == 3
    assert "got 1\n" not in process.stdout
    assert process.stderr.count("received and passed on") == 1


def test_a_leftover_gets_a_term_and_no_cont_unless_it_is_stopped(start, tmp_path):
    ready = tmp_path / "ready"
    os.mkfifo(ready)
    listener = LISTENER.replace('print("ready", flush=True)', f'print("ready", flush=True); open({str(ready)!r}, "w").close()')
    process = start("sh", "-c", 'setsid "$0" -c "$1" & read -r word <"$2"; exit 0', sys.executable, listener, str(ready),
                    options=["--leftover-grace=500ms"])
    assert process.wait() == 0
    assert "got 15" in process.stdout and "got 18" not in process.stdout


def test_each_reaped_orphan_is_logged(start, tmp_path):
    go = tmp_path / "go"
    os.mkfifo(go)
    process = start("sh", "-c", '(true &); (true &); read word <"$0"; exit 4', str(go), options=["--warn-on-reap"])
    until(lambda: process.stderr.count("reaped an orphan") == 2, "both are reported")
    go.write_text("on\n")
    assert process.wait() == 4
    assert process.stderr.count("reaped") == 2


# Prints the parent of a process whose first parent has ended, then the command's parent.
ORPHAN = """
import os
until, ending = os.pipe()
if os.fork() == 0:
    parent = os.getpid()
    if os.fork() == 0:
        while os.getppid() == parent: os.sched_yield()
        print(os.getppid(), flush=True)
    os._exit(0)
os.wait()
os.close(ending)
os.read(until, 1)
print(os.getppid())
"""


def test_orphans_come_to_rankshim(shim):
    done = shim("--", sys.executable, "-c", ORPHAN)
    assert done.code == 0
    parent, rankshim = done.stdout.split()
    assert parent == rankshim


def test_rankshim_gets_its_death_signal_when_its_parent_ends(rankshim):
    # The parent is killed once the command runs; rankshim then passes USR1 on, which ends the command.
    parent = subprocess.Popen(["sh", "-c", '"$0" --parent-death-signal USR1 -- sh -c "echo up; exec sleep 1000" & read -r word', rankshim],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert parent.stdout.readline() == b"up\n"
    parent.kill()
    assert parent.stdout.read() == b""  # it ends when no process is left that could write to it
    parent.wait()


@pytest.mark.parametrize("wrong", ["--parent-death-signal=NONE", "--rewrite-signal=KILL=TERM", "--worker-signals=X", "--no-grace"])
def test_what_is_no_signal_is_refused(shim, wrong):
    result = shim(wrong, "--", "true")
    assert result.code == 64 and wrong.split("=")[0] in result.stderr


# Process, group and session of the command, and the session of rankshim.
WHERE = "import os; print(os.getpid(), os.getpgrp(), os.getsid(0), os.getsid(os.getppid()))"


@pytest.mark.parametrize("options", [[], ["--signal-scope=child"], ["--ctty"]], ids=" ".join)
def test_the_command_leads_a_new_group_and_on_request_a_new_session(start, options):
    process = start(sys.executable, "-c", WHERE, options=options)
    assert process.wait() == 0
    command, group, session, ours = map(int, process.stdout.split())
    assert group == command
    assert (session == command) == ("--ctty" in options)
    assert (session == ours) == ("--ctty" not in options)


def test_as_pid_1_or_not_there_is_nothing_to_warn_of(start, tmp_path):
    process = start("true", options=[f"--run-dir={tmp_path}"])  # in /run another test's instance may answer
    assert process.wait() == 0
    assert [line for line in process.stderr.splitlines() if "warning" in line] == []


# What runs, the map, and the code that comes of it.
EXITS = {
    "a number": ("exit 3", "3=0", 0),
    "another number": ("exit 4", "3=0", 4),
    "success": ("exit 0", "0=9", 9),
    "a range": ("exit 99", "90-99=1", 1),
    "a signal": ("ulimit -c 0; kill -SEGV $$", "139=0", 0),
    "a stop": ("kill -TERM $PPID; sleep 100", "143=0", 0),
    "a stop by its cause": ("kill -TERM $PPID; sleep 100", "143=9,stopped=0", 0),
    "a code that only looks like a stop": ("exit 143", "stopped=0", 143),
    "what is not there": ("exec /no/such/file", "127=1", 1),
}


@pytest.mark.parametrize("script, exits, code", EXITS.values(), ids=EXITS.keys())
def test_exit_codes_are_mapped(start, script, exits, code):
    assert start("sh", "-c", script, options=["--exit-map", exits]).wait() == code


def test_the_last_line_names_a_code_that_was_mapped(start):
    for script, exits, code in [("exit 3", "3=0", 0), ("exit 0", "0=7", 7)]:
        process = start("sh", "-c", script, options=["--exit-map", exits, "--hold-on-failure", "1h" if code == 0 else "0"])
        assert process.wait() == code
        assert process.stderr.splitlines()[-1].endswith(f"; --exit-map changes the exit code to {code}")


def test_a_refusal_and_a_wait_in_vain_have_causes_to_be_mapped(start):
    refused = start("true", options=["--exit-map", "config=9"], env={"WORLD_SIZE": "3"})
    assert refused.wait() == 9
    job = {"NNODES": "2", "NODE_RANK": "1", "MASTER_ADDR": "no-such-master.invalid", "MASTER_PORT": "29500"}
    waited = start("true", options=["--exit-map", "75=1,wait=9", "--wait-timeout", "50ms"], env=job)
    assert waited.wait() == 9


@pytest.mark.parametrize("before", [PID_1, ()], ids=["pid 1", "subreaper"])
def test_the_commands_options_are_its_own_without_dashes_before_it(rankshim, before):
    done = run([rankshim, "--log-level=error", "sh", "-c", 'echo "$@"; exit 5', "sh", "-v", "--version", "--", "-h"],
               clean_environment(), wrapper=before)
    assert (done.code, done.stdout) == (5, "-v --version -- -h\n")


def test_usr1_is_kept_until_the_worker_can_take_it_and_never_reaches_the_agent(agent, tmp_path):
    go = tmp_path / "go"
    os.mkfifo(go)
    process = agent(f"""
import os, signal, sys
print("worker starts", flush=True)
open({str(go)!r}).read()
signal.signal(signal.SIGUSR1, lambda *_: (os.write(1, b"worker got USR1\\n"), sys.exit(5)))
print("worker is ready", flush=True)
while True: signal.pause()
""")
    process.wait_line("worker starts", stream="stdout")
    process.send(signal.SIGUSR1)
    process.wait_line("SIGUSR1 is kept until")
    go.write_text("on")
    process.wait_line("worker is ready", stream="stdout")
    process.wait_line("worker got USR1", stream="stdout")
    assert process.wait() == 5


def test_a_second_term_is_not_passed_to_the_agent_and_a_second_int_kills(agent):
    process = agent('import signal; print("up", flush=True); signal.pthread_sigmask(signal.SIG_BLOCK, {2, 15}); signal.sigwait({60})',
                    "--log-level", "debug")
    process.wait_line("up", stream="stdout")
    process.send(signal.SIGTERM)
    process.wait_line("agent got TERM", stream="stdout")
    for number in (signal.SIGTERM, signal.SIGINT):
        process.send(number)
        process.wait_line(f"{signal.Signals(number).name} is not passed on")
    process.send(signal.SIGINT)
    assert process.wait() == 128 + signal.SIGTERM
    assert process.stdout.count("agent got") == 1
    assert "a second SIGINT: rankshim kills everything" in process.stderr


HANGS = """
import signal, time
def where_it_hangs():
    print("up", flush=True)
    while True: time.sleep(1000)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
where_it_hangs()
"""


@pytest.mark.parametrize("stacks", [True, False])
def test_a_worker_that_hangs_shows_its_stack_before_it_is_killed(agent, stacks):
    process = agent(HANGS, "--grace", "3s", *([] if stacks else ["--no-stacks"]))
    process.wait_line("up", stream="stdout")
    process.send(signal.SIGTERM)
    assert process.wait() == 128 + signal.SIGTERM
    assert ("in where_it_hangs" in process.stderr) == stacks


def test_a_hang_up_that_is_ignored_does_not_reach_the_agent(agent):
    # As under nohup. torchrun handles it whatever it inherited, and would end its workers.
    process = agent('import signal; print("up", flush=True); signal.pause()', "--log-level=debug",
                    before=("env", "--ignore-signal=HUP"))
    process.wait_line("up", stream="stdout")
    process.send(signal.SIGHUP)
    process.send(signal.SIGTERM)
    process.wait_line("agent got TERM", stream="stdout")
    process.send(signal.SIGINT)
    process.wait_line("SIGINT is not passed on")
    process.send(signal.SIGINT)
    assert process.wait() == 143
    assert "agent got HUP" not in process.stdout


def test_a_hang_up_that_is_ignored_does_not_reach_what_a_program_starts(start):
    # torchrun and accelerate replace what they have inherited from nohup.
    replaces = "import signal; signal.signal(signal.SIGHUP, lambda *_: print('got HUP', flush=True)); print('up', flush=True); signal.pause()"
    process = start("bash", "-c", '"$0" -c "$1"; echo over', sys.executable, replaces, before=("env", "--ignore-signal=HUP"))
    process.wait_line("up", stream="stdout")
    process.send(signal.SIGHUP)
    process.wait_line(r"SIGHUP is not passed on: it was ignored when rankshim started \(nohup\)")
    process.send(signal.SIGTERM)
    assert process.wait() == 143
    assert "got HUP" not in process.stdout


NOTED = """
import os, signal, time
signal.signal(signal.SIGUSR1, lambda *_: os.write(1, b"noted\\n"))
signal.signal(signal.SIGTERM, lambda *_: (os.write(1, b"stopped\\n"), os._exit(0)))
print("up", flush=True)
while True: signal.pause()
"""


@pytest.mark.parametrize("around", [("sh", "-c", '"$@"; exit $?', "sh"), ("timeout", "600"), ("timeout", "600", "sh", "-c", '"$@"; exit $?', "sh")],
                         ids=["sh -c", "timeout", "both"])
def test_a_notice_goes_down_a_programs_tree_to_those_that_handle_it(start, around):
    process = start(*around, sys.executable, "-c", NOTED)
    process.wait_line("up", stream="stdout")
    process.send(signal.SIGUSR1)
    process.wait_line("noted", stream="stdout")
    process.send(signal.SIGTERM)
    process.wait()
    assert process.stdout.splitlines() == ["up", "noted", "stopped"]


def test_a_notice_is_kept_until_a_process_of_the_program_handles_it(start, tmp_path):
    go = tmp_path / "go"
    os.mkfifo(go)
    late = f"print('starts', flush=True); open({str(go)!r}).read()\n" + NOTED
    process = start("sh", "-c", '"$0" -c "$1"; exit $?', sys.executable, late)
    process.wait_line("starts", stream="stdout")
    process.send(signal.SIGUSR1)
    process.wait_line("SIGUSR1 is kept until a process of the command handles it")
    go.write_text("on")
    process.wait_line("noted", stream="stdout")
    process.send(signal.SIGTERM)
    process.wait()


def test_a_program_of_one_process_gets_a_notice_as_any_other_signal(start):
    process = start("sleep", "1000")
    until(lambda: name(children(process.shim())[0]) == "sleep" if children(process.shim()) else False, "the command runs")
    process.send(signal.SIGUSR1)
    assert process.wait() == 128 + signal.SIGUSR1


# A forwarder as `uv run` is one: it passes on what it gets.
FORWARDS = """
import os, signal, subprocess, sys
child = subprocess.Popen([sys.executable, "-c", sys.argv[1]])
for number in (signal.SIGUSR1, signal.SIGINT, signal.SIGTERM): signal.signal(number, lambda number, _: os.kill(child.pid, number))
sys.exit(child.wait())
"""


def assert_comes_once(number, process):
    process.wait_line("up", stream="stdout")
    process.send(number)
    process.wait_line("noted", stream="stdout")
    process.send(signal.SIGTERM)
    assert process.wait() == 0
    assert process.stdout.splitlines() == ["up", "noted", "stopped"]


def test_a_notice_comes_once_through_a_program_that_forwards_signals(start):
    assert_comes_once(signal.SIGUSR1, start(sys.executable, "-c", FORWARDS, NOTED))


def test_an_int_that_was_inherited_as_ignored_comes_once_through_such_a_program(start):
    handles = NOTED.replace("signal.SIGUSR1", "signal.SIGINT")
    process = start(sys.executable, "-c", FORWARDS, handles, before=["env", "--ignore-signal=INT"])
    assert_comes_once(signal.SIGINT, process)


def test_what_handles_the_notice_that_killed_its_launcher_has_the_grace_to_save(start, tmp_path):
    go = tmp_path / "go"
    os.mkfifo(go)
    saves = f"import signal\nsignal.signal(signal.SIGUSR1, signal.SIG_DFL)\n" + NOTED.replace(
        "while True: signal.pause()", f"open({str(go)!r}).read(); print('saved', flush=True)")
    process = start("bash", "-c", '"$0" -c "$1"; exit $?', sys.executable, saves, options=["--grace=90s"])
    process.wait_line("up", stream="stdout")
    (shell,) = children(process.shim())
    os.kill(shell, signal.SIGUSR1)  # as scancel signals every process of a step
    process.wait_line("the command was killed by SIGUSR1, which processes below it handle; they have 90 s to save their state")
    go.write_text("on")
    assert process.wait() == 128 + signal.SIGUSR1
    assert process.stdout.splitlines() == ["up", "saved"]


def test_a_stop_ends_the_time_to_save(start):
    process = start("bash", "-c", '"$0" -c "$1"; exit $?', sys.executable, NOTED, options=["--grace=90s"])
    process.wait_line("up", stream="stdout")
    (shell,) = children(process.shim())
    os.kill(shell, signal.SIGUSR1)
    process.wait_line("they have 90 s to save their state")
    process.send(signal.SIGTERM)
    process.wait_line("stopped", stream="stdout")
    assert process.wait() == 128 + signal.SIGUSR1


def test_torchrun_and_its_workers_start_with_the_notices_ignored(agent):
    show = "print([line.split()[1] for line in open('/proc/self/status') if line.startswith('SigIgn')][0], flush=True)"
    both = 1 << (signal.SIGUSR1 - 1) | 1 << (signal.SIGUSR2 - 1)
    for options, ignored in [((), both), (("--worker-signals=USR2,TERM",), 1 << (signal.SIGUSR2 - 1)), (("--worker-signals=none",), 0)]:
        process = agent(show, *options)
        assert process.wait() == 0
        assert int(process.stdout, 16) & (both | 1 << (signal.SIGTERM - 1)) == ignored


def test_a_torchrun_inside_a_program_and_its_workers_ignore_the_notices_too(start, torch_stand_in):
    show = "print([line.split()[1] for line in open('/proc/self/status') if line.startswith('SigIgn')][0], flush=True)"
    both = 1 << (signal.SIGUSR1 - 1) | 1 << (signal.SIGUSR2 - 1)
    for options, flags, ignored in [((), "", both), (("--worker-signals=USR2,TERM",), "", 1 << (signal.SIGUSR2 - 1)),
                                    (("--worker-signals=none",), "", 0), ((), "--no-python", 0)]:
        process = start("sh", "-c", f"'{sys.executable}' -m torch.distributed.run {flags} train.py; exit $?", options=options,
                        env={"PYTHONPATH": str(torch_stand_in), "WORKER": show})
        assert process.wait() == 0
        assert int(process.stdout, 16) & (both | 1 << (signal.SIGTERM - 1)) == ignored


def test_a_torchrun_inside_a_program_gets_the_grace_too(start):
    for options, expected in [(["--grace=100s"], "100"), ([], "-")]:
        process = start("sh", "-c", 'echo "${TORCH_ELASTIC_SHUTDOWN_TIMEOUT:--}"', options=options)
        assert process.wait() == 0 and process.stdout == expected + "\n"


def test_after_a_stop_that_was_rewritten_torchruns_code_is_that_of_the_signal_that_came(agent):
    process = agent('print("up", flush=True); import signal; signal.pause()', "--rewrite-signal=TERM=INT", "--grace=500ms")
    process.wait_line("up", stream="stdout")
    process.send(signal.SIGTERM)
    process.wait_line("SIGTERM received and passed on as SIGINT")
    assert process.wait() == 143


@pytest.mark.alone  # how soon the worker is seen
def test_another_launchers_workers_in_the_same_log_folder_change_nothing(agent, tmp_path):
    go = tmp_path / "go"
    os.mkfifo(go)
    logs = tmp_path / "shared" / "logs"  # which nobody has made yet
    process = agent(f'import sys; print("up", flush=True); open({str(go)!r}).read(); sys.exit(42)', PET_LOG_DIR=str(logs))
    process.wait_line("up", stream="stdout")
    (logs / "another_run" / "attempt_0").mkdir(parents=True)
    go.write_text("on")
    assert process.wait() == 42
    assert "worker 0 exited with code 42" in process.stderr


def test_torchrun_gets_the_grace_and_the_fault_handler_unless_they_are_set(agent):
    show = "import os; print(os.environ['TORCH_ELASTIC_SHUTDOWN_TIMEOUT'], os.environ['PYTHONFAULTHANDLER'], flush=True)"
    process = agent(show, "--grace", "2500ms")
    assert process.wait() == 0 and process.stdout.splitlines() == ["3 1"]
    process = agent(show, "--grace", "25s", TORCH_ELASTIC_SHUTDOWN_TIMEOUT="7", PYTHONFAULTHANDLER="0")
    assert process.wait() == 0 and process.stdout.splitlines() == ["7 0"]
