"""A name server that misbehaves on purpose: `dns_stub.py ADDRESS servfail|silent`.

Prints "ready", then one line "query NAME" for each question.
"""

import socket
import struct
import sys

SERVFAIL = 2


def question(packet):
    """The name asked for, and where its section ends."""
    labels, at = [], 12
    while packet[at]:
        labels.append(packet[at + 1:at + 1 + packet[at]].decode("ascii", "replace"))
        at += 1 + packet[at]
    return ".".join(labels), at + 5


def main(address, behaviour):
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind((address, 53))
    print("ready", flush=True)
    while True:
        packet, client = server.recvfrom(4096)
        name, end = question(packet)
        print("query", name, flush=True)
        if behaviour == "servfail":
            flags = 0x8180 | SERVFAIL
            server.sendto(packet[:2] + struct.pack(">5H", flags, 1, 0, 0, 0) + packet[12:end], client)


if __name__ == "__main__":
    main(*sys.argv[1:])
