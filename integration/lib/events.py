"""Waiting for what happens instead of for time to pass."""

import time


class NotInTime(AssertionError):
    """What was waited for did not happen; the message says what that was."""


def until(condition, timeout, what):
    """Returns the first true value of condition(), or raises NotInTime after `timeout` seconds.

    For facts that the kernel tells nobody about (a socket listens, a process is gone): looked at
    every 5 ms, so that a test goes on as soon as it can.
    """
    deadline = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise NotInTime(f"not within {timeout:g} s: {what}")
        time.sleep(0.005)
