"""What an idle process waits for."""

import pathlib

EPOLL_WAITS = (232, 281, 22)  # epoll_wait and epoll_pwait on x86-64, epoll_pwait on aarch64
DAYS = 24 * 3600 * 1000 * 20  # ms
FOR_EVER = 2**32 - 1  # -1


def sleeps(pid):
    """For how many ms the process sleeps in epoll_wait(2), by /proc/PID/syscall; 0 where it is elsewhere."""
    call, *arguments = pathlib.Path(f"/proc/{pid}/syscall").read_text().split()
    return int(arguments[3], 16) & FOR_EVER if call.isdigit() and int(call) in EPOLL_WAITS else 0
