"""`rankshim status --stacks`: what the workers do now, read from outside. Each CPython of the machine, and what is none.

The reader itself is tested with these interpreters in shim/look/python_stack_test.cpp."""

import json
import os
import re
import shlex
import shutil

import pytest

from lib.events import until
from lib.process import Process, clean_environment, run
from lib.pythons import pythons
from lib.requirements import cannot

# Each rank does something else.
SCRIPT = """\
import ctypes, os, re, signal, sys, time
def sleep(): time.sleep(1000)
def stop(): os.kill(os.getpid(), signal.SIGSTOP)
def block():
    ends = os.pipe()
    ctypes.PyDLL(None).read(ends[0], ctypes.create_string_buffer(1), 1)
def search(): re.match("(a+)+$", "a" * 64 + "b")
os.write(1, b"rank %d\\n" % int(os.environ["RANK"]))
(sleep, stop, block, search)[int(os.environ["RANK"])]()
"""
DOES = [
    r"rank 0: in sleep \(train\.py:2\), in the kernel's \S+",
    r"rank 1: stopped by a signal or a debugger, in stop \(train\.py:3\)",
    r"rank 2: in block \(train\.py:6\), in a C call that holds the GIL, in the kernel's \S+",
    r"rank 3: in search \(train\.py:7\), which called match, in a C call that holds the GIL",
]


def stacks(rankshim, folder):
    """The lines of the answer."""
    done = run([rankshim, "status", "--stacks", "--format=json", f"--run-dir={folder}"], clean_environment())
    return json.loads(done.stdout)["lines"] if done.code == 0 else []


@pytest.mark.parametrize("version", sorted(pythons()))
def test_each_workers_line_is_told_whatever_it_does(rankshim, tmp_path, version):
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    job = ["--launcher=native", "--nproc-per-node=4", f"--python={pythons()[version]}", f"--run-dir={tmp_path}", "--", str(script)]
    with Process([rankshim, *job], clean_environment()) as process:
        for rank in range(4):
            process.wait_line(f"^rank {rank}$")

        def told():
            lines = stacks(rankshim, tmp_path)
            return all(any(re.fullmatch(does, line) for line in lines) for does in DOES)

        until(told, "each rank's line: " + "\n".join(stacks(rankshim, tmp_path)))
        assert f"    search ({script}:7)" in stacks(rankshim, tmp_path)


SLEEPS = "import os, time\nos.write(1, b'rank %d\\n' % int(os.environ['RANK']))\ntime.sleep(1000)\n"


def is_said_once(rankshim, tmp_path, python, why, wrapper=()):
    script = tmp_path / "train.py"
    script.write_text(SLEEPS)
    job = ["--launcher=native", "--nproc-per-node=2", f"--python={python}", f"--run-dir={tmp_path}", "--", str(script)]
    with Process([rankshim, *job], clean_environment(), wrapper=wrapper) as process:
        for rank in range(2):
            process.wait_line(f"^rank {rank}$")
        for _ in range(2):
            assert any(line.startswith("rank") for line in stacks(rankshim, tmp_path)), process.transcript()
        process.wait_line(rf"cannot read the Python stack of rank [01] \(pid \d+\): {why}")
        assert process.stderr.count("cannot read") == 1, process.transcript()


def test_that_a_worker_is_pypy_is_said_once(rankshim, tmp_path):
    is_said_once(
        rankshim, tmp_path, shutil.which("pypy3") or cannot("missing: pypy3 (scripts/setup installs it)"), "it is PyPy, not CPython"
    )


WITHOUT_PTRACE = ("setpriv", "--bounding-set=-sys_ptrace", "--inh-caps=-sys_ptrace")


@pytest.fixture
def python_of_another_user(tmp_path):
    """What rankshim without CAP_SYS_PTRACE must not read."""
    if os.geteuid() != 0:
        cannot("only root can start workers as another user")
    python = tmp_path / "python"
    # Its code as a word: the test's folder is closed to others.
    python.write_text(f"#!/bin/sh\nexec setpriv --reuid=65534 --regid=65534 --clear-groups /usr/bin/python3 -c {shlex.quote(SLEEPS)}\n")
    python.chmod(0o755)
    return python


def test_that_a_worker_of_another_user_cannot_be_read_is_said_once(rankshim, tmp_path, python_of_another_user):
    why = "it runs as user 65534, and rankshim, as user 0, has no CAP_SYS_PTRACE"
    is_said_once(rankshim, tmp_path, python_of_another_user, why, WITHOUT_PTRACE)


@pytest.mark.parametrize("scope", [2, 3])
def test_that_yama_forbids_it_is_said_once(rankshim, tmp_path, python_of_another_user, scope):
    """The setting is a file over this kernel's own, which may have no Yama; it refuses for the other user."""
    script = f'mount -t tmpfs none /proc/sys/kernel && mkdir /proc/sys/kernel/yama && echo {scope} >/proc/sys/kernel/yama/ptrace_scope && exec "$@"'
    shown = ("unshare", "--mount", "sh", "-c", script, "sh")
    is_said_once(rankshim, tmp_path, python_of_another_user, rf"the kernel forbids it \(kernel.yama.ptrace_scope is {scope}\)",
                 (*shown, *WITHOUT_PTRACE))
