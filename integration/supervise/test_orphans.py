"""Processes that end without a parent."""

import os
import pathlib
import shutil
import signal
import subprocess

import pytest

from lib.events import until
from lib.process import children
from lib.requirements import cannot
from supervise.conftest import status


@pytest.fixture(scope="module")
def orphans(tmp_path_factory):
    """A program that makes orphans: lib/orphans.c."""
    if shutil.which("cc") is None:
        cannot("there is no C compiler")
    program = tmp_path_factory.mktemp("orphans") / "orphans"
    subprocess.run(["cc", "-O1", "-o", program, pathlib.Path(__file__).parent.parent / "lib" / "orphans.c"], check=True)
    return program


# A byte that each left would show after 20,000.
@pytest.mark.costly
@pytest.mark.parametrize("thousands", [20, pytest.param(100, marks=pytest.mark.nightly)])
def test_ten_thousand_orphans_at_once_and_more_in_a_row_leave_nothing(start, orphans, tmp_path, thousands):
    go = tmp_path / "go"
    os.mkfifo(go)
    wait = f"read word <{go}"
    many = f"{orphans} 10000 1 && {orphans} 1000 {thousands}"
    process = start("dash", "-c", f"{orphans} 100 1; echo warm; {wait}; {many} && echo done; {wait}")
    process.wait_line("warm")
    shim = process.shim()
    # Its own memory: of the binary's file the kernel maps 64 KiB more wherever a new part of it is executed.
    before = int(status(shim, "RssAnon").split()[0])
    go.write_text("on\n")
    process.wait_line("done", timeout=200)
    # Only the command is left: a zombie would be listed.
    until(lambda: len(children(shim)) == 1, "all orphans are reaped")
    assert int(status(shim, "RssAnon").split()[0]) <= before + 16
    go.write_text("on\n")
    assert process.wait() == 0


def test_orphans_that_end_before_the_command_starts_are_reaped(start, request):
    """Of an exec probe, for example."""
    if request.node.callspec.params["start"] == "subreaper":
        return  # there are none: nobody is below it yet
    process = start("true", options=["--nnodes=2", "--node-rank=1", "--master-addr=no-such-master.invalid", "--wait=dns"])
    process.wait_line("waiting|not resolve")
    shim = process.shim()
    probe = ["nsenter", f"--target={shim}", "--pid", "--mount", "sh", "-c", "sleep 0.2 & echo $!"]
    for _ in range(3):
        subprocess.run(probe, check=True, stdout=subprocess.DEVNULL)
    assert until(lambda: children(shim), "the orphans are rankshim's")
    until(lambda: not children(shim), "all orphans are reaped")
    process.send(signal.SIGTERM)
    assert process.wait() == 143


# A leftover; at TERM it stays and makes orphans that end at once.
LINGERER = "trap 'for _ in {1..50}; do (true &); done; echo asked >&2' TERM; exec 3<> <(:); wait $!; echo up; " \
           "while :; do read -r -t 0.2 -u 3; done"


def test_orphans_that_end_after_the_command_are_reaped_too(start):
    script = 'coproc setsid bash -c "$0"; read -r -u ${COPROC[0]}; exit 6'
    process = start("bash", "-c", script, LINGERER, options=["--leftover-grace", "1h"])
    shim = process.shim()
    process.wait_line("asked")
    until(lambda: len(children(shim)) == 1, "only what was left behind is there")
    process.send(signal.SIGINT)
    assert process.wait() == 6
