"""How a job of two nodes ends, under the real torchrun and under the native launcher: what each node reports is the same."""

import json
import pathlib
import signal

import pytest

from lib.kubeflow import operator_1_9

pytestmark = [pytest.mark.torch, pytest.mark.usefixtures("torch")]

PEERS = str(pathlib.Path(__file__).resolve().parent / "workers" / "peers.py")
LAUNCHERS = ("torchrun", "native")
MASTER = "job-master-0"
JOB = 60
# What differs from run to run.
CHANGING = ("pid", "time", "host", "traceback", "stderr")

# What the last worker does, or what happens to its node; the exit code of its node, and what its report has of the cause.
ENDS = {
    "exception": (1, {"exit_code": 1, "exception": "ValueError: boom"}),
    "exit": (42, {"exit_code": 42}),
    "kill": (137, {"signal": "SIGKILL", "out_of_memory": False}),
    "segfault": (139, {"signal": "SIGSEGV"}),
    "memory": (137, {"signal": "SIGKILL", "out_of_memory": True}),
    "deaf": (42, {"exit_code": 42}),
    "signalled": (9, {"exit_code": 9}),
    "lost": None,
    "host-lost": None,
}
NIGHTLY = pytest.mark.nightly


class Job:
    """Two nodes of a job, with what they report."""

    def __init__(self, pods, folder, launcher, workers, way, rankshim, group):
        folder.mkdir()
        self.gate = folder / "gate"
        self.reports = [folder / "0.json", folder / "1.json"]
        # These workers do not open the port that the second node would wait for.
        within = ["sh", "-c", f'echo 0 >{group}/cgroup.procs; exec "$@"', "sh"] if group else []
        self.nodes = [pod.start([*(within if node == 1 else []), rankshim, f"--launcher={launcher}", f"--report={self.reports[node]}",
                                 "--grace=1s", "--wait=dns", "--", PEERS, way, str(self.gate)],
                                operator_1_9(node, 2, MASTER, workers_per_node=workers) | {"OMP_NUM_THREADS": "1"})
                      for node, pod in enumerate(pods)]
        for node, process in enumerate(self.nodes):
            for rank in range(node * workers, (node + 1) * workers):
                process.wait_line(f"^READY {rank}$", JOB)

    def root(self, node):
        """The cause of a node's end, without what differs from run to run."""
        cause = json.loads(self.reports[node].read_text())["root_cause"]
        return {name: value for name, value in cause.items() if name not in CHANGING}


# torchrun waits 30 s for a worker that does not stop because another one has failed.
@pytest.mark.parametrize("way, workers", [
    *[pytest.param(way, 2, marks=[] if way == "lost" else NIGHTLY, id=way) for way in ENDS],
    pytest.param("exit", 4, marks=NIGHTLY, id="exit-of-one-of-eight")])
def test_each_node_reports_the_same_under_both(network, rankshim, tmp_path, request, way, workers):
    group = request.getfixturevalue("memory_group") if way == "memory" else None
    pods = [network.node(MASTER), network.node("job-worker-0")]
    network.dns().publish(MASTER, pods[0])
    found = []
    for launcher in LAUNCHERS:
        job = Job(pods, tmp_path / launcher, launcher, workers, way, rankshim, group)
        survivor = 1 if way == "host-lost" else 0
        if "lost" in way:
            job.nodes[1 - survivor].kill()
        elif way == "signalled":
            job.nodes[1].signal(signal.SIGUSR1)
        job.gate.touch()
        nodes = [survivor] if "lost" in way else [0, 1]
        codes = {node: job.nodes[node].wait(JOB) for node in nodes}
        roots = {node: job.root(node) for node in nodes}
        found.append((codes, roots))
        assert codes[survivor] == 1 and roots[survivor]["lost_peer"], (launcher, job.nodes[survivor].transcript())
        assert roots[survivor]["exception"].endswith("gloo/transport/tcp/pair.cc:538] Connection closed by peer")
        if ENDS[way]:
            code, cause = ENDS[way]
            wanted = {"who": "worker", "rank": 2 * workers - 1, "local_rank": workers - 1, "node_rank": 1, "source": "kernel"} | cause
            assert (codes[1], {name: roots[1][name] for name in wanted}) == (code, wanted), (launcher, job.nodes[1].transcript())
    assert found[0] == found[1]
