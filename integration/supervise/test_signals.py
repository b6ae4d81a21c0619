"""Signals, from before the command exists until it ends."""

import ctypes
import errno
import os
import signal
import sys

import pytest

from lib.events import until
from lib.process import children, descendants
from lib.requirements import cannot, needs_strace, why_not_static
from supervise.conftest import PID_1, name, status

SYS_KILL = {"x86_64": 62, "aarch64": 129}[os.uname().machine]

# Prints "ready", counts the signals that it gets, and prints the counts when TERM comes.
COUNTER = """
import signal, sys
wanted = {signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP, signal.SIGWINCH, signal.SIGURG, 40, 41, signal.SIGTERM}
signal.pthread_sigmask(signal.SIG_BLOCK, wanted)
print("ready", flush=True)
counts = {}
while (number := signal.sigwait(wanted)) != signal.SIGTERM:
    counts[number] = counts.get(number, 0) + 1
print(*(f"{int(number)}:{count}" for number, count in sorted(counts.items())), flush=True)
"""


def queue(pid, number, value):
    """sigqueue(3); False when the receiver's queue is full."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.sigqueue(pid, number, ctypes.c_void_p(value)) == 0:
        return True
    assert ctypes.get_errno() == errno.EAGAIN
    return False


HARMLESS = {signal.SIGCHLD, signal.SIGCONT, signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU,
            signal.SIGURG, signal.SIGWINCH, signal.SIGKILL}


def test_each_of_the_64_signals_ends_a_command_that_does_not_handle_it(start):
    # 32 to 34 too, which C libraries keep to themselves.
    libc = ctypes.CDLL(None)
    for number in sorted(set(range(1, 65)) - HARMLESS):
        process = start("sh", "-c", "ulimit -c 0; echo ready; exec sleep 100")
        process.wait_line("ready", stream="stdout")
        until(lambda: name(children(process.shim())[0]) == "sleep", "the command runs")
        assert libc.syscall(SYS_KILL, process.shim(), number) == 0
        assert process.wait() == 128 + number


@pytest.mark.costly
def test_a_storm_of_signals_loses_none(start):
    # Real-time signals arrive as often as they were queued; of the others each number arrives. 64 comes last.
    process = start(sys.executable, "-c", COUNTER.replace("signal.SIGTERM", "64"))
    process.wait_line("ready", stream="stdout")
    shim = process.shim()
    queued = {40: 0, 41: 0}
    mixed = [signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP, signal.SIGWINCH, signal.SIGURG]
    for index in range(50_000):  # two each
        os.kill(shim, mixed[index % len(mixed)])
        number = 40 + index % 2
        queued[number] += queue(shim, number, index)
    until(lambda: queue(shim, 64, 0), "the queue has room for the last one")
    assert process.wait() == 0
    counts = {int(number): int(count) for number, count in (pair.split(":") for pair in process.stdout.split()[1:])}
    assert set(counts) == {*mixed, 40, 41}
    assert {number: counts[number] for number in queued} == queued


@pytest.mark.parametrize("scope", ["child", "group", "tree"])
@pytest.mark.parametrize("call", ["setpgid", "rt_sigprocmask", "execve"])
def test_a_signal_between_fork_and_exec_is_not_lost(start, call, scope):
    # strace holds every process at this system call: the signal comes when the child is there and not yet the command.
    needs_strace()
    hold = ["strace", "-qq", "-f", "-o", "/dev/null", "-e", f"trace={call}",
            "-e", f"inject={call}:delay_enter=600000"]
    process = start("sleep", "100", around=hold, options=["--signal-scope", scope])

    def held_child():
        shim = process.find()
        below = children(shim) if shim else []
        return below and name(below[0]) == "rankshim" and shim

    shim = until(held_child, "rankshim has a child that is not yet the command")
    os.kill(shim, signal.SIGTERM)
    assert process.wait() == 128 + signal.SIGTERM


def test_blocked_and_ignored_signals_reach_the_command_as_they_came(start):
    fields = ["SigBlk", "SigIgn", "SigPnd", "ShdPnd"]
    show = ["grep", "-E", "|".join(fields), "/proc/self/status"]
    env = ["env", "--block-signal=USR1,TSTP,RTMIN", "--ignore-signal=HUP,CHLD,TTOU,RTMAX"]
    process = start(*show, before=env)
    assert process.wait() == 0
    seen = dict(line.split(":\t") for line in process.stdout.splitlines())
    assert {field: int(value, 16) for field, value in seen.items()} == {
        "SigBlk": sum(1 << (number - 1) for number in (signal.SIGUSR1, signal.SIGTSTP, signal.SIGRTMIN)),
        "SigIgn": sum(1 << (number - 1) for number in (signal.SIGHUP, signal.SIGCHLD, signal.SIGTTOU, signal.SIGRTMAX)),
        "SigPnd": 0,
        "ShdPnd": 0,
    }


def test_an_ignored_sigchld_does_not_hang_it(start):
    process = start("sh", "-c", "exit 7", before=["env", "--ignore-signal=CHLD"])
    assert process.wait() == 7


def test_signals_are_blocked_two_system_calls_after_exec(start, rankshim, tmp_path):
    if reason := why_not_static(rankshim):
        pytest.skip(reason)
    trace = tmp_path / "trace"
    process = start("true", before=["strace", "-qq", "-o", str(trace)])
    assert process.wait() == 0
    calls = [line.split("(")[0] for line in trace.read_text().splitlines()]
    before = ["arch_prctl", "set_tid_address"] if os.uname().machine == "x86_64" else ["set_tid_address"]
    assert calls[: len(before) + 2] == ["execve", *before, "rt_sigprocmask"]


@pytest.mark.parametrize("number", [signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU], ids=str)
def test_without_a_terminal_a_stop_signal_stops_the_command_alone_and_cont_continues_it(start, number):
    process = start(sys.executable, "-c", COUNTER)
    process.wait_line("ready", stream="stdout")
    shim = process.shim()
    (command,) = children(shim)
    process.send(number)
    until(lambda: status(command, "State").startswith("T"), "the command is stopped")
    until(lambda: status(shim, "State").startswith("S"), "rankshim itself sleeps")
    process.send(signal.SIGCONT)
    until(lambda: status(command, "State").startswith("S"), "the command goes on")
    process.send(signal.SIGUSR1)
    process.send(signal.SIGTERM)
    assert process.wait() == 0
    assert process.stdout.splitlines() == ["ready", "10:1"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGSEGV, 40], ids=str)
def test_a_signal_that_the_command_sends_to_its_init_comes_back(start, number):
    # To PID 1 the kernel passes from within its namespace only what it has asked for.
    process = start("bash", "-c", f"trap 'exit 5' {int(number)}; kill -{int(number)} $PPID; while :; do sleep 0.05; done")
    assert process.wait() == 5


def test_a_sigchld_that_a_user_sends_ends_nothing_and_hides_no_other(start):
    process = start(sys.executable, "-c", COUNTER)
    process.wait_line("ready", stream="stdout")
    shim = process.shim()
    for index in range(100):
        os.kill(shim, signal.SIGCHLD)
        queue(shim, signal.SIGCHLD, index)
    process.send(signal.SIGUSR1)
    process.send(signal.SIGTERM)
    assert process.wait() == 0
    assert process.stdout.splitlines() == ["ready", "10:1"]


# Ends with 6 and leaves a process that at TERM makes another one with the command's number, in a group and session with
# this number as well. That one prints the signals that it gets.
NAMESAKE = """
import os, signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
number = os.getpid()
up, ready = os.pipe()
if os.fork():
    os.read(up, 1)
    os._exit(6)
