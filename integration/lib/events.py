"""Waiting for what happens instead of for time to pass."""

import time

# Seconds after which an event that must come is taken to be missing. A loaded machine can delay it by half a minute.
PATIENCE = 60


class NotInTime(AssertionError):
    """An event did not happen in time; the message names it."""


def until(condition, what, timeout=PATIENCE):
    """Returns the first true value of condition(), or raises NotInTime after `timeout` seconds.

    For facts that cause no event (a socket listens, a process is gone): they are checked every 5 ms.
    """
    deadline = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise NotInTime(f"not within {timeout:g} s: {what}")
        time.sleep(0.005)
