"""Nodes as Linux namespaces: each with its own network, process ids, host name and files, on one
bridge, with a name server beside them, as the pods of a small cluster.

    with Network() as network:
        master = network.node("job-master-0")
        dns = network.dns()
        process = master.start(["rankshim", "--", "train.py"], {"RANK": "0", ...})
        dns.publish("job-master-0", master)

A network namespace here is nothing but an open file descriptor: no name, no file, no holder. When
this process ends, in whatever way, the kernel takes all of it down, so two runs never meet.
"""

import concurrent.futures
import ctypes
import os
import pathlib
import shutil
import subprocess
import tempfile

from lib.dns import AuthoritativeAndCache, Dnsmasq, StubDns
from lib.events import PATIENCE, until
from lib.process import Process, children, clean_environment, descendants

# Inside private namespaces any addresses will do: these look like a cluster's.
NODES = "10.244.0."
NODES6 = "fd00:244::"
DNS_ADDRESS = NODES + "2"
FIRST_NODE = 10
CLUSTER_DOMAIN = "cluster.local"
SEARCH = f"default.svc.{CLUSTER_DOMAIN} svc.{CLUSTER_DOMAIN} {CLUSTER_DOMAIN}"
NOBODY = "02:00:00:00:00:00"  # an interface that no node has
CLONE_NEWNET = 0x40000000  # linux/sched.h
TCP_LISTEN = "0A"  # in /proc/net/tcp
TOOLS = ("ip", "unshare", "nsenter", "setpriv", "mount", "dnsmasq")

# What the container runtime does before the command becomes PID 1. $1 is a folder with the files to
# put over /etc, $2 the host name; the rest is the command, by `env -i` with exactly its environment.
BECOME_NODE = """
for file in "$1"/*; do mount --bind "$file" "/etc/${file##*/}" || exit 125; done
echo "$2" >/proc/sys/kernel/hostname || exit 125
shift 2
exec "$@"
"""


def why_not():
    """Why this machine cannot have nodes as namespaces; None where it can."""
    missing = [tool for tool in TOOLS if shutil.which(tool, path=clean_environment()["PATH"]) is None]
    if missing:
        return f"missing: {', '.join(missing)} (scripts/setup installs them)"
    if os.geteuid() != 0:
        return "needs root for network and PID namespaces"
    tried = subprocess.run(
        ["unshare", "--net", "--pid", "--fork", "--mount-proc", "--uts", "ip", "link", "add", "name", "try", "type", "bridge"],
        capture_output=True, text=True, timeout=PATIENCE, env=clean_environment(),
    )
    if tried.returncode != 0:
        return "namespaces are not allowed here: " + " ".join(tried.stderr.split())
    return None


_machine_network = None  # the descriptor of the network namespace that we have left


def leave_machine_network():
    """Moves this process, and all that it starts from now on, into a new network namespace with nothing but loopback."""
    global _machine_network
    _machine_network = _unshare_network()
    _tool("ip", "link", "set", "lo", "up")


def machine_network():
    """The words before a command that needs the machine's own network; none where this process is still in it."""
    return () if _machine_network is None else ("nsenter", f"--net=/proc/{os.getpid()}/fd/{_machine_network}", "--")


def has_ipv6():
    """Whether new network namespaces get IPv6."""
    try:
        return pathlib.Path("/proc/sys/net/ipv6/conf/default/disable_ipv6").read_text().strip() == "0"
    except OSError:
        return False


def _tool(*argv, given=None):
    done = subprocess.run(argv, capture_output=True, text=True, timeout=PATIENCE, env=clean_environment(), input=given)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(argv)}: exit {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def _unshare_network():
    """Moves the calling thread into a new network namespace, and returns a descriptor of the one that it has left."""
    left = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "unshare: cannot make a network namespace")
    return left


