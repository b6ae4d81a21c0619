"""While the command runs, rankshim sleeps."""

import pathlib
import re

from lib.events import until
from lib.idle import DAYS, sleeps


def timers(pid):
    """The seconds until each timer that rankshim has armed."""
    infos = "".join(info.read_text() for info in pathlib.Path(f"/proc/{pid}/fdinfo").iterdir())
    return [seconds for seconds in (int(found) for found in re.findall(r"it_value: \((\d+),", infos)) if seconds]


def test_nothing_is_due_while_the_command_runs(start):
    process = start("sleep", "1000")
    shim = process.shim()
    # At the start something is due in a moment. After it the loop sleeps for ever, instead of for Asio's 300 s.
    until(lambda: sleeps(shim) > DAYS and not timers(shim), "nothing is due")
    process.send(15)
    assert process.wait() == 143


def test_it_sleeps_until_what_is_due(start):
    process = start("sh", "-c", "trap 'echo asked' TERM; echo up; while :; do sleep 0.1; done", options=["--grace=1h"])
    process.wait_line("up")
    process.send(15)
    process.wait_line("asked")
    shim = process.shim()
    until(lambda: sleeps(shim) > DAYS and [3000 < due <= 3600 for due in timers(shim)] == [True],
          "it sleeps until the grace is over")
    process.kill()
