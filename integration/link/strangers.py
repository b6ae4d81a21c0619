"""Who else may come to the master's port: python strangers.py HUB PORT NNODES WAY [ARGUMENT]. It prints how that ended."""

import contextlib
import json
import resource
import socket
import sys
import threading
import time

from peer import GREETING, hello, keyed

PATIENCE = 60


def connect(host, port):
    return socket.create_connection((host, port), timeout=PATIENCE)


def rest(connection):
    """All that the hub sends until it closes; the timeout is an error."""
    received = b""
    try:
        while data := connection.recv(4096):
            received += data
    except ConnectionError:
        pass
    return received


def http(host, port, nnodes):
    with connect(host, port) as browser:
        browser.sendall(b"GET / HTTP/1.1\r\nHost: job-node-0\r\n\r\n")
        print("HTTP", rest(browser))


def slow(host, port, nnodes):
    with connect(host, port) as writer:
        began = time.monotonic()
        try:
            for byte in GREETING + hello(1, nnodes, port, instance="slow") + b"\n":
                writer.sendall(bytes([byte]))
                time.sleep(0.2)
        except ConnectionError:
            pass
        print("SLOW", rest(writer) == b"" or "greeted", "after", round(time.monotonic() - began))


def replayed(host, port, nnodes):
    """What somebody has recorded: a hello with its nonce, and a proof."""
    said = hello(1, nnodes, port, instance="recorded", nonce="00" * 16)
    for tag in (keyed(b"guessed", b"p0 proof {}"), b""):
        with connect(host, port) as connection:
            connection.sendall(GREETING + said + b"\nproof {}" + tag + b"\n")
            answer = rest(connection)
            print("REPLAYED", answer.startswith(GREETING + b"welcome ") and answer.count(b"\n") == 1)


def many(host, port, nnodes, count):
    """Holds as many connections as it may, and says nothing on them."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    held = []
    for _ in range(int(count)):
        held.append(connect(host, port))
        held[-1].sendall(GREETING[:1])
        if len(held) > min(limit - 64, 2000):
            held.pop(0).close()
    print("MANY", len(held), flush=True)
    time.sleep(1000)


def endless(host, port, nnodes):
    """Says what counts for nothing, to the master's port and to the one for those who come back, from many connections and for ever."""
    for nonce in ("", "00" * 16):
        with connect(host, port) as first, first.makefile("rb") as lines:
            first.sendall(GREETING + hello(1, nnodes, port, instance="x", attempt="7", nonce=nonce) + b"\n")
            answer = lines.readline()
        if answer.startswith(GREETING + b"welcome "):
            way_back = json.JSONDecoder().raw_decode(answer.decode("latin-1"), answer.index(b"{"))[0]["port"]
    print("ENDLESS", way_back, flush=True)

    def speak(to, begin, words):
        while True:
            with contextlib.suppress(OSError), connect(host, to) as connection:
                connection.sendall(GREETING + begin)
                while True:
                    connection.sendall(words)

    own = hello(1, nnodes, port, instance="y", attempt="7") + b"\n"
    for to in (port, way_back):
        for begin, words in ((b"", b"hello {}\n" * 4096), (own, b"ping {}\n" * 4096)):
            threading.Thread(target=speak, args=(to, begin, words)).start()


if __name__ == "__main__":
    host, port, nnodes, way = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    {"http": http, "slow": slow, "replayed": replayed, "many": many, "endless": endless}[way](host, port, nnodes, *sys.argv[5:])
