"""A worker without torch, and the ways in which one can end: end.py WAY. Rank 1 ends in that way, and the others wait."""

import os
import resource
import signal
import sys

way, rank = sys.argv[1], int(os.environ["RANK"])
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
if way == "deaf":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if way == "signalled":
    signal.signal(signal.SIGUSR1, lambda *_: os._exit(9 if rank == 1 else 0))
with open(os.environ["GATE"]) as gate:
    sys.stdout.write(f"READY {rank}\n")
    sys.stdout.flush()
    gate.read()  # until all are there
if rank == 1:
    if way == "exception":
        raise ValueError("boom")
    if way in ("exit", "deaf"):
        sys.exit(42)
    if way == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if way == "segfault":
        os.kill(os.getpid(), signal.SIGSEGV)
if way == "well":
    sys.exit(0)
while True:
    signal.pause()
