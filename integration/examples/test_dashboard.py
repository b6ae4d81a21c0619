"""examples/metrics: the dashboard shows only what rankshim has, and the probes of the Job are what the kubelet would ask."""

import json
import re
import signal

import pytest
import yaml
from examples.test_manifests import EXAMPLES, documents
from lib.events import until
from lib.process import Process, clean_environment, run
from review.jobs import free_port

FOLDER = EXAMPLES / "metrics"
PROBES = ("readinessProbe", "livenessProbe")


@pytest.fixture(scope="module")
def dashboard():
    return json.loads((FOLDER / "dashboard.json").read_text())


def metrics(text):
    """The names of labels by the names of metrics."""
    found = {}
    for name, labels in re.findall(r"^(rankshim_\w+)\{(.*)\} [\d.]+$", text, re.M):
        found.setdefault(name, set()).update(re.findall(r'(\w+)="', labels))
    return found


@pytest.fixture(scope="module")
def known(rankshim, tmp_path_factory):
    """All metrics, with their labels: of node 0 of two linked nodes, while it trains and after an attempt."""
    folder = tmp_path_factory.mktemp("metrics")
    options = ["--launcher=native", "--nnodes=2", "--nproc-per-node=1", "--master-addr=127.0.0.1", f"--master-port={free_port()}",
               "--link=on", "--warm=off", f"--run-dir={folder}", "--termination-log=none"]
    file = folder / "0.prom"

    def node(rank):
        return Process([rankshim, *options, f"--node-rank={rank}", f"--metrics-file={folder}/{rank}.prom", "--", "sleep", "1000"],
                       clean_environment(), name=f"node {rank}")

    with node(0) as first, node(1) as second:
        until(lambda: file.exists() and 'rankshim_workers{' in file.read_text() and 'phase="run"} 1\n' in file.read_text(), "node 0 trains")
        found = metrics(file.read_text())
        second.signal(signal.SIGTERM)
        assert (first.wait(), second.wait()) == (76, 143), first.transcript()
    return {**metrics(file.read_text()), **found}


def cells_of(x, y, w, h):
    return [(column, row) for column in range(x, x + w) for row in range(y, y + h)]


def test_each_panel_has_its_place(dashboard):
    cells = [(x, y) for panel in dashboard["panels"] for x, y in cells_of(**panel["gridPos"])]
    assert len(cells) == len(set(cells)) and max(x for x, _ in cells) < 24
    numbers = [panel["id"] for panel in dashboard["panels"]]
    assert len(numbers) == len(set(numbers)) and all(panel["title"] and panel["targets"] for panel in dashboard["panels"])


def test_the_dashboard_names_only_metrics_and_labels_that_exist(dashboard, known):
    targets = [target for panel in dashboard["panels"] for target in panel["targets"]]
    variables = [variable["definition"] for variable in dashboard["templating"]["list"] if variable["type"] == "query"]
    for expression in [*(target["expr"] for target in targets), *variables]:
        names = re.findall(r"rankshim_\w+", expression)
        assert names and set(names) <= set(known), expression
        grouped = re.findall(r"(?:by|on) \(([^)]*)\)", expression)
        labels = {*re.findall(r'(\w+)=~?"', expression), *(label.strip() for group in grouped for label in group.split(","))}
        assert labels <= set.intersection(*(known[name] for name in names)), expression
    legends = {label for target in targets for label in re.findall(r"{{(\w+)}}", target["legendFormat"])}
    assert legends <= set.union(*known.values())


def test_the_page_has_the_probes_of_the_job():
    (container,) = documents(FOLDER / "job.yaml")[-1]["spec"]["template"]["spec"]["containers"]
    page = (FOLDER / "README.md").read_text()
    fragment = yaml.safe_load(re.search(r"# after\n(.*?)```", page, re.S)[1])
    assert {name: container[name] for name in PROBES} == {name: fragment[name] for name in PROBES}


def test_the_probes_of_the_job_ask_the_container_as_the_kubelet_does(network, rankshim, tmp_path):
    (container,) = documents(FOLDER / "job.yaml")[-1]["spec"]["template"]["spec"]["containers"]
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "rankshim").symlink_to(rankshim)
    path = f"{tmp_path}/bin:/usr/bin:/bin"
    pod = network.node("mnist-1")
    network.dns()
    own = 'mount -t tmpfs tmpfs /run; mount -t tmpfs tmpfs /dev/shm; exec "$@"'

    def start(*words, **variables):
        return pod.start(["sh", "-c", own, "pod", "rankshim", "--launcher=native", "--nproc-per-node=1", "--warm=off", *words],
                         {**variables, "PATH": path})

    def ask(process):
        enter = ["nsenter", f"--target={process.init}", "--all", "--", "env", "-i", f"PATH={path}"]
        return tuple(run([*enter, *container[name]["exec"]["command"]], clean_environment()).code for name in PROBES)

    waiting = start("--", "true", NNODES="2", NODE_RANK="1", MASTER_ADDR="nobody")
    waiting.wait_line("no such name yet")
    assert until(lambda: ask(waiting) if ask(waiting)[1] == 0 else None, "rankshim answers") == (1, 0)
    waiting.signal(signal.SIGKILL)
    running = start("--", "sleep", "1000")
    until(lambda: ask(running) == (0, 0), "the worker runs")
    running.signal(signal.SIGKILL)
