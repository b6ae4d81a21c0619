"""While the command runs, rankshim sleeps."""

import itertools
import os

from lib.events import until
from lib.idle import DAYS, sleeps


def test_nothing_is_due_while_the_command_runs(start):
    process = start("sleep", "1000")
    shim = process.shim()
    # At the start something is due in a moment. After it the loop sleeps for ever, instead of for 300 s.
    until(lambda: sleeps(shim) > DAYS, "nothing is due")
    assert len(os.listdir(f"/proc/{shim}/task")) == 1  # the released libc is built for one thread
    process.send(15)
    assert process.wait() == 143


def test_it_sleeps_until_what_is_due(start):
    process = start("sh", "-c", "trap 'echo asked' TERM; echo up; while :; do sleep 0.1; done", options=["--grace=1h"])
    process.wait_line("up")
    process.send(15)
    process.wait_line("asked")
    shim = process.shim()
    until(lambda: 3000 * 1000 < sleeps(shim) <= 3600 * 1000, "it sleeps until the grace period is over")
    process.kill()


def test_it_sleeps_again_after_what_was_due(start):
    job = {"NNODES": "2", "NODE_RANK": "0", "MASTER_ADDR": "127.0.0.1"}
    process = start("sh", "-c", "echo up; while :; do sleep 0.1; done", options=["--wait=none"], env=job)
    process.wait_line("up")
    until(lambda: 10_000 < sleeps(process.shim()) <= 15_000, "after the look at 5 s it sleeps until the one at 20 s")
    process.kill()


def test_it_looks_ever_more_rarely_at_a_memory_limit_where_nothing_is_killed(start, tmp_path):
    """A full page cache raises `max` all the time."""
    (tmp_path / "group").write_text("0::/\n")
    events = tmp_path / "memory.events"
    events.write_text("oom_kill 0\nmax 000000\n")
    cgroup = f'mount --bind {tmp_path} /sys/fs/cgroup && mount --bind {tmp_path}/group /proc/$$/cgroup && exec "$@"'
    process = start("sleep", "1000", before=["unshare", "--mount", "sh", "-c", cgroup, "sh"])
    shim, rises = process.shim(), itertools.count(1)

    def pressed():
        with events.open("r+") as file:  # as long as before: nobody reads a part of it
            file.write(f"oom_kill 0\nmax {next(rises):06}\n")
        return 1000 < sleeps(shim) <= 10_000

    until(pressed, "more than a second is between two looks", 20)
    process.kill()
