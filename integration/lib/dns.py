"""Name servers for a network of nodes: dnsmasq, and where a server must misbehave, one of our own."""

import os
import pathlib
import signal
import sys
import tempfile

from lib.events import PATIENCE
from lib.process import Process, clean_environment

DOMAIN = "cluster.local"
NAMESPACE_DOMAIN = f"default.svc.{DOMAIN}"


def full_name(name):
    """A short pod or service name as the cluster's DNS knows it; full names stay as they are."""
    return name if name.endswith(DOMAIN) else f"{name}.{NAMESPACE_DOMAIN}"


def _addresses(places):
    """The IPv4 addresses of nodes; strings are addresses already."""
    return [place if isinstance(place, str) else place.address for place in places]


def _dnsmasq(namespace, address, *options, name):
    server = Process(
        ["dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--no-resolv", "--no-hosts", "--pid-file=",
         "--user=root", "--bind-interfaces", "--except-interface=lo", "--log-queries", "--log-facility=-",
         f"--listen-address={address}", *options],
        clean_environment(), name=name, wrapper=namespace.entry,
    )
    server.wait_line("started, version", 20)
    return server


class Dnsmasq:
    """Answers NXDOMAIN for everything until it is published; publishing shows at once."""

    def __init__(self, namespace, address, folder):
        self.address = address
        self._records = pathlib.Path(tempfile.mkdtemp(prefix="records-", dir=folder))
        self._scratch = pathlib.Path(tempfile.mkdtemp(prefix="scratch-", dir=folder))
        self._server = _dnsmasq(
            namespace, address, f"--hostsdir={self._records}", f"--local=/{DOMAIN}/", "--local=/#/", name="dns"
        )

    def publish(self, name, *places):
        """Gives `name` the addresses of these nodes (or these addresses)."""
        name = full_name(name)
        new = self._scratch / name
        new.write_text("".join(f"{address} {name}\n" for address in _addresses(places)))
        before = len(self._server.lines)
        os.rename(new, self._records / name)
        self._server.wait_line(f"read .*{name}", 10, since=before)

    def wait_query(self, name, timeout=PATIENCE):
        """Waits until somebody has asked for this very name; the log line."""
        return self._server.wait_line(rf"query\[A+\] {name} ", timeout)

    def queries(self):
        """Every query so far, as "TYPE name"."""
        found = []
        for line in list(self._server.lines):
            words = line.text.split()
            for at, word in enumerate(words):
                if word.startswith("query["):
                    found.append(f"{word[6:-1]} {words[at + 1]}")
        return found

    def query_times(self):
        """When the server told of each query so far, by time.monotonic()."""
        return [line.at for line in list(self._server.lines) if "query[" in line.text]

    def close(self):
        self._server.kill()


class AuthoritativeAndCache:
    """As in a cluster: negative answers carry an SOA, and the cache keeps them for its minimum."""

    def __init__(self, namespace, address, folder, negative_ttl):
        self.address = address
        self._records = pathlib.Path(tempfile.mkdtemp(prefix="zone-", dir=folder)) / "hosts"
        self._records.write_text("")
        net, _, host = address.rpartition(".")
        authority = f"{net}.{int(host) + 1}"
        namespace.ip("addr", "add", f"{authority}/24", "dev", "eth0")
        namespace.ip("link", "set", "eth0", "up")
        self._authority = _dnsmasq(
            namespace, authority, f"--auth-server=ns.dns.{DOMAIN},{authority}", f"--auth-zone={DOMAIN},{net}.0/24",
            f"--auth-soa=1,hostmaster.{DOMAIN},60,60,60", f"--auth-ttl={negative_ttl}",
            f"--addn-hosts={self._records}", name="authority",
        )
        try:
            self._cache = _dnsmasq(namespace, address, f"--server=/{DOMAIN}/{authority}", "--local=/#/", name="cache")
        except BaseException:
            self._authority.kill()
            raise

    def publish(self, name, *places):
        """Gives `name` these addresses; a client that has asked before sees them only after the negative TTL."""
        with open(self._records, "a", encoding="ascii") as records:
            records.writelines(f"{address} {full_name(name)}\n" for address in _addresses(places))
        before = len(self._authority.lines)
        self._authority.signal(signal.SIGHUP)
        self._authority.wait_line("read .*hosts", 10, since=before)

    def wait_query(self, name, timeout=PATIENCE):
        """Waits until the cache was asked for this very name; the log line."""
        return self._cache.wait_line(rf"query\[A+\] {name} ", timeout)

    def close(self):
        self._cache.kill()
        self._authority.kill()


class StubDns:
    """A server that answers SERVFAIL ("servfail") or takes questions and never answers ("silent")."""

    def __init__(self, namespace, address, behaviour):
        self.address = address
        program = pathlib.Path(__file__).with_name("dns_stub.py")
        self._server = Process(
            [sys.executable, "-I", "-S", str(program), address, behaviour],
            clean_environment(), name="dns", wrapper=namespace.entry,
        )
        self._server.wait_line("ready", 20)

    def wait_query(self, name, timeout=PATIENCE):
        """Waits until somebody has asked for this very name; the log line."""
        return self._server.wait_line(f"query {name}$", timeout)

    def close(self):
        self._server.kill()
