"""Another implementation of a peer, made from docs/protocol.md alone, and many of them in one process.

    python peer.py HUB PORT NNODES FIRST LAST [TOKEN [WORKERS [CODE]]]   the nodes FIRST to LAST of NNODES; a line for each event

It prints "CONNECTED n" when n are welcome, "GO n" when n were told to launch, and "STOP n" when n were told to stop, each
when that holds for all of them, with what the last one was told. With CODE each command ends at once, with that code.
It ends when all connections have ended.
"""

import asyncio
import hashlib
import json
import os
import resource
import sys

GREETING = b"\x00\xce\xf7\x85\x3c\x07RSHM\x02"


def keyed(key, text):
    """The tag of a text, as hexadecimal digits."""
    return hashlib.blake2b(text, key=hashlib.blake2b(key, digest_size=32).digest(), digest_size=32).hexdigest().encode()


def message(kind, **members):
    return f"{kind} {json.dumps(members)}".encode()


def hello(rank, nnodes, port, **members):
    return message("hello", run="rankshim", rank=rank, nnodes=nnodes, launcher="native", master="job-node-0", port=port,
                   host=f"peer-{rank}", version="other", **members)


class Peer:
    def __init__(self, told, reader, writer, secret):
        self.told, self.reader, self.writer, self.secret = told, reader, writer, secret
        self.key, self.sent, self.received, self.launched, self.stops = None, 0, 0, False, False

    def send(self, kind, **members):
        text = message(kind, **members)
        tag = keyed(self.key, b"p%d " % self.sent + text) if self.key else b""
        self.sent += 1
        self.writer.write(text + tag + b"\n")

    async def read(self):
        line = (await self.reader.readuntil(b"\n"))[:-1]
        end = line.rindex(b"}") + 1
        text, tag = line[:end], line[end:]
        kind, _, members = text.partition(b" ")
        if kind == b"welcome" and tag:
            self.key = keyed(self.secret, b"rankshim/1\n" + self.hello + b"\n" + text)
        if self.key:
            assert tag == keyed(self.key, b"h%d " % self.received + text), "the hub's tag is right"
            self.received += 1
        return kind.decode(), json.loads(members)

    async def ping(self, interval):
        """Shows the hub that this node is awake, as often as it expects that; 0: it does not."""
        while interval and not self.stops and not self.writer.is_closing():
            self.send("ping")
            await asyncio.sleep(interval)

    def done(self, code, workers):
        self.send("done", code=code, workers=[{"local_rank": one, "code": code, "age": 0} for one in range(workers)])

    async def run(self, rank, nnodes, port, workers, code, **members):
        """Ends when the connection does, or when the hub does not answer within 3 s."""
        self.hello = hello(rank, nnodes, port, workers=workers, **members, **({"nonce": os.urandom(16).hex()} if self.secret else {}))
        self.writer.write(GREETING + self.hello + b"\n")
        async with asyncio.timeout(3) as limit:
            await self.reader.readexactly(len(GREETING))
            pings = None
            while True:
                kind, members = await self.read()
                if kind == "welcome":
                    limit.reschedule(None)
                    if self.secret:
                        self.send("proof")
                    self.told("CONNECTED", members)
                    interval = members["pings"] / 1000
                elif kind == "go":
                    self.launched = True
                    pings = pings or asyncio.create_task(self.ping(interval))
                    self.told("GO", members)
                    if code is not None:
                        self.done(code, workers)
                elif kind == "stop":
                    self.told("STOP", members)
                    self.stops = True
                    if code is None:
                        self.done(143, workers)
                    self.writer.write_eof()


async def connect(host, port):
    while True:
        try:
            return await asyncio.open_connection(host, port)
        except OSError:
            await asyncio.sleep(0.1)


async def main(host, port, nnodes, first, last, secret="", workers=1, code=None):
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    port, counts = int(port), {}
    ranks = range(int(first), int(last) + 1)

    def told(event, members):
        counts[event] = counts.get(event, 0) + 1
        if counts[event] == len(ranks):
            print(event, counts[event], json.dumps(members), flush=True)

    async def one(rank):
        instance = os.urandom(8).hex()  # it is the same node that connects again
        while True:
            reader, writer = await connect(host, port)
            peer = Peer(told, reader, writer, secret.encode())
            try:
                await peer.run(rank, int(nnodes), port, int(workers), code and int(code), instance=instance)
            except (TimeoutError, asyncio.IncompleteReadError, ConnectionError):
                if peer.launched:
                    return
            finally:
                writer.close()

    await asyncio.gather(*(one(rank) for rank in ranks))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
