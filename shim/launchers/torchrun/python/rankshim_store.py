"""Helps a worker to reach torch's store (sitecustomize.py, answer_questions)."""

import os


def wait_for_store(host, port):
    """Returns once something listens there, or after a quarter of a second."""
    import errno
    import socket
    import time

    places = socket.getaddrinfo(host, port, 0, socket.SOCK_STREAM)
    for power in range(8):
        refused = False
        for family, kind, protocol, _, address in places:
            probe = socket.socket(family, kind, protocol)
            try:
                probe.settimeout(0.25)
                probe.connect(address)
                return
            except socket.error as error:
                refused = refused or error.errno == errno.ECONNREFUSED
            finally:
                probe.close()
        if not refused:
            return
        time.sleep(0.001 * 2 ** power)


def connect_sooner(torch):
    """Makes clients of torch's store wait a moment for rank 0, which opens the store. Prepared workers all arrive at the
    same moment, and torch's client, once refused, pauses for 0.25 to 0.75 s (torch/csrc/distributed/c10d/Backoff.hpp). Does
    nothing in a large job, where the store is busy enough."""
    begin = torch.TCPStore.__init__
    names = "host_name", "port", "world_size", "is_master"

    def init(self, *arguments, **options):
        try:
            given = dict(zip(names, arguments), **options)
            opens = given.get("is_master") or os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
            if not opens and int(os.environ.get("WORLD_SIZE", "0")) <= 1024:
                wait_for_store(given["host_name"], given["port"])
        except Exception:
            pass
        return begin(self, *arguments, **options)

    torch.TCPStore.__init__ = init
