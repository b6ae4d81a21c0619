"""What rankshim does while the command runs: nothing."""

import os
import re

from lib.events import until

A_YEAR = 365 * 24 * 3600


def seconds_left(pid):
    """Of each of the process's timers (timerfd_create(2), /proc/PID/fdinfo): seconds until it is due; 0 is never."""
    left = []
    for name in os.listdir(f"/proc/{pid}/fdinfo"):
        with open(f"/proc/{pid}/fdinfo/{name}") as file:
            left += [int(seconds) for seconds in re.findall(r"^it_value: \((\d+),", file.read(), re.MULTILINE)]
    return left


def test_nothing_is_due_while_the_command_runs(start):
    process = start("sleep", "1000")
    shim = process.shim()
    # What is due in a moment, at the start, is over once; a timer of 300 s would wake us for ever.
    until(lambda: (left := seconds_left(shim)) and all(one == 0 or one > A_YEAR for one in left), 10, "nothing is due")
    process.send(15)
    assert process.wait() == 143