class NetworkNamespace:
    """A network namespace, alive as long as this object is open. Its loopback is down."""

    def __init__(self):
        def make():
            os.close(_unshare_network())
            return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)

        with concurrent.futures.ThreadPoolExecutor(1) as thread:  # this one stays where it is
            self.fd = thread.submit(make).result()

    @property
    def path(self):
        return f"/proc/{os.getpid()}/fd/{self.fd}"

    @property
    def entry(self):
        """The words before a command that make it run in here."""
        return ("nsenter", f"--net={self.path}", "--")

    def ip(self, *arguments):
        """Runs `ip` in here; its output."""
        return _tool(*self.entry, "ip", *arguments)

    def ip_batch(self, *lines):
        """Runs `ip` in here with the arguments in each line: as one process, for a test may make dozens of links."""
        _tool(*self.entry, "ip", "-batch", "-", given="\n".join(lines))

    def close(self):
        os.close(self.fd)


class Node:
    """A pod: its own network interface, process ids, host name, /etc/hosts and /etc/resolv.conf."""

    def __init__(self, network, hostname, address, address6):
        self.hostname = hostname
        self.address = address
        self.address6 = address6
        self.namespace = NetworkNamespace()
        self.processes = []
        self._etc = pathlib.Path(tempfile.mkdtemp(prefix=f"{hostname}-", dir=network.folder))
        self.resolv_conf(
            f"search {SEARCH}\nnameserver {DNS_ADDRESS}\noptions ndots:5\n"
        )
        # As the kubelet writes it: a pod knows its name, and no other pod's.
        self.hosts(
            "# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n"
            "::1\tlocalhost ip6-localhost ip6-loopback\n"
            f"{address}\t{hostname}\n"
        )

    def resolv_conf(self, text):
        """Replaces /etc/resolv.conf of processes started from now on."""
        (self._etc / "resolv.conf").write_text(text)

    def hosts(self, text):
        """Replaces /etc/hosts of processes started from now on."""
        (self._etc / "hosts").write_text(text)

    def start(self, argv, env, *, name=None, cwd=None):
        """Starts `argv` as PID 1 of a new PID namespace on this node, with exactly the variables
        `env`, and PATH and HOME."""
        process = NodeProcess(self, argv, clean_environment(env), name=name or self.hostname, cwd=cwd)
        self.processes.append(process)
        return process

    def run(self, argv, env, *, timeout=PATIENCE, **how):
        """Runs `argv` as PID 1 to its end; the ended process with its exit code as `.code`."""
        process = self.start(argv, env, **how)
        process.code = process.wait(timeout)
        return process

    def start_beside(self, argv, *, name):
        """Starts a helper of the test on this node's network, outside the node's processes."""
        process = Process(argv, clean_environment(), name=name, wrapper=self.namespace.entry)
        self.processes.append(process)
        return process

    def close(self):
        for process in self.processes:
            process.kill()
        self.namespace.close()


class NodeProcess(Process):
    """A command that is PID 1 on its node."""

    def __init__(self, node, argv, env, *, name, cwd):
        exact = [f"{variable}={value}" for variable, value in env.items()]
        wrapper = (
            *node.namespace.entry,
            "unshare", "--pid", "--fork", "--kill-child", "--mount", "--mount-proc", "--uts", "--ipc", "--",
            "sh", "-c", BECOME_NODE, "become-node", str(node._etc), node.hostname,
            "env", "-i", *exact,
        )
        super().__init__(argv, clean_environment(), name=name, cwd=cwd, wrapper=wrapper)
        self._init = until(
            lambda: self.popen.poll() is not None or children(self.popen.pid), "unshare makes its child")

    @property
    def init(self):
        """The host's process id of the node's PID 1."""
        if self._init is True:
            raise ProcessLookupError(f"{self.name} has ended")
        return self._init[0]

    def signal(self, number):
        """Sends a signal to PID 1 from outside, as the kubelet does."""
        os.kill(self.init, number)

    def tree(self):
        """Every process on the node: {host pid: command line}."""
        found = {}
        for pid in [self.init, *descendants(self.init)]:
            try:
                found[pid] = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
            except OSError:  # it has just ended
                pass
        return found

    def connections(self, port, state):
        """How many TCP sockets of this node with that local port are in that state of /proc/net/tcp."""
        wanted = f":{port:04X}"
        # /proc/PID/net is the network of that process, wherever we are.
        lines = [line.split() for table in ("tcp", "tcp6")
                 for line in pathlib.Path(f"/proc/{self.init}/net/{table}").read_text().splitlines()[1:]]
        return sum(fields[1].endswith(wanted) and fields[3] == state for fields in lines)

    def listens(self, port):
        """Whether a TCP socket listens on `port` on this node."""
        return self.connections(port, TCP_LISTEN) > 0


