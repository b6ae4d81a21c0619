"""Another implementation of a peer, made from docs/protocol.md alone, and many of them in one process.

    python peer.py HUB PORT NNODES FIRST LAST [TOKEN]   the nodes FIRST to LAST of NNODES; a line for each event

It prints "CONNECTED n" when n are welcome, "GO n" when n were told to launch, and "STOP n" when n were told to stop, each
when that holds for all of them, with what the last one was told. It ends when all connections have ended.
"""

import asyncio
import hashlib
import json
import os
import resource
import sys

GREETING = b"RSHM\x01"
HELLO, WELCOME, PROOF, GO, STOP, DONE = 1, 2, 3, 7, 9, 11


def keyed(key, *parts):
    return hashlib.blake2b(b"".join(parts), key=key, digest_size=32).digest()


def frame(kind, tagged=False, **members):
    body = json.dumps(members).encode()
    return len(body).to_bytes(2, "big") + bytes([kind | 0x80 * tagged]) + body


def hello(rank, nnodes, port, **members):
    return frame(HELLO, run="rankshim", rank=rank, nnodes=nnodes, workers=1, launcher="native", master="job-node-0", port=port,
                 host=f"peer-{rank}", version="other", **members)


class Peer:
    def __init__(self, told, reader, writer, secret):
        self.told, self.reader, self.writer, self.secret = told, reader, writer, secret
        self.key, self.sent, self.received, self.launched = None, 0, 0, False

    def send(self, kind, **members):
        data = frame(kind, self.key is not None, **members)
        tag = keyed(self.key, b"p", self.sent.to_bytes(8, "big"), data) if self.key else b""
        self.sent += self.key is not None
        self.writer.write(data + tag)

    async def read(self):
        head = await self.reader.readexactly(3)
        data = head + await self.reader.readexactly(int.from_bytes(head[:2], "big"))
        kind = head[2] & 0x7F
        if head[2] & 0x80:
            tag = await self.reader.readexactly(32)
            if kind == WELCOME:
                self.key = keyed(hashlib.blake2b(self.secret, digest_size=32).digest(), b"rankshim/1", self.hello, data)
                self.key = hashlib.blake2b(self.key, digest_size=32).digest()
            assert tag == keyed(self.key, b"h", self.received.to_bytes(8, "big"), data), "the hub's tag is right"
            self.received += 1
        return kind, json.loads(data[3:])

    async def run(self, rank, nnodes, port, **members):
        """Ends when the connection does, or when the hub does not answer within 3 s."""
        self.hello = hello(rank, nnodes, port, **members, **({"nonce": os.urandom(16).hex()} if self.secret else {}))
        self.writer.write(GREETING + self.hello)
        async with asyncio.timeout(3) as limit:
            await self.reader.readexactly(len(GREETING))
            while True:
                kind, message = await self.read()
                if kind == WELCOME:
                    limit.reschedule(None)
                    if self.secret:
                        self.send(PROOF)
                    self.told("CONNECTED", message)
                elif kind == GO:
                    self.launched = True
                    self.told("GO", message)
                elif kind == STOP:
                    self.told("STOP", message)
                    self.send(DONE, code=143)
                    self.writer.write_eof()


async def connect(host, port):
    while True:
        try:
            return await asyncio.open_connection(host, port)
        except OSError:
            await asyncio.sleep(0.1)


async def main(host, port, nnodes, first, last, secret=""):
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    port, counts = int(port), {}
    ranks = range(int(first), int(last) + 1)

    def told(event, message):
        counts[event] = counts.get(event, 0) + 1
        if counts[event] == len(ranks):
            print(event, counts[event], json.dumps(message), flush=True)

    async def one(rank):
        instance = os.urandom(8).hex()  # it is the same node that connects again
        while True:
            reader, writer = await connect(host, port)
            peer = Peer(told, reader, writer, secret.encode())
            try:
                await peer.run(rank, int(nnodes), port, instance=instance)
            except (TimeoutError, asyncio.IncompleteReadError, ConnectionError):
                if peer.launched:
                    return
            finally:
                writer.close()

    await asyncio.gather(*(one(rank) for rank in ranks))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
