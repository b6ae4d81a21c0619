"""A command whose output lines are events."""

import logging
import os
import pathlib
import re
import selectors
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass

from lib.events import PATIENCE, NotInTime

log = logging.getLogger("rankshim.integration")

# The kernel kills our children with us, however we end: nothing outlives a test run. And a run in a
# shell's background or under nohup must not hand its ignored signals on to what is tested.
DIE_WITH_US = ("env", "--default-signal", "setpriv", "--pdeathsig", "KILL", "--")


# This interpreter's folder first: `python` on a node is the one with torch.
PATH = f"{os.path.dirname(sys.executable)}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def clean_environment(variables=None):
    """An environment of exactly these variables, PATH and HOME; no other variable is inherited."""
    return {"PATH": PATH, "HOME": os.environ.get("HOME", "/"), **(variables or {})}


def exit_code(returncode):
    """A wait status in the shell's convention: N, or 128 + signal."""
    return 128 - returncode if returncode < 0 else returncode


def children(pid):
    """Process ids of the children of all threads of `pid`; none where it has ended."""
    try:
        return [
            int(child)
            for task in os.listdir(f"/proc/{pid}/task")
            for child in pathlib.Path(f"/proc/{pid}/task/{task}/children").read_text().split()
        ]
    except OSError:
        return []


def descendants(pid):
    """Process ids of everything below `pid`, parents first."""
    found = children(pid)
    for child in found:  # grows while it is read
        found += children(child)
    return found


@dataclass(frozen=True)
class Line:
    """One line of output: `at` is time.monotonic(), `stream` is "stdout" or "stderr"."""

    at: float
    stream: str
    text: str


class Process:
    """A running command. Must be started from the main thread (the kernel's parent-death signal
    belongs to the thread) and ended by wait() or kill()."""

    def __init__(self, argv, env, *, name="", cwd=None, wrapper=(), pass_fds=()):
        """`env` is the command's whole environment; `wrapper` starts `argv` in another place."""
        self.name = name or os.path.basename(argv[0])
        self.argv = list(argv)
        self.lines = []
        self._changed = threading.Condition()
        self.started = time.monotonic()
        self.popen = subprocess.Popen(
            [*DIE_WITH_US, *wrapper, *argv],
            env=env, cwd=cwd, pass_fds=pass_fds, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        """Both streams, so that whoever sees a line also sees all that was written before it, on the other too."""
        with selectors.DefaultSelector() as open_pipes:
            started = {}  # the line that each stream has begun
            for stream, pipe in (("stdout", self.popen.stdout), ("stderr", self.popen.stderr)):
                open_pipes.register(pipe, selectors.EVENT_READ, stream)
                started[stream] = b""
            while open_pipes.get_map():
                lines = []
                ready = open_pipes.select()
                while ready and len(lines) < 1000:  # until both are empty; a flood is shown as it comes
                    for key, _ in ready:
                        raw = os.read(key.fd, 65536)
                        *ended, started[key.data] = (started[key.data] + raw).split(b"\n")
                        if not raw:
                            open_pipes.unregister(key.fileobj)
                            key.fileobj.close()
                            ended = [started[key.data]] if started[key.data] else []
                        lines += [Line(time.monotonic(), key.data, line.decode(errors="replace")) for line in ended]
                    ready = open_pipes.select(0) if open_pipes.get_map() else []
                for line in lines:
                    log.info("%s %s| %s", self.name, line.stream[3:], line.text)
                with self._changed:
                    self.lines += lines
                    self._changed.notify_all()

    @property
    def pid(self):
        """The command's process id as this process sees it."""
        return self.popen.pid

    def wait_line(self, pattern, timeout=PATIENCE, *, stream=None, since=0):
        """The first line from lines[since:] that contains the regular expression `pattern`.

        Fails at once when the command has ended without it.
        """
        wanted = re.compile(pattern)
        deadline = time.monotonic() + timeout
        seen = since
        with self._changed:
            while True:
                for line in self.lines[seen:]:
                    if wanted.search(line.text) and stream in (None, line.stream):
                        return line
                seen = len(self.lines)
                if not self._reader.is_alive():
                    raise NotInTime(f"{self.name} ended without the line /{pattern}/:\n{self.transcript()}")
                if time.monotonic() > deadline:
                    raise NotInTime(f"no line /{pattern}/ from {self.name} in {timeout:g} s:\n{self.transcript()}")
                # The reader's end causes no notification: look again now and then.
                self._changed.wait(min(0.1, max(0.0, deadline - time.monotonic())))

    def wait(self, timeout=PATIENCE):
        """Waits for the end and all output; the exit code in the shell's convention."""
        try:
            self.popen.wait(timeout)
        except subprocess.TimeoutExpired:
            raise NotInTime(f"{self.name} did not end in {timeout:g} s:\n{self.transcript()}") from None
        self.ended = time.monotonic()
        self._reader.join(5)  # bounded: a leftover process might still have a pipe open
        return exit_code(self.popen.returncode)

    def signal(self, number):
        """Sends a signal to the command itself."""
        os.kill(self.pid, number)

    def kill(self):
        """Ends it and everything that it started, in other sessions too. May be called again."""
        if self.popen.poll() is None:
            for pid in [*descendants(self.popen.pid), self.popen.pid]:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
        self.popen.wait(PATIENCE)
        self._reader.join(5)

    def text(self, stream):
        """All of one stream so far."""
        return "".join(line.text + "\n" for line in list(self.lines) if line.stream == stream)

    @property
    def stdout(self):
        return self.text("stdout")

    @property
    def stderr(self):
        return self.text("stderr")

    def transcript(self):
        """The last lines of both streams with times since the start, for a person."""
        shown = list(self.lines)[-60:]
        return "\n".join(f"  {line.at - self.started:7.3f} {line.stream[3:]}| {line.text}" for line in shown)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()


def run(argv, env, *, timeout=PATIENCE, **how):
    """Runs a command to its end; the ended Process with its exit code as `.code`."""
    with Process(argv, env, **how) as process:
        process.code = process.wait(timeout)
        return process


def shell(script):
    return ["sh", "-c", script]


def last_line(process):
    return process.stderr.strip().splitlines()[-1]
