"""Signals, from before the command exists until it ends."""

import ctypes
import errno
import os
import signal
import subprocess
import sys

import pytest

from lib.events import until
from lib.requirements import cannot
from supervise.conftest import children, name

SYS_KILL = {"x86_64": 62, "aarch64": 129}[os.uname().machine]

# Says "ready", counts what it gets, and prints the counts when TERM comes.
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
        until(lambda: name(children(process.shim())[0]) == "sleep", 10, "the command runs")
        assert libc.syscall(SYS_KILL, process.shim(), number) == 0
        assert process.wait() == 128 + number


def test_a_storm_of_signals_loses_none(start):
    # Real-time signals arrive as often as they were queued; of the others each number arrives.
    process = start(sys.executable, "-c", COUNTER)
    process.wait_line("ready", stream="stdout")
    shim = process.shim()
    queued = {40: 0, 41: 0}
    mixed = [signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP, signal.SIGWINCH, signal.SIGURG]
    for index in range(50_000):  # two each
        os.kill(shim, mixed[index % len(mixed)])
        number = 40 + index % 2
        queued[number] += queue(shim, number, index)
    os.kill(shim, signal.SIGTERM)
    assert process.wait() == 0
    counts = dict(pair.split(":") for pair in process.stdout.split()[1:])
    assert {int(number) for number in counts} == {*mixed, 40, 41}
    # TERM overtakes what is still queued with a higher number: those are not read any more.
    assert int(counts["40"]) <= queued[40]


def test_real_time_signals_arrive_as_often_as_they_were_queued(start):
    process = start(sys.executable, "-c", COUNTER.replace("signal.SIGTERM", "64"))
    process.wait_line("ready", stream="stdout")
    shim = process.shim()
    queued = sum(queue(shim, 40, index) for index in range(100_000))
    assert queue(shim, 64, 0)
    assert process.wait() == 0
    assert process.stdout.split()[1:] == [f"40:{queued}"]


@pytest.mark.parametrize("scope", ["child", "group", "tree"])
@pytest.mark.parametrize("call", ["setpgid", "rt_sigprocmask", "execve"])
def test_a_signal_between_fork_and_exec_is_not_lost(start, call, scope):
    # strace holds every process at this system call: the signal comes when the child is there and not yet the command.
    if subprocess.run(["strace", "-e", "trace=none", "true"], capture_output=True).returncode != 0:
        cannot("strace cannot trace here")
    hold = ["strace", "-qq", "-f", "-o", "/dev/null", "-e", f"trace={call}",
            "-e", f"inject={call}:delay_enter=300000"]
    process = start("sleep", "100", around=hold, options=["--signal-scope", scope])

    def held_child():
        shim = process.find()
        below = children(shim) if shim else []
        return below and name(below[0]) == "rankshim" and shim

    shim = until(held_child, 20, "rankshim has a child that is not yet the command")
    os.kill(shim, signal.SIGTERM)
    assert process.wait(timeout=20) == 128 + signal.SIGTERM
    assert process.ended - process.started < 50


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
    assert process.wait(timeout=10) == 7


def test_signals_are_blocked_two_system_calls_after_exec(start, rankshim, tmp_path):
    with open(rankshim, "rb") as file:
        if b"ld-linux" in file.read(4096):
            pytest.skip("the binary under test is not static")
    trace = tmp_path / "trace"
    process = start("true", before=["strace", "-qq", "-o", str(trace)])
    assert process.wait() == 0
    calls = [line.split("(")[0] for line in trace.read_text().splitlines()]
    assert calls[0] == "execve"
    assert calls.index("rt_sigprocmask") <= 3
