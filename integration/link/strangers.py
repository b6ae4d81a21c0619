"""Who else may come to the master's port: python strangers.py HUB PORT NNODES WAY [ARGUMENT]. It prints how that ended."""

import contextlib
import itertools
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


# Votes, ends and leaders that somebody made up.
LATER = {"last": {"number": 1000, "hub": "forged", "voters": 1}, "votes": True, "led": True}
FORGED = [
    {"term": LATER, "leads": True},
    {"term": LATER, "holds": 0},
    {"term": {"last": {"number": -1}}},
    {"term": {"last": {"number": 2**64}, "before": []}},
    {"term": LATER | {"voted": True, "before": LATER["last"], "kept": [{"first": 0, "last": 4, "step": 1}]}},
    {"holds": 2**32 - 1, "listen_port": 2**31, "spares": 2**32 - 1},
    {"failure": {"cause": "stop_requested", "code": 143, "node": 0}},
    {"running": True},
]
SAID = [b"heard {\"number\":%d}" % number for number in (0, 1, 2, 1000)] + [
    b'fail {"cause":"exited","code":1,"node":0}', b'done {"code":0}', b'stop {"culprit":{"node":0}}', b"end {}",
    b'voters {"ballot":{"term":{"number":1000,"hub":"forged","voters":1},"votes":true},"candidates":[]}']


def forged(host, port, nnodes, *ports):
    """Says all that to each of these ports, for ever, with a nonce as who has a token and without one."""
    print("FORGED", flush=True)
    for number in itertools.count():
        for to in (port, *map(int, ports)):
            for rank, members in enumerate(FORGED):
                nonce = {"nonce": "00" * 16} if number % 2 else {}
                said = hello(rank % nnodes, nnodes, port, instance=f"forged-{number}", **nonce, **members)
                with contextlib.suppress(OSError), socket.create_connection((host, to), timeout=1) as connection:
                    connection.sendall(GREETING + b"\n".join([said, b"proof {}" + b"0" * 64, *SAID]) + b"\n")
                    connection.shutdown(socket.SHUT_WR)
                    rest(connection)


def false_hub(host, port, nnodes):
    """Listens there, and says to all who come that the hub is here: at first without a word of a token, then as one that has it."""
    with socket.create_server((host, port), backlog=100) as listener:
        print("LISTENS", flush=True)
        moved = json.dumps({"hub": {"index": 1, "address": host, "port": port}}).encode()
        welcome = json.dumps({"instance": "forged", "rank": 1, "port": port, "pings": 1000, "term": 1000, "running": True,
                              "nonce": "00" * 16}).encode()
        for number in itertools.count():
            connection, _ = listener.accept()
            with contextlib.suppress(OSError), connection:
                connection.settimeout(1)
                connection.recv(4096)
                words = [b"moved " + moved] if number % 2 else [b"welcome " + welcome + b"0" * 64, b'go {"nodes":3,"world":3,"rank":0}']
                connection.sendall(GREETING + b"\n".join(words) + b"\n")
                print("LIED", number, flush=True)


class Insider:
    """A connection of one that has the token."""

    def __init__(self, host, to, secret, said):
        self.said, self.sent = GREETING + said + b"\n", 0
        self.connection = socket.create_connection((host, to), timeout=2)
        self.connection.sendall(self.said)
        self.lines = self.connection.makefile("rb")
        welcome = self.lines.readline().removeprefix(GREETING).rstrip(b"\n")
        self.key = None
        if secret and welcome.startswith(b"welcome "):
            self.key = keyed(secret.encode(), b"rankshim/1\n" + said + b"\n" + welcome[:-64])
            self.say(b"proof {}")

    def say(self, text):
        tag = keyed(self.key, b"p%d " % self.sent + text) if self.key else b""
        self.sent += 1
        self.said += text + tag + b"\n"
        self.connection.sendall(text + tag + b"\n")


SAID_BY_SPARE = SAID + [
    b'fail {"cause":"stop_requested","code":143,"signal":15,"node":0}', b'fail {"cause":"node_lost","node":1}',
    b'seen {"number":4294967295,"more":true,"workers":[{"local_rank":4294967295,"code":-1,"age":4294967295}]}',
    b'looked {"number":0,"local_rank":4294967295,"worker":{"rank":4294967295,"groups":[]}}', b'done {"code":256}', b'done {"code":1}',
    b"go {}", b"welcome {}", b"look {}", b"hello {}"]


def insider(host, port, nnodes, secret, index, *ports):
    """Has the token and the number of a spare, and lies as who it is and in what it says, for ever."""
    answers = {}
    for number in itertools.count():
        for to in map(int, ports):
            for rank, members in [(int(index), {}), *((rank, members) for rank in range(nnodes) for members in FORGED)]:
                nonce = {"nonce": "00" * 16} if secret else {}
                said = hello(rank, nnodes, port, **{"instance": f"insider-{number}", "spares": nnodes - 3, "job_restarts": "100", **nonce, **members})
                with contextlib.suppress(OSError):
                    one = Insider(host, to, secret, said)
                    for text in SAID_BY_SPARE[number % len(SAID_BY_SPARE):]:
                        one.say(text)
                    one.connection.settimeout(0.05)
                    for line in one.lines:
                        answers[line.split()[0]] = answers.get(line.split()[0], 0) + 1
        print("INSIDER", number, answers, flush=True)


def recorded(host, port, nnodes, secret, index, *ports):
    """Says again, byte by byte, what one that has the token said on an earlier connection."""
    for to in map(int, ports):
        nonce = {"nonce": "00" * 16} if secret else {}
        one = Insider(host, to, secret, hello(int(index), nnodes, port, instance="recorded", spares=nnodes - 3, job_restarts="100", **nonce))
        first = one.lines.readline()
        one.say(b'fail {"cause":"exited","code":3}')
        with connect(host, to) as again:
            again.sendall(one.said)
            answer = rest(again)
        print("RECORDED", to, first.split()[:1], [line.split()[0] for line in answer.removeprefix(GREETING).splitlines()], flush=True)
        one.connection.close()


if __name__ == "__main__":
    host, port, nnodes, way = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    {"http": http, "slow": slow, "replayed": replayed, "many": many, "endless": endless, "forged": forged,
     "false_hub": false_hub, "insider": insider, "recorded": recorded}[way](host, port, nnodes, *sys.argv[5:])
