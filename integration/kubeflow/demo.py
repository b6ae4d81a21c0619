"""The whole way once, for a person to watch: `demo.py /path/to/rankshim [--loopback]`.

Two pods of a Kubeflow PyTorchJob train one model together. Each runs rankshim as PID 1 in new PID, UTS and
network namespaces. Each has the variables that training-operator 1.5 sets: RANK, and no NODE_RANK. The
master's DNS record appears only when the worker already waits for it. Without namespaces, or with
--loopback, the same job runs on loopback. Ends with 0 if both nodes trained together.
"""

import pathlib
import socket
import sys
import tempfile
import time
from importlib.metadata import version

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from lib import network as networks  # noqa: E402
from lib.events import NotInTime, until  # noqa: E402
from lib.explain import explained  # noqa: E402
from lib.kubeflow import operator_1_5  # noqa: E402
from lib.process import Process, clean_environment, run  # noqa: E402
from lib.results import results  # noqa: E402

SCRIPT = str(HERE / "workers" / "ddp.py")
MASTER, WORKER = "job-master-0", "job-worker-0"
FACTS = ("nnodes", "node_rank", "nproc_per_node", "master_addr", "master_port", "run_id")
JOB = 240  # seconds; two torch starts on a machine that may be slow


class Loopback:
    """Stands in for a node where there are no namespaces: a plain process on this machine."""

    def __init__(self, hostname):
        self.hostname = hostname
        self.processes = []

    def start(self, argv, env):
        self.processes.append(Process(argv, clean_environment(env), name=self.hostname))
        return self.processes[-1]

    def run(self, argv, env):
        return run(argv, clean_environment(env), name=self.hostname)

    def close(self):
        for process in self.processes:
            process.kill()


def show(text=""):
    print(text.rstrip(), flush=True)


def show_resolved(nodes, documents):
    """What each node made of its environment, and from where."""
    show(f"  {'resolved':<16}" + "".join(f"{node.hostname:<42}" for node in nodes))
    show(f"  {'platform':<16}" + "".join(f"{document['platform']:<42}" for document in documents))
    for fact in FACTS:
        values = [document["topology"].get(fact, {"value": "-", "source": ""}) for document in documents]
        show(f"  {fact:<16}" + "".join(f"{each['value']:<14}{'  ' + each['source']:<28}" for each in values))
    show()


def train(nodes, environments, rankshim, publish, folder):
    """Runs the job; what happened as (time, who, what), and the ended processes."""
    run_dirs = [pathlib.Path(folder, node.hostname) for node in nodes]  # each container has its own /run, these nodes share one
    for run_dir in run_dirs:
        run_dir.mkdir()
    began = time.monotonic()
    story = []

    def happened(at, who, what):
        story.append((at - began, who, what))

    processes = [node.start([rankshim, f"--run-dir={run_dir}", "--", SCRIPT], env)
                 for node, run_dir, env in zip(nodes, run_dirs, environments)]
    worker = processes[1]
    happened(worker.started, "both nodes", "started; " + ("the master has no DNS record yet" if publish else "on loopback"))
    if publish:
        worker.wait_line("(?i)waiting", stream="stderr")
        publish()
        happened(time.monotonic(), "name server", f"{MASTER} published, because the worker waits for it")
    # Where one fails the other might wait for it for long.
    until(lambda: all(code is not None for code in codes(processes)) or any(codes(processes)), "the job's end", JOB)
    for process in processes:
        if process.popen.poll() is None:
            process.kill()
        process.code = process.wait()
    for process in processes:
        for line in ours(process):
            happened(line.at, process.name, line.text.removeprefix("rankshim: "))
    return sorted(story), processes


def codes(processes):
    """The exit code of each that has ended, else None."""
    return [process.popen.poll() for process in processes]


def ours(process):
    """The lines that rankshim itself wrote."""
    return [line for line in process.lines if line.stream == "stderr" and line.text.startswith("rankshim: ")]


def waited(process):
    """Seconds from a node's start until rankshim started torchrun there."""
    return next((line.at - process.started for line in ours(process) if "starting" in line.text), float("nan"))


def loopback_variables():
    """What the job's variables must be on a machine that other jobs use too."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        # gloo would else look for an address by this machine's host name.
        return {"MASTER_PORT": str(probe.getsockname()[1]), "GLOO_SOCKET_IFNAME": "lo"}


def main(rankshim, *options):
    started = time.monotonic()
    missing = "--loopback" if "--loopback" in options else networks.why_not()
    place = f"nodes on loopback ({missing})" if missing else "each node with its own network, process ids and host name"
    show(f"rankshim: one data-parallel job on two nodes, PyTorch {version('torch')}, gloo")
    show(place + "; Kubeflow sets RANK, not NODE_RANK")
    show()

    network = None if missing else networks.Network()
    nodes = [Loopback(name) if missing else network.node(name) for name in (MASTER, WORKER)]
    try:
        publish = None
        if network:
            dns = network.dns()
            publish = lambda: dns.publish(MASTER, nodes[0])  # noqa: E731
        address = "127.0.0.1" if missing else MASTER
        extra = {"OMP_NUM_THREADS": "1"} | (loopback_variables() if missing else {})
        environments = [operator_1_5(rank, 2, address) | extra for rank in range(2)]
        show_resolved(nodes, [
            explained(node.run([rankshim, "explain", "--format", "json", "--", SCRIPT], env))
            for node, env in zip(nodes, environments)
        ])
        with tempfile.TemporaryDirectory() as folder:
            story, processes = train(nodes, environments, rankshim, publish, folder)
    finally:
        for closing in [network] if network else nodes:
            closing.close()

    for at, who, what in story:
        show(f"  {at:6.2f} s  {who:<13} {what}")
    show()
    return verdict(nodes, processes, time.monotonic() - started)


def verdict(nodes, processes, took):
    """The table at the end; the demonstration's own exit code."""
    show(f"  {'node':<14}{'waited':<10}{'rank':<6}{'world size':<12}{'loss':<11}{'weights':<13}{'exit code'}")
    found = []
    for node, process in zip(nodes, processes):
        for rank, result in results(process).items():
            found.append(result)
            show(f"  {node.hostname:<14}{f'{waited(process):.2f} s':<10}{rank:<6}{result['world']:<12}{result['loss']:<11}{result['weight']:<13}"
                 f"{process.code}")
    together = (
        len(found) == 2 and len({(each["world"], each["loss"], each["weight"]) for each in found}) == 1
        and found[0]["world"] == "2" and not any(process.code for process in processes)
    )
    show()
    if not together:
        show("They did not train together. What they printed:")
        for process in processes:
            print(f"{process.name}:\n{process.transcript()}")
        return 1
    show(f"Equal loss and weights: the nodes trained together. {took:.0f} s in all.")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(*sys.argv[1:]))
    except (NotInTime, AssertionError) as error:
        sys.exit(f"The demonstration failed: {error}")
