"""A worker under torchrun whose rank 1 ends as its argument demands: `worker.py raise|exit|kill|...`; the others wait
until they are stopped."""

import os
import resource
import signal
import sys
import time

RANK = int(os.environ["RANK"])


def say(text):
    os.write(1, f"{text}\n".encode())


def fail_in_a_call():
    raise ValueError("boom with " + os.environ["MY_TOKEN"])


def use_memory():
    held = []
    while True:
        held.append(b"x" * (8 << 20))


def kill_the_agent():
    os.kill(os.getppid(), signal.SIGKILL)
    wait()


def tell_rankshim(number):
    """Sends the agent's parent a signal."""
    with open(f"/proc/{os.getppid()}/stat") as stat:
        os.kill(int(stat.read().rsplit(")", 1)[1].split()[1]), number)
    wait()


def fail_in_each_attempt():
    sys.exit(3 + int(os.environ["TORCHELASTIC_RESTART_COUNT"]))


def wait():
    while True:
        time.sleep(1000)


ENDS = {
    "raise": fail_in_a_call,
    "exit": lambda: sys.exit(42),
    "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "segfault": lambda: os.kill(os.getpid(), signal.SIGSEGV),
    "memory": use_memory,
    "agent": kill_the_agent,
    "deaf": lambda: tell_rankshim(signal.SIGTERM),
    "notice": lambda: tell_rankshim(signal.SIGUSR1),
    "restart": fail_in_each_attempt,
}


def main(end):
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if end == "deaf":  # as a worker in a collective is
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if end == "notice":  # of a preemption: saves its state and ends
        signal.signal(signal.SIGUSR1, lambda *_: sys.exit(0))
    ready = os.path.join(os.environ["MEET"], os.environ["TORCHELASTIC_RESTART_COUNT"])
    if RANK == 1:
        while not os.path.exists(ready):  # the other one is there
            time.sleep(0.01)
        ENDS[end]()
    open(ready, "w").close()
    wait()


if __name__ == "__main__":
    main(sys.argv[1])
