"""The soak, briefly; nightly for an hour."""

import json
import os
import pathlib
import signal
import subprocess
import sys

import pytest

from lib.requirements import cannot


@pytest.mark.parametrize("seconds", [10, pytest.param(3600, marks=pytest.mark.nightly)])
def test_after_a_soak_memory_descriptors_and_children_are_as_before(rankshim, seconds):
    if os.geteuid() != 0:
        cannot("only root can have a PID namespace and a small disk")
    signal.alarm(seconds + 400)  # in the place of the limit for one test
    soak = pathlib.Path(__file__).with_name("soak.py")
    done = subprocess.run(["unshare", "--mount", "--propagation", "private", sys.executable, soak, rankshim, str(seconds)],
                          stdout=subprocess.PIPE, text=True, timeout=seconds + 300, check=False)
    figures = json.loads(done.stdout)
    assert not figures["wrong"], done.stdout  # pytest would shorten the figures
    assert done.returncode == 0
    assert figures["sets_of_workers"] > seconds / 2
