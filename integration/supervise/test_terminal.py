"""Job control on a terminal: the command has it while it runs, and whoever had it before has it afterwards."""

import fcntl
import os
import pty
import signal
import struct
import sys
import termios
import time

import pytest

from lib.events import NotInTime

# Makes stdin its controlling terminal, and its own group the foreground, as a container engine or a terminal does; then
# runs the rest of its arguments as a child, as a shell would, and says at the end who has the terminal.
SHELL = """
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
print("shell: the terminal is", "rankshim's" if os.tcgetpgrp(0) == child else "another's", flush=True)
"""

# The same with job control: tells when the job has stopped, and continues it in the foreground on a line "fg".
JOB_SHELL = """
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
    print("shell: stopped by", os.WSTOPSIG(status), "with the terminal", "rankshim's" if owner == job else "another's", flush=True)
    while sys.stdin.readline().strip() != "fg": pass
    os.tcsetpgrp(0, job)
    os.killpg(job, signal.SIGCONT)
print("shell: ended with", os.waitstatus_to_exitcode(status), flush=True)
"""

# Says what it reads and by whom the terminal is had, each time.
READER = """
import os, signal, sys
signal.signal(signal.SIGCONT, lambda *_: os.write(1, b"command: continued\\n"))
print("command: ready", flush=True)
for line in iter(sys.stdin.readline, "end\\n"):
    print("command: got", line.strip(), "and the terminal is", "mine" if os.tcgetpgrp(0) == os.getpgrp() else "another's", flush=True)
sys.exit(7)
"""

# What a container engine's `run -t` does: the leader of a session on the terminal, and nobody else.
LEADER = """
import fcntl, os, sys, termios
os.setsid()
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execvp(sys.argv[1], sys.argv[1:])
"""

SESSION = """
import os
tty = os.open("/dev/tty", os.O_RDWR)
print("command: leads its session:", os.getsid(0) == os.getpid(),
      "and has the terminal:", os.tcgetpgrp(tty) == os.getpgrp(), flush=True)
"""

WHOSE = """
import os, sys
print("command: the terminal is", "mine" if os.tcgetpgrp(0) == os.getpgrp() else "another's", flush=True)
"""


class Terminal:
    """A program on a pseudo terminal of its own."""

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

    def wait_text(self, text, timeout=20):
        """Reads until the text has appeared."""
        deadline = time.monotonic() + timeout
        while text not in self.seen:
            if time.monotonic() > deadline:
                raise NotInTime(f"no {text!r} in {self.seen!r}")
            try:
                self.seen += os.read(self.master, 4096).decode()
            except BlockingIOError:
                time.sleep(0.005)
            except OSError:  # EIO: nobody has it open any more
                assert text in self.seen, self.seen
                return

    def type(self, keys):
        """Types them."""
        os.write(self.master, keys)

    def close(self):
        """Ends everything on it: the hang-up reaches the session's leader, KILL the rest."""
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.master)


@pytest.fixture
def terminal():
    """A program on a terminal, ended with the test."""
    terminals = []

    def run(*argv):
        terminals.append(Terminal(sys.executable, "-c", *argv))
        return terminals[-1]

    yield run
    for one in terminals:
        one.close()


@pytest.fixture
def shell(terminal, rankshim):
    """Runs a command under rankshim as a job of a shell on a terminal."""
    return lambda place, *command: terminal(SHELL, place, rankshim, "--", *command)


def test_the_command_gets_the_terminal_and_gives_it_back(shell):
    terminal = shell("foreground", sys.executable, "-c", WHOSE)
    terminal.wait_text("command: the terminal is mine")
    terminal.wait_text("shell: the terminal is rankshim's")


def test_in_the_background_it_takes_no_terminal(shell):
    terminal = shell("background", sys.executable, "-c", WHOSE)
    terminal.wait_text("command: the terminal is another's")
    terminal.wait_text("shell: the terminal is another's")


def test_ctrl_c_reaches_the_command_once(shell):
    terminal = shell("foreground", "bash", "-c", "trap 'echo got INT; exit' INT; echo ready; read -r line; read -r line")
    terminal.wait_text("ready")
    terminal.type(b"\x03")
    terminal.wait_text("got INT")
    terminal.wait_text("shell: the terminal is rankshim's")
    assert terminal.seen.count("got INT") == 1


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


def test_ctrl_z_and_fg_go_through_a_nested_rankshim(terminal, rankshim):
    shell = terminal(JOB_SHELL, rankshim, "--", rankshim, "--", sys.executable, "-c", READER)
    shell.wait_text("command: ready")
    shell.type(b"\x1a")
    shell.wait_text("shell: stopped by")
    shell.type(b"fg\n")
    shell.wait_text("command: continued")
    shell.type(b"hello\n")
    shell.wait_text("command: got hello and the terminal is mine")
    shell.type(b"end\n")
    shell.wait_text("shell: ended with 7")


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
