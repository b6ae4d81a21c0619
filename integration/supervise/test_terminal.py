"""Job control on a terminal: the command has it while it runs, and afterwards the process that had it before."""

import fcntl
import json
import os
import pty
import signal
import struct
import sys
import termios
import time

import pytest

from lib.events import PATIENCE, NotInTime, until
from lib.process import children, descendants
from lib.requirements import needs_strace
from lib.torch_stand_in import make_torch_stand_in
from supervise.conftest import PID_1, ended, name, needs_pid_namespaces

# Several processes write to one terminal, so each line is written by one call: print() may take several.
SAY = 'import os; say = lambda *words: os.write(1, (" ".join(map(str, words)) + "\\n").encode())\n'

# Makes stdin its controlling terminal, and its group the foreground, as a container engine or a terminal does; then
# runs the rest of its arguments as a child, as a shell would, and reports at the end which group has the terminal.
SHELL = SAY + """
import fcntl, os, signal, sys, termios
os.setsid()
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
child = os.fork()
if child == 0:
    os.setpgid(0, 0)
    if sys.argv[1] == "foreground": os.tcsetpgrp(0, os.getpgrp())
    signal.signal(signal.SIGTTOU, signal.SIG_DFL)
    os.execvp(sys.argv[2], sys.argv[2:])
os.waitpid(child, os.WUNTRACED)
say("shell: the terminal is", "rankshim's" if os.tcgetpgrp(0) == child else "another's")
"""

# The same with job control: reports when the job has stopped, and continues it in the foreground on a line "fg".
JOB_SHELL = SAY + """
import fcntl, os, signal, sys, termios
os.setsid()
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
job = os.fork()
if job == 0:
    os.setpgid(0, 0)
    os.tcsetpgrp(0, os.getpgrp())
    signal.signal(signal.SIGTTOU, signal.SIG_DFL)
    os.execvp(sys.argv[1], sys.argv[1:])
while True:
    _, status = os.waitpid(job, os.WUNTRACED)
    owner = os.tcgetpgrp(0)
    os.tcsetpgrp(0, os.getpgrp())
    if not os.WIFSTOPPED(status): break
    say("shell: stopped by", os.WSTOPSIG(status), "with the terminal", "rankshim's" if owner == job else "another's")
    while sys.stdin.readline().strip() != "fg": pass
    os.tcsetpgrp(0, job)
    os.killpg(job, signal.SIGCONT)
say("shell: ended with", os.waitstatus_to_exitcode(status))
"""

# The same with the job in the background at first, as after `&`.
BACKGROUND_SHELL = JOB_SHELL.replace("    os.tcsetpgrp(0, os.getpgrp())\n    signal", "    signal", 1)
assert BACKGROUND_SHELL != JOB_SHELL

# Reports each line that it reads, which group has the terminal then, and each CONT and INT. A thread reports the signals:
# a shell's trap, or a handler in Python, whose signal comes just before a read begins runs only after that read.
READER = SAY + """
import os, signal, sys, threading
words = {signal.SIGCONT: "continued", signal.SIGINT: "interrupted"}
arrived, wakeup = os.pipe()
os.set_blocking(wakeup, False)
signal.set_wakeup_fd(wakeup)
for number in words: signal.signal(number, lambda *_: None)
def report_signals():
    while True: say("command:", words[os.read(arrived, 1)[0]])
threading.Thread(target=report_signals, daemon=True).start()
say("command: ready")
for line in iter(sys.stdin.readline, "end\\n"):
    say("command: got", line.strip(), "and the terminal is", "mine" if os.tcgetpgrp(0) == os.getpgrp() else "another's")
sys.exit(7)
"""

# What a container engine's `run -t` does: the leader of a session on the terminal, without another process.
LEADER = """
import fcntl, os, sys, termios
os.setsid()
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execvp(sys.argv[1], sys.argv[1:])
"""

SESSION = SAY + """
tty = os.open("/dev/tty", os.O_RDWR)
say("command: leads its session:", os.getsid(0) == os.getpid(), "and has the terminal:", os.tcgetpgrp(tty) == os.getpgrp())
"""

