"""A worker without torch, connected as in a collective, and the ways in which one can end: peers.py WAY GATE. The last rank
does it once GATE exists. It and the first rank fail when a connection is closed, as gloo's workers do; the others wait."""

import os
import pathlib
import resource
import select
import signal
import socket
import sys
import time

way, gate = sys.argv[1], pathlib.Path(sys.argv[2])
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
is_last = rank == world - 1
at = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]) + 1


def use_memory():
    held = []
    while True:
        held.append(b"x" * (8 << 20))


def fail():
    raise ValueError("boom")


ENDS = {
    "exception": fail,
    "exit": lambda: sys.exit(42),
    "deaf": lambda: sys.exit(42),
    "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "segfault": lambda: os.kill(os.getpid(), signal.SIGSEGV),
    "memory": use_memory,
}

resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
if way == "deaf":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if way == "signalled":
    signal.signal(signal.SIGUSR1, lambda *_: os._exit(9 if is_last else 0))
peers = []
if rank == 0:
    server = socket.create_server(("", at[1]))
    peers = [server.accept()[0] for _ in range(1, world)]
while not peers:
    try:
        peers = [socket.create_connection(at)]
    except ConnectionRefusedError:
        time.sleep(0.02)
sys.stdout.write(f"READY {rank}\n")
sys.stdout.flush()
while is_last and way in ENDS:
    if gate.exists():
        ENDS[way]()
    time.sleep(0.02)
while 0 < rank < world - 1:
    signal.pause()
select.select(peers, [], [])
raise RuntimeError("[/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:538] Connection closed by peer")
