"""Each system call that rankshim makes, refused."""

import collections
import json
import re
import subprocess

import pytest

from lib.process import clean_environment
from lib.requirements import cannot

REFUSALS = ("ENOMEM", "EAGAIN", "EINTR", "EIO", "ENOSYS", "EPERM", "EMFILE")
# Before main, and what cannot fail.
NOT_OURS = {"execve", "exit", "exit_group", "arch_prctl", "set_tid_address"}
COMMAND = ("/bin/sh", "-c", "exit 7")


@pytest.fixture
def strace(rankshim, tmp_path):
    """Runs COMMAND under rankshim under strace (without -f: the command is not touched): its end and the report."""
    log, report = tmp_path / "calls", tmp_path / "report.json"

    def run(*options):
        report.unlink(missing_ok=True)
        done = subprocess.run(["strace", "-o", log, *options, rankshim, "--report", report, "--", *COMMAND], check=False,
                              env=clean_environment(), capture_output=True, text=True, timeout=30)
        return done, report.read_text() if report.exists() else ""

    run.log = log
    return run


def test_a_refused_call_never_hangs_never_claims_success_and_is_told(strace):
    done, _ = strace()
    if "PTRACE" in done.stderr:
        cannot("ptrace is not permitted")
    assert done.returncode == 7
    calls, seen = [], collections.Counter()
    for name in re.findall(r"^(\w+)\(", strace.log.read_text(), re.MULTILINE):
        seen[name] += 1
        if name not in NOT_OURS:
            calls.append((name, seen[name]))
    assert len(calls) > 50
    wrong = []
    for name, number in calls:
        for refusal in REFUSALS:
            done, report = strace("-e", f"inject={name}:error={refusal}:when={number}")
            last = done.stderr.splitlines()[-1:]
            # It ran and its code is told, or it was not started and a line says what was refused.
            right = done.returncode == 7 or (done.returncode == 71 and "refused" in last[0])
            # The report can lack only where a call of its own was refused, or nothing could be set up at all.
            told = json.loads(report)["exit_code"] if report else None
            if not right or told not in (done.returncode, None):
                wrong.append((name, number, refusal, done.returncode, told, last))
    assert not wrong