# Has its terminal by name only: stdin is something else.
BY_NAME = SAY + """
import sys
tty = open("/dev/tty")
say("command: ready")
say("command: got", tty.readline().strip(), "and the terminal is",
    "mine" if os.tcgetpgrp(tty.fileno()) == os.getpgrp() else "another's")
sys.exit(7)
"""

WHOSE = SAY + """
say("command: the terminal is", "mine" if os.tcgetpgrp(0) == os.getpgrp() else "another's")
"""


class Terminal:
    """A program on a new pseudo terminal."""

    def __init__(self, *argv):
        self.master, slave = pty.openpty()
        self.seen = ""
        self.pid = os.fork()
        if self.pid == 0:
            for number in (0, 1, 2):
                os.dup2(slave, number)
            os.closerange(3, 100)
            os.execvp(argv[0], argv)
        os.close(slave)
        os.set_blocking(self.master, False)

    def wait_text(self, text, timeout=PATIENCE):
        """Reads until the text has appeared."""
        deadline = time.monotonic() + timeout
        while text not in self.seen:
            if time.monotonic() > deadline:
                raise NotInTime(f"no {text!r} in {self.seen!r}")
            try:
                self.seen += os.read(self.master, 4096).decode(errors="replace")  # a read may end within a character
            except BlockingIOError:
                time.sleep(0.005)
            except OSError:  # EIO: nobody has it open any more
                assert text in self.seen, self.seen
                return

    def type(self, keys):
        """Types them."""
        os.write(self.master, keys)

    def status(self):
        """Its exit code, when it has ended."""
        ended = until(lambda: os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT), "its end")
        return ended.si_status

    def hang_up(self):
        """As when the window is closed or the line is cut."""
        nothing = os.open(os.devnull, os.O_RDWR)
        os.dup2(nothing, self.master)
        os.close(nothing)

    def close(self):
        """Ends everything on it: the hang-up reaches the session's leader, KILL the rest."""
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.master)


@pytest.fixture
def terminal():
    """A program on a terminal, ended with the test."""
    terminals = []

    def run(*argv, around=()):
        terminals.append(Terminal(*around, sys.executable, "-c", *argv))
        return terminals[-1]

    yield run
    for one in terminals:
        one.close()


@pytest.fixture
def shell(terminal, rankshim):
    """Runs a command under rankshim as a job of a shell on a terminal."""
    return lambda place, *command: terminal(SHELL, place, rankshim, "--", *command)


@pytest.fixture(params=["pid 1", "subreaper"])
def leader(request, terminal, rankshim):
    """Runs rankshim with these words as the leader of a session on a terminal, as a container engine's `run -t` does;
    `before` is a wrapper."""
    if request.param == "pid 1":
        needs_pid_namespaces()
    around = PID_1 if request.param == "pid 1" else ()
    return lambda *words, before=(): terminal(LEADER, *before, rankshim, *words, around=around)


def test_the_command_gets_the_terminal_and_gives_it_back(shell):
    terminal = shell("foreground", sys.executable, "-c", WHOSE)
    terminal.wait_text("command: the terminal is mine")
    terminal.wait_text("shell: the terminal is rankshim's")


def test_in_the_background_it_takes_no_terminal(shell):
    terminal = shell("background", sys.executable, "-c", WHOSE)
    terminal.wait_text("command: the terminal is another's")
    terminal.wait_text("shell: the terminal is another's")


def test_ctrl_c_reaches_the_command_once(shell):
    terminal = shell("foreground", sys.executable, "-c", READER)
    terminal.wait_text("command: ready")
    terminal.type(b"\x03")
    terminal.wait_text("command: interrupted")
    terminal.type(b"end\n")
    terminal.wait_text("shell: the terminal is rankshim's")
    assert terminal.seen.count("command: interrupted") == 1


def test_the_command_reads_what_is_typed(shell):
    terminal = shell("foreground", "sh", "-c", "echo ready; read line; echo got $line")
    terminal.wait_text("ready")
    terminal.type(b"hello\n")
    terminal.wait_text("got hello")


def test_an_interactive_shell_under_it_has_job_control(shell):
    terminal = shell("foreground", "bash", "--norc", "-mc", "echo mode $-; sleep 100 & kill %1; wait; echo over")
    terminal.wait_text("mode")
    terminal.wait_text("over")
    assert "no job control" not in terminal.seen