class Network:
    """A bridge with nodes and a name server; close() (or leaving `with`) ends everything on it."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="rankshim-network-")
        self.nodes = []
        self._open = []
        self.records = None  # the name server
        self._switch = self._keep(NetworkNamespace())
        self._switch.ip_batch("link add bridge type bridge", "link set bridge up")

    def _keep(self, thing):
        self._open.append(thing)
        return thing

    def node(self, hostname):
        """A new node, connected, with the next free address."""
        number = FIRST_NODE + len(self.nodes)
        node = self._keep(Node(self, hostname, f"{NODES}{number}", f"{NODES6}{number}" if has_ipv6() else None))
        self._connect(node.namespace, f"node{number}", node.address, node.address6)
        self.nodes.append(node)
        return node

    def job(self, size):
        """The nodes of a job, job-node-0 and so on, whose names are published."""
        nodes = [self.node(f"job-node-{rank}") for rank in range(size)]
        self.dns()
        for node in nodes:
            self.records.publish(node.hostname, node)
        return nodes

    def dns(self):
        """A name server for all nodes: knows what is published, answers NXDOMAIN for the rest."""
        return self._serve(lambda namespace: Dnsmasq(namespace, DNS_ADDRESS, self.folder))

    def caching_dns(self, negative_ttl):
        """A caching server in front of an authoritative one: negative answers have an SOA and are cached."""
        return self._serve(lambda namespace: AuthoritativeAndCache(namespace, DNS_ADDRESS, self.folder, negative_ttl))

    def broken_dns(self, behaviour):
        """A server that answers SERVFAIL, or never ("servfail", "silent")."""
        return self._serve(lambda namespace: StubDns(namespace, DNS_ADDRESS, behaviour))

    def _serve(self, make):
        if self.records is not None:
            raise RuntimeError("this network already has a name server")
        namespace = self._keep(NetworkNamespace())
        self._connect(namespace, "dns", DNS_ADDRESS, None)
        self.records = self._keep(make(namespace))
        return self.records

    def _connect(self, namespace, name, address, address6):
        self._switch.ip_batch(f"link add {name} type veth peer name eth0 netns {namespace.path}",
                              f"link set {name} master bridge up")
        namespace.ip_batch("link set lo up",
                           f"addr add {address}/24 dev eth0",
                           *([f"addr add {address6}/64 dev eth0 nodad"] if address6 else []),
                           "link set eth0 up",
                           f"route add default via {NODES}1")  # as in a pod; nothing is there

    def cut(self, side, other):
        """From now on nothing that the nodes of one side send arrives at the other's, and nobody is told of it."""
        self._between(side, other, f"neigh replace {{}} lladdr {NOBODY} nud permanent dev eth0")

    def heal(self, side, other):
        """Ends what cut() began."""
        self._between(side, other, "neigh del {} dev eth0")

    def _between(self, side, other, command):
        for senders, receivers in ((side, other), (other, side)):
            for sender in senders:
                sender.namespace.ip_batch(*(command.format(receiver.address) for receiver in receivers))

    def close(self):
        for thing in reversed(self._open):
            thing.close()
        self._open.clear()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


