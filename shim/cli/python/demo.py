"""`rankshim demo`: trains one model on two nodes, which are two instances of rankshim on loopback.

Run as `python -c TEXT RANKSHIM VERSION`. Ends with 0 if the nodes trained together, with 78 where there is no torch.
"""

import importlib.util
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

TRAIN = """\
import sys
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
weight = torch.zeros(4)
# Each rank has different data: only the mean of their gradients can make the weights equal.
data = torch.Generator().manual_seed(rank)
for step in range(10):
    inputs = torch.randn(8, 4, generator=data)
    error = inputs @ weight - inputs.sum(1)
    gradient = inputs.t() @ error / 4
    dist.all_reduce(gradient)
    weight -= 0.05 * gradient / world
loss = (error * error).mean()
dist.all_reduce(loss)
sys.stdout.write(f"RESULT rank={rank} world={world} loss={loss.item() / world:.6f} weight={weight.sum().item():.6f}\\n")
sys.stdout.flush()
dist.barrier()  # no rank leaves while another still communicates
dist.destroy_process_group()
"""

# What a Python needs; no variable of the container's own job.
KEPT = ("PATH", "HOME", "LANG", "TMPDIR", "VIRTUAL_ENV")
KEPT_PREFIXES = ("LD_", "PYTHON", "CONDA_")
LIMIT = 240  # seconds; torch may have to be read from a slow disk first


def show(text=""):
    """Both nodes' readers call it at once: a line and its end are one write, which no other line can come between."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


class Node:
    """One instance of rankshim, and what it printed."""

    def __init__(self, rank, rankshim, folder, variables, began):
        self.name = f"node {rank}"
        self.began = began
        self.lines = []
        self.waits = threading.Event()
        run_dir = os.path.join(folder, f"run-{rank}")
        os.mkdir(run_dir)
        # The address is said outright, because on a cluster loopback would be wrong.
        command = [rankshim, "--config=/dev/null", f"--run-dir={run_dir}", "--termination-log=none", "--master-addr=127.0.0.1",
                   f"--python={sys.executable}", "--", os.path.join(folder, "train.py")]
        self.process = subprocess.Popen(command, env=variables | {"RANK": str(rank)}, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            self.lines.append(line)
            if not line.startswith("RESULT "):
                show(f"  {time.monotonic() - self.began:6.2f} s  {self.name}  {line.rstrip()}")
            if "waiting" in line.lower():
                self.waits.set()
        self.waits.set()

    def end(self, until):
        """Waits for the exit code; stops the node at the time `until`."""
        try:
            self.process.wait(max(0, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            self.stop()
        self.reader.join()
        return self.process.returncode

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(35)
        except subprocess.TimeoutExpired:
            self.process.kill()

    def results(self):
        """The values that its worker printed: {name: value}."""
        return [dict(word.split("=") for word in line.split()[1:]) for line in self.lines if line.startswith("RESULT ")]


def train(rankshim, folder, began):
    with open(os.path.join(folder, "train.py"), "w") as script:
        script.write(TRAIN)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    # As Kubeflow's training-operator 1.5 and others set them.
    job = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2"}
    variables = {name: value for name, value in os.environ.items() if name in KEPT or name.startswith(KEPT_PREFIXES)}
    variables |= job | {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "CUDA_VISIBLE_DEVICES": ""}
    show("Each has RANK=0 or RANK=1, " +
         ", ".join(f"{name}={job[name]}" for name in ("WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")) + ", which count nodes.")
    show("Without rankshim each node would train alone and end with 0, because torchrun reads none of them.\n")
    nodes = []
    try:
        # Node 1 first: it has to wait for node 0, as on a cluster.
        for rank in (1, 0):
            nodes.insert(0, Node(rank, rankshim, folder, variables, began))
            nodes[0].waits.wait(30)
        codes = [node.end(began + LIMIT) for node in nodes]
    except KeyboardInterrupt:
        for node in nodes:
            node.stop()
        raise
    return nodes, codes


def main(rankshim, version):
    if importlib.util.find_spec("torch") is None:
        print(f"rankshim: error: {sys.executable} has no torch, which the demonstration needs; "
              "name an interpreter that has it with --python [R25]", file=sys.stderr)
        return 78
    show(f"rankshim {version}: two nodes on loopback train one model with {sys.executable}")
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="rankshim-demo-") as folder:
        nodes, codes = train(rankshim, folder, began)
    found = [result for node in nodes for result in node.results()]
    show()
    for node, code in zip(nodes, codes):
        values = "  ".join(f"{name} {value}" for result in node.results() for name, value in result.items())
        show(f"  {node.name}  {values or 'no result'}  exit code {code}")
    equal = len({(result["world"], result["loss"], result["weight"]) for result in found}) == 1
    if len(found) != 2 or not equal or found[0]["world"] != "2" or any(codes):
        show("\nThe nodes did not train together.")
        return 1
    show(f"\nThe loss and the weights are equal: the nodes trained together. It took {time.monotonic() - began:.0f} s.")
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        sys.exit(main(*sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit("rankshim: the demonstration was stopped")