def test_nested_it_works_as_well(shell, rankshim):
    terminal = shell("foreground", rankshim, "--", sys.executable, "-c", WHOSE)
    terminal.wait_text("command: the terminal is mine")
    terminal.wait_text("shell: the terminal is rankshim's")


def test_ctrl_z_stops_rankshim_with_the_command_and_fg_continues_both(terminal, rankshim):
    shell = terminal(JOB_SHELL, rankshim, "--", sys.executable, "-c", READER)
    shell.wait_text("command: ready")
    for number in range(2):
        shell.type(b"\x1a")
        shell.wait_text(f"shell: stopped by {int(signal.SIGTSTP)} with the terminal rankshim's")
        shell.seen = ""
        shell.type(b"fg\n")
        shell.wait_text("command: continued")
        shell.type(b"hello %d\n" % number)
        shell.wait_text(f"command: got hello {number} and the terminal is mine")
    shell.type(b"end\n")
    shell.wait_text("shell: ended with 7")


def goes_on_in_the_foreground_to_its_end(shell):
    """A stopped job whose command is READER."""
    shell.type(b"fg\n")
    shell.wait_text("command: continued")
    shell.type(b"hello\n")
    shell.wait_text("command: got hello and the terminal is mine")
    shell.type(b"end\n")
    shell.wait_text("shell: ended with 7")


def test_ctrl_z_and_fg_go_through_a_nested_rankshim(terminal, rankshim):
    shell = terminal(JOB_SHELL, rankshim, "--", rankshim, "--", sys.executable, "-c", READER)
    shell.wait_text("command: ready")
    shell.type(b"\x1a")
    shell.wait_text("shell: stopped by")
    goes_on_in_the_foreground_to_its_end(shell)


def test_ctty_gives_the_command_a_session_with_the_terminal(terminal, rankshim):
    leader = terminal(LEADER, rankshim, "--ctty", "--", sys.executable, "-c", SESSION)
    leader.wait_text("command: leads its session: True and has the terminal: True")


def test_without_ctty_the_command_stays_in_rankshims_session(terminal, rankshim):
    leader = terminal(LEADER, rankshim, "--", sys.executable, "-c", SESSION)
    leader.wait_text("command: leads its session: False and has the terminal: True")


def test_a_change_of_the_windows_size_reaches_the_command(terminal, rankshim):
    leader = terminal(LEADER, rankshim, "--", "bash", "-c", "trap 'echo got WINCH; exit' WINCH; echo ready; while :; do read -r -t 0.1; done")
    leader.wait_text("ready")
    fcntl.ioctl(leader.master, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 120, 0, 0))
    leader.wait_text("got WINCH")


def test_a_background_job_that_reads_stops_with_rankshim_and_fg_continues_both(terminal, rankshim):
    shell = terminal(BACKGROUND_SHELL, rankshim, "--", sys.executable, "-c", READER)
    shell.wait_text(f"shell: stopped by {int(signal.SIGTSTP)} with the terminal another's")
    goes_on_in_the_foreground_to_its_end(shell)


def test_ctrl_z_stops_nothing_if_nothing_could_continue_it(leader):
    terminal = leader("--", sys.executable, "-c", READER)
    terminal.wait_text("command: ready")
    for number in range(2):
        terminal.seen = ""
        terminal.type(b"\x1a")
        terminal.wait_text("command: continued")
        terminal.type(b"hello %d\n" % number)
        terminal.wait_text(f"command: got hello {number} and the terminal is mine")
    terminal.type(b"end\n")
    assert terminal.status() == 7


def test_with_a_terminal_too_blocked_and_ignored_signals_reach_the_command_as_they_came(leader):
    # The hand-over needs TSTP, TTIN and TTOU held back for a moment.
    env = ["env", "--default-signal", "--block-signal=USR2,TTIN", "--ignore-signal=USR1,TTOU"]
    terminal = leader("--", "grep", "-E", "Sig(Blk|Ign)", "/proc/self/status", before=env)
    assert terminal.status() == 0
    terminal.wait_text("exited with code 0")
    seen = dict(line.split(":\t") for line in terminal.seen.splitlines() if line.startswith("Sig"))
    assert {field: int(value, 16) for field, value in seen.items()} == {
        "SigBlk": 1 << (signal.SIGUSR2 - 1) | 1 << (signal.SIGTTIN - 1),
        "SigIgn": 1 << (signal.SIGUSR1 - 1) | 1 << (signal.SIGTTOU - 1),
    }


