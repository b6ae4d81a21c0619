"""What a test needs of the machine."""

import os
import shutil
import subprocess

import pytest


def cannot(reason):
    """Skips the test with the reason; fails it with CI=true, where everything must be tried."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"CI=true, but {reason}", pytrace=False)
    pytest.skip(reason)


def why_not_static(program):
    """Why a place without libraries cannot run this program; None where it can."""
    headers = subprocess.run(["readelf", "--program-headers", program], check=True, capture_output=True).stdout
    return f"{program} is not static" if b"INTERP" in headers else None


def needs_strace():
    """For what strace holds or refuses."""
    if not shutil.which("strace") or subprocess.run(["strace", "-e", "trace=none", "true"], capture_output=True).returncode != 0:
        cannot("strace cannot trace here")
