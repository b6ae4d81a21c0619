"""The pods of a manifest as rankshim-review sees them, on nodes with their own names."""

import contextlib
import io
import json
import pathlib
import sys

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "review"))

from rankshim_review import review as reviewing  # noqa: E402
from rankshim_review.command import expand  # noqa: E402

CASES, EXAMPLES, INSTALL = REPOSITORY / "integration/review/cases", REPOSITORY / "examples", REPOSITORY / "install"


def review(rankshim, path):
    """What `rankshim-review --format json` says of a file: its exit code and its document."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        code = reviewing.main(["--rankshim", rankshim, "--format", "json", str(path)])
    return code, json.loads(out.getvalue())


def said(rankshim, path):
    """What is said of a file, {(level, check)}; errors are the exit code."""
    code, document = review(rankshim, path)
    found = {(finding["level"], finding["check"]) for finding in document["findings"]}
    assert code == (78 if "error" in {level for level, _ in found} else 0)
    return found


def workloads(path):
    return [workload for workload, _ in reviewing._workloads(reviewing._read([str(path)], []), [])]


def words(workload, pod):
    """The container's own command and arguments, as the kubelet expands them; a TrainJob has its own."""
    if workload.kind == "compose":
        return [*pod.command.before, pod.command.rankshim, *pod.command.after]
    trainer = workload.field.get("spec", "trainer")
    found = []
    for key in ("command", "args"):
        field = trainer.get(key) if workload.kind == "TrainJob" and trainer.get(key) else pod.container.get(key)
        found += [expand(word, pod.environment) for word in field.words()]
    return found


def node(network, pod):
    """The pod's node, which knows itself as the kubelet writes it."""
    made = network.node(pod.host)
    own = f"{made.address}\t{f'{pod.host}.{pod.domain} ' if pod.domain else ''}{pod.host}\n"
    made.hosts(f"127.0.0.1\tlocalhost\n{own}")
    return made


def publish(server, workload, pod, node):
    """The names that a pod has for others, where its manifest or its controller makes a Service."""
    own = pod.name if workload.kind == "compose" else pod.host
    server.publish(f"{own}.{pod.domain}" if pod.domain else own, node)


def pods(network, path, published):
    """[(workload, pod, node)] of all pods in a file."""
    server = network.dns()
    found = [(workload, pod, node(network, pod)) for workload in workloads(path) for pod in workload.pods]
    for workload, pod, place in found:
        if published:
            publish(server, workload, pod, place)
    return found