os.setsid()
os.write(ready, b"x")
signal.sigwait({signal.SIGTERM})
try:
    with open("/proc/sys/kernel/ns_last_pid", "w") as file: file.write(str(number - 1))
except OSError as error:
    print("refused:", error, flush=True)
if os.fork() == 0:
    os.setsid()
    print("namesake" if os.getpid() == number else "stranger", number, flush=True)
    while True: print("got", int(signal.sigwait(signal.valid_signals())), flush=True)
while True: signal.pause()
"""


def test_a_signal_after_the_commands_end_does_not_reach_the_process_that_has_its_number_now(start):
    # In a new PID namespace, where no other process takes a number.
    init = [*PID_1, "sh", "-c", '"$@"; exit $?', "sh"]
    process = start(sys.executable, "-c", NAMESAKE, around=init, options=["--leftover-grace", "1h"])
    line = process.wait_line("namesake|stranger|refused", stream="stdout").text
    if line.startswith("refused"):
        cannot(f"the next process's number cannot be chosen: {line}")
    assert line.startswith("namesake")
    number = line.split()[-1]
    (namesake,) = [pid for pid in descendants(process.pid) if status(pid, "NSpid").split()[-1] == number
                   and status(pid, "NSpgid").split()[-1] == number and name(pid) != "rankshim"]
    shim = process.shim()
    for sent in (signal.SIGHUP, signal.SIGUSR1, signal.SIGTERM, signal.SIGWINCH, 40):
        os.kill(shim, sent)
    until(lambda: int(status(shim, "ShdPnd"), 16) == 0 and status(shim, "State").startswith("S"), "all are taken")
    os.kill(namesake, 64)  # behind all others
    process.wait_line("got 64", stream="stdout")
    process.send(signal.SIGINT)  # ends what is left
    assert process.wait() == 6
    assert [text for text in process.stdout.splitlines() if text.startswith("got")] == ["got 64"]