def test_what_giving_the_terminal_up_sends_us_is_no_stop_and_not_passed_on(leader):
    terminal = leader("--ctty", "--", sys.executable, "-c", READER)
    terminal.wait_text("command: ready")
    terminal.type(b"hello\n")
    terminal.wait_text("command: got hello and the terminal is mine")
    terminal.type(b"end\n")
    assert terminal.status() == 7
    terminal.wait_text("exited with code 7")
    assert "SIGHUP" not in terminal.seen and "command: continued" not in terminal.seen


@pytest.mark.parametrize("options", [[], ["--ctty"]], ids=["lent", "its own"])
def test_a_terminal_that_hangs_up_asks_the_command_to_stop_and_its_code_is_reported(leader, options, tmp_path):
    received = tmp_path / "received"
    terminal = leader(*options, "--", "bash", "-c", f"trap 'echo HUP >>{received}; exit 5' HUP; echo ready; while :; do sleep 0.05; done")
    terminal.wait_text("ready")
    terminal.hang_up()
    assert terminal.status() == 5
    assert received.read_text() == "HUP\n"


def leaving(left, then):
    """A script that leaves the script `left` in a new session as soon as that prints a line, and does `then`."""
    return f'coproc setsid bash -c "{left}"; read -r -u ${{COPROC[0]}}; {then}'


def test_ctrl_c_while_what_the_command_left_is_waited_for_kills_it(leader):
    deaf = "trap 'echo asked >&2' TERM; echo up; while :; do sleep 0.1; done"
    script = leaving(deaf, "exit 6")
    terminal = leader("--leftover-grace=60s", "--", "bash", "-c", script)
    terminal.wait_text("asked")
    terminal.type(b"\x03")
    terminal.wait_text("rankshim kills everything")
    assert terminal.status() == 6


def test_ctrl_c_is_a_stop(leader, tmp_path):
    report = tmp_path / "report.json"
    terminal = leader(f"--report={report}", "--hold-on-failure=30m", "--", "sh", "-c", "echo up; exec sleep 1000")
    terminal.wait_text("up")
    terminal.type(b"\x03")
    assert terminal.status() == 130
    ended = json.loads(report.read_text())
    assert (ended["outcome"], ended["stop_signal"], ended["root_cause"]) == ("stopped", "SIGINT", None)


def test_after_a_ctrl_c_the_grace_is_for_what_the_command_left_too(leader):
    deaf = "trap '' TERM; echo up; while :; do sleep 0.1; done"
    script = leaving(deaf, "echo ready; exec sleep 1000")
    terminal = leader("--grace=100ms", "--leftover-grace=60s", "--", "bash", "-c", script)
    terminal.wait_text("ready")
    terminal.type(b"\x03")
    terminal.wait_text("had to be killed")
    assert terminal.status() == 130


def test_after_a_ctrl_c_what_is_left_has_the_grace_of_any_stop(leader, tmp_path):
    saved = tmp_path / "saved"
    saves = f"trap 'sleep 0.5; : >{saved}; exit' TERM; echo up; while :; do sleep 0.05; done"
    script = leaving(saves, "echo ready; exec sleep 1000")
    terminal = leader("--grace=60s", "--leftover-grace=100ms", "--", "bash", "-c", script)
    terminal.wait_text("ready")
    terminal.type(b"\x03")
    assert terminal.status() == 130
    assert saved.exists()


def test_a_launcher_that_reads_what_is_typed_gets_the_terminal(leader, torch_stand_in, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(torch_stand_in))
    read = SAY + "say('ready'); say('got', input())"
    make_torch_stand_in(torch_stand_in, read)
    terminal = leader("--python", sys.executable, "--", str(torch_stand_in / "train.py"))
    terminal.wait_text("ready")
    terminal.type(b"hello\n")
    terminal.wait_text("got hello")
    assert terminal.status() == 0


