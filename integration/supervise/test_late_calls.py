"""Each system call of rankshim takes 1.5 seconds once, as on a machine that is too busy: the end is told as it is without that."""

import collections
import concurrent.futures
import os
import re
import sys

import pytest

from lib.process import clean_environment, run
from lib.requirements import needs_strace

pytestmark = [pytest.mark.nightly, pytest.mark.alone]  # beside other tests, 1.5 seconds are not the longest delay

LATE = 1_500_000  # microseconds
# They are seen without that, too: each lives longer than the delay.
JOBS = {
    "torchrun": (["--python", sys.executable, "--", "TRAIN"], {"WORKER": "import sys, time; time.sleep(3); sys.exit(7)"}, 7),
    "native": (["--launcher=native", "--nproc-per-node=2", "--", "sh", "-c", "[ $RANK = 1 ] && { sleep 1; exit 3; }; exec sleep 1000"], {}, 3),
    "restart": (["--job-restarts=1", "--", "sh", "-c", "sleep 0.3; exit $((8 + RANKSHIM_ATTEMPT))"], {}, 9),
}
# What cannot be late (it does not return), and how often the same call is looked at.
NEVER_BACK = ("execve", "exit_group", "rt_sigreturn")
AT_MOST = 4


@pytest.fixture
def ended(rankshim, torch_stand_in, tmp_path_factory):
    """How a job ends under strace with these options: the exit code and rankshim's last line, without its numbers."""

    def ended(job, *options):
        words, env, _ = JOBS[job]
        command = [rankshim, f"--run-dir={tmp_path_factory.mktemp('run')}", *(word.replace("TRAIN", str(torch_stand_in / "train.py")) for word in words)]
        done = run(["strace", "-qq", *options, *command], clean_environment({"PYTHONPATH": str(torch_stand_in), **env}), timeout=120)
        return done.code, re.sub(r"\d+", "N", done.stderr.splitlines()[-1])

    return ended


@pytest.mark.parametrize("job", JOBS)
def test_whichever_call_takes_long_the_end_is_told_as_it_is(ended, tmp_path, job):
    needs_strace()
    usual = ended(job, "-o", str(tmp_path / "trace"))
    assert usual[0] == JOBS[job][2]
    made = collections.Counter(re.findall(r"^(\w+)\(", (tmp_path / "trace").read_text(), re.MULTILINE))
    calls = [(name, number) for name, count in made.items() if name not in NEVER_BACK for number in range(1, min(count, AT_MOST) + 1)]
    assert len(calls) > 80

    def late(call):
        name, number = call
        return ended(job, "-o", "/dev/null", "-e", f"trace={name}", "-e", f"inject={name}:delay_exit={LATE}:when={number}")

    with concurrent.futures.ThreadPoolExecutor(8 * os.cpu_count()) as pool:
        others = {call: end for call, end in zip(calls, pool.map(late, calls)) if end != usual}
    assert others == {}
