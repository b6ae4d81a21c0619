"""A mesh's proxy: it accepts every connection that is redirected to it, passes it on to where it was meant to go, and closes it where
nobody listens. Both sides keep their addresses. As a program it is the proxy, which runs as another user, whose own connections are
not redirected."""

import encodings.idna  # noqa: F401 - before it becomes another user, who may not read it
import os
import socket
import struct
import sys
import threading

PORT, USER = 15001, 1337
SO_ORIGINAL_DST = 80  # linux/netfilter_ipv4.h


def start(node):
    """The proxy, beside the node's processes."""
    proxy = node.start_beside([sys.executable, __file__], name="proxy")
    proxy.wait_line("listening")
    return proxy


def redirect(node, *which):
    """From now on what leaves the node passes through its proxy: all of it, or what iptables' words say."""
    rule = ["iptables", "-t", "nat", "-A", "OUTPUT", "-p", "tcp", *which, "-m", "owner", "!", "--uid-owner", str(USER),
            "-j", "REDIRECT", "--to-ports", str(PORT)]
    assert node.start_beside(rule, name="iptables").wait() == 0


def pass_on(one, other):
    try:
        while data := one.recv(4096):
            other.sendall(data)
    except OSError:
        pass
    for end in (one, other):
        try:
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


def serve(inside):
    port, address = struct.unpack("!2xH4s8x", inside.getsockopt(socket.SOL_IP, SO_ORIGINAL_DST, 16))
    try:
        outside = socket.create_connection((socket.inet_ntoa(address), port))
    except OSError:
        print("nobody", flush=True)
        return inside.close()
    threading.Thread(target=pass_on, args=(inside, outside), daemon=True).start()
    pass_on(outside, inside)


def main():
    server = socket.create_server(("", PORT))
    os.setuid(USER)
    print("listening", flush=True)
    while True:
        threading.Thread(target=serve, args=(server.accept()[0],), daemon=True).start()


if __name__ == "__main__":
    main()
