"""Waiting for what happens instead of for time to pass."""

import time

# Seconds after which an event that must come is taken to be missing. A loaded machine can delay it by half a minute.
PATIENCE = 60


class NotInTime(AssertionError):
    """An event did not happen in time; the message names it."""


def until(condition, what, timeout=PATIENCE):
    """Returns the first true value of condition(), or raises NotInTime after `timeout` seconds.

    For facts that cause no event (a socket listens, a process is gone): they are checked every 5 ms, and less often in
    a long wait, because a check may take as much of a processor as what is waited for.
    """
    start = time.monotonic()
    while True:
        value = condition()
        if value:
            return value
        waited = time.monotonic() - start
        if waited > timeout:
            raise NotInTime(f"not within {timeout:g} s: {what}")
        time.sleep(min(max(0.005, waited / 20), 0.1))
