"""What an idle process waits for."""

import contextlib
import pathlib
import re

EPOLL_WAITS = (232, 281, 22)  # epoll_wait and epoll_pwait on x86-64, epoll_pwait on aarch64
DAYS = 24 * 3600 * 1000 * 20  # ms
FOR_EVER = 2**32 - 1  # -1


def sleeps(pid):
    """For how many ms the process sleeps in epoll_wait(2), by /proc/PID/syscall and its timers; 0 where it is elsewhere."""
    timers = timers_of(pid)
    call, *arguments = pathlib.Path(f"/proc/{pid}/syscall").read_text().split()
    if not call.isdigit() or int(call) not in EPOLL_WAITS:
        return 0
    return min(int(arguments[3], 16) & FOR_EVER, *timers, FOR_EVER)


def timers_of(pid):
    """In how many ms each timer of the process is due, if it is set."""
    texts = []
    for info in pathlib.Path(f"/proc/{pid}/fdinfo").iterdir():
        with contextlib.suppress(FileNotFoundError):  # it has been closed meanwhile
            texts.append(info.read_text())
    values = [re.search(r"^it_value: \((\d+), (\d+)\)$", text, re.MULTILINE) for text in texts]
    times = [int(value[1]) * 1000 + int(value[2]) / 1e6 for value in values if value]
    return [time for time in times if time != 0]