def test_a_second_ctrl_c_kills_what_torchrun_does_not_end(leader, torch_stand_in, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(torch_stand_in))
    monkeypatch.setenv("WORKER", SAY + "import signal; say('worker is up'); signal.pause()")
    terminal = leader("--python", sys.executable, "--", str(torch_stand_in / "train.py"))
    terminal.wait_text("worker is up")
    terminal.type(b"\x03")
    terminal.wait_text("agent got INT")
    terminal.type(b"\x03")
    terminal.wait_text("a second SIGINT: rankshim kills everything")
    assert terminal.status() == 130
    assert terminal.seen.count("agent got") == 1


@pytest.mark.parametrize("stdin", ["</dev/null", "<&-"])
def test_the_command_gets_the_terminal_though_its_stdin_is_another(leader, stdin):
    terminal = leader("--", sys.executable, "-c", BY_NAME, before=["sh", "-c", f'exec "$@" {stdin}', "sh"])
    terminal.wait_text("command: ready")
    terminal.type(b"hello\n")
    terminal.wait_text("command: got hello and the terminal is mine")
    assert terminal.status() == 7


def test_a_terminal_that_cannot_be_handed_over_is_a_warning_and_stops_nothing(leader):
    # The child's first call is the handing over; ours is refused too, and /dev/tty is asked instead.
    needs_strace()
    refuse = ["strace", "-D", "-qq", "-f", "-o", "/dev/null", "-e", "trace=ioctl", "-e", "inject=ioctl:error=EPERM:when=1"]
    terminal = leader("--", "sh", "-c", "exit 7", before=refuse)
    terminal.wait_text("the terminal cannot be given to the command: Operation not permitted")
    assert terminal.status() == 7


def test_in_the_background_its_own_lines_do_not_stop_it(terminal, rankshim):
    # `stty tostop`: a process that writes in the background gets TTOU.
    forbid = ["sh", "-c", "trap '' TTOU; stty tostop; trap - TTOU; exec \"$@\"", "sh"]
    shell = terminal(BACKGROUND_SHELL, *forbid, rankshim, "--", "sh", "-c", "exit 7")
    shell.wait_text("shell: ended with 7")
    assert "rankshim: " in shell.seen and "stopped" not in shell.seen


def test_a_stopped_job_is_ended_by_term_and_cont_as_a_shells_kill_sends_them(terminal, rankshim):
    shell = terminal(JOB_SHELL, rankshim, "--", sys.executable, "-c", READER)
    shell.wait_text("command: ready")
    shell.type(b"\x1a")
    shell.wait_text("shell: stopped by")
    (job,) = children(shell.pid)
    for number in (signal.SIGTERM, signal.SIGCONT):
        os.killpg(job, number)
    until(lambda: ended(job), "the job's end")
    shell.type(b"fg\n")
    shell.wait_text(f"shell: ended with {128 + signal.SIGTERM}")


@pytest.mark.parametrize("options, call", [
    ((), "setpgid"), ((), "ioctl"), ((), "rt_sigprocmask"), ((), "execve"),
    (("--ctty",), "setsid"), (("--ctty",), "ioctl"), (("--ctty",), "execve"),
])
def test_a_signal_between_fork_and_exec_on_a_terminal_is_not_lost(leader, options, call):
    # As without a terminal (test_signals.py). -D: strace is a child, and rankshim the leader, and PID 1.
    needs_strace()
    hold = ["strace", "-D", "-qq", "-f", "-o", "/dev/null", "-e", f"trace={call}", "-e", f"inject={call}:delay_enter=600000"]
    terminal = leader(*options, "--", "sleep", "100", before=hold)

    def held_child():
        for shim in (pid for pid in [terminal.pid, *descendants(terminal.pid)] if name(pid) == "rankshim"):
            if any(name(pid) == "rankshim" for pid in children(shim)):
                return shim
        return None

    os.kill(until(held_child, "rankshim has a child that is not yet the command"), signal.SIGTERM)
    assert terminal.status() == 128 + signal.SIGTERM
