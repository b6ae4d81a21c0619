"""What rankshim does while the command runs: nothing."""

import pathlib

from lib.events import until

EPOLL_WAITS = (232, 281, 22)  # epoll_wait and epoll_pwait on x86-64, epoll_pwait on aarch64
DAYS = 24 * 3600 * 1000 * 20  # ms
FOR_EVER = 2**32 - 1  # -1


def sleeps(pid):
    """For how many ms the process sleeps in epoll_wait(2), by /proc/PID/syscall; 0 where it is elsewhere."""
    call, *arguments = pathlib.Path(f"/proc/{pid}/syscall").read_text().split()
    return int(arguments[3], 16) & FOR_EVER if call.isdigit() and int(call) in EPOLL_WAITS else 0


def has_timer(pid):
    return any("it_value" in info.read_text() for info in pathlib.Path(f"/proc/{pid}/fdinfo").iterdir())


def test_nothing_is_due_while_the_command_runs(start):
    process = start("sleep", "1000")
    shim = process.shim()
    # At the start something is due in a moment. After it the loop sleeps for weeks, instead of for 300 s.
    until(lambda: sleeps(shim) > DAYS, 10, "nothing is due")
    assert not has_timer(shim)
    process.send(15)
    assert process.wait() == 143


def test_it_sleeps_until_what_is_due(start):
    process = start("sh", "-c", "trap 'echo asked' TERM; echo up; while :; do sleep 0.1; done", options=["--grace=1h"])
    process.wait_line("up", 20)
    process.send(15)
    process.wait_line("asked", 20)
    shim = process.shim()
    until(lambda: 3000 * 1000 < sleeps(shim) <= 3600 * 1000, 10, "it sleeps until the grace is over")
    assert not has_timer(shim)
    process.kill()
