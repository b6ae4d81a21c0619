"""What rankshim does while the command runs: nothing."""

import os
import re

from lib.events import until

A_YEAR = 365 * 24 * 3600


def due(pid):
    """Of each of the process's timers (timerfd_create(2), /proc/PID/fdinfo) the seconds until it is due; 0 is never."""
    left = []
    for name in os.listdir(f"/proc/{pid}/fdinfo"):
        with open(f"/proc/{pid}/fdinfo/{name}") as file:
            left += [int(seconds) + int(nanoseconds) / 1e9
                     for seconds, nanoseconds in re.findall(r"^it_value: \((\d+), (\d+)\)", file.read(), re.MULTILINE)]
    return left


def test_nothing_is_due_while_the_command_runs(start):
    process = start("sleep", "1000")
    shim = process.shim()
    # At the start something is due in a moment. After it the loop sleeps for ever, instead of for 300 s.
    until(lambda: (left := due(shim)) and max(left) > A_YEAR and all(one == 0 or one > A_YEAR for one in left), 10,
          "nothing is due")
    process.send(15)
    assert process.wait() == 143
