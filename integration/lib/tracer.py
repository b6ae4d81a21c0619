"""tracer.c, built once for a test run."""

import os
import shutil
import subprocess

from lib.process import clean_environment
from lib.requirements import cannot


def build(folder):
    """The tracer's path; skips where it cannot be built or may not trace."""
    if shutil.which("cc") is None:
        cannot("there is no C compiler")
    program = folder / "tracer"
    source = os.path.join(os.path.dirname(__file__), "tracer.c")
    subprocess.run(["cc", "-O1", "-o", program, source], check=True)
    if subprocess.run([program, "count", "--", "/bin/true"], capture_output=True).returncode != 0:
        cannot("ptrace is not permitted")
    return program


def run(tracer, *arguments, pid_1, within=(), timeout=200):
    """The tracer's lines, each as its words; `within` is a command that starts it."""
    done = subprocess.run([*within, tracer, *(["--pid-1"] if pid_1 else []), "--limit", "60", *arguments],
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=timeout, env=clean_environment())
    assert done.returncode == 0
    return [line.split() for line in done.stdout.splitlines()]
