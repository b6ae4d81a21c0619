"""The link of many nodes, by the program that `scripts/scale` runs: node 0 in one process, all others in another."""

import pathlib
import re
import subprocess

import pytest

pytestmark = pytest.mark.nightly
ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def program():
    for command in (["cmake", "--preset", "release"], ["cmake", "--build", "--preset", "release", "--target", "link_scale"]):
        subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    return ROOT / "build" / "release" / "link_scale"


@pytest.mark.parametrize("nodes", [256, 1024, 4096])
def test_a_large_job_launches_and_ends_in_a_moment_and_costs_little(program, nodes):
    done = subprocess.run([program, str(nodes)], capture_output=True, text=True, timeout=150)
    assert done.returncode == 0, done.stdout + done.stderr
    figures = {what: float(value) for what, value in re.findall(r"nodes: (.*?) \| ([\d.]+) (?:ms|kB)", done.stdout)}
    assert figures["memory of node 0 for each"] < 3  # kB
    assert figures["from the last arrival to the last launch"] < 300  # ms
    assert figures["from a failure to the last node that knows"] < 300
