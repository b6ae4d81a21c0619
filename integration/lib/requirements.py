"""What a test needs of the machine."""

import os
import subprocess

import pytest


def cannot(reason):
    """Skips the test with the reason; fails it with CI=true, where everything must be tried."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"CI=true, but {reason}", pytrace=False)
    pytest.skip(reason)


def needs_strace():
    """For what strace holds or refuses."""
    if subprocess.run(["strace", "-e", "trace=none", "true"], capture_output=True).returncode != 0:
        cannot("strace cannot trace here")
