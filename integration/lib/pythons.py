"""The Pythons of this machine."""

import functools
import pathlib
import subprocess
import sys


@functools.cache
def pythons():
    """CPython from 3.8 on: the one that runs the tests, Debian's, and those of pyenv."""
    candidates = [
        sys.executable,
        *pathlib.Path("/usr/bin").glob("python3.[89]"),
        *pathlib.Path("/usr/bin").glob("python3.1?"),
        *pathlib.Path.home().glob(".pyenv/versions/3.*/bin/python3"),
    ]
    script = "import sys; sys.version_info >= (3, 8) and print('%d.%d' % sys.version_info[:2])"
    found = {}
    for python in candidates:
        version = subprocess.run([python, "-c", script], capture_output=True, text=True, check=False).stdout.strip()
        found.setdefault(version, str(python))
    return {version: python for version, python in found.items() if version}
