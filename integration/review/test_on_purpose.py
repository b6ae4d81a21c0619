"""What rankshim-review says of a kubelet's or a GPU's part: the case that is broken on purpose (cases) runs, and the
test does what a kubelet does: it stops a pod, kills it, starts it again, or asks a probe."""

import re
import signal
import sys

import pytest
from examples.schema import mistakes
from examples.test_manifests import documents
from lib.events import until
from lib.process import PATH, clean_environment, run, shell
from review.running import CASES, pods, said, words
from review.test_public_cases import check, programs, really
from review.test_public_cases import run as run_own

NOT_IN_TIME = 75
DEAF = shell("trap '' TERM; echo UP; while :; do sleep 1000; done")
NATIVE = {"RANKSHIM_LAUNCHER": "native"}  # the workers without torchrun, which takes seconds


def started(rankshim, workload, pod, place, program, *options, **variables):
    """The pod with its own options, or these, and a program in place of its training."""
    own = words(workload, pod)
    before = own[1:own.index("--")] if "--" in own else []
    return place.start([rankshim, *(options or before), "--", *program], {**pod.environment, **variables})


@pytest.mark.parametrize("name", ["grace", "grace-by-default"])
def test_the_kubelets_kill_leaves_no_report_where_its_grace_is_the_shorter_one(name, network, rankshim, tmp_path):
    assert said(rankshim, CASES / f"{name}.yaml") == {("warning", "grace")}
    (workload, pod, place), _ = pods(network, CASES / f"{name}.yaml", True)
    report = tmp_path / "report.json"
    process = started(rankshim, workload, pod, place, DEAF, RANKSHIM_REPORT=str(report))
    process.wait_line("UP")
    process.signal(signal.SIGTERM)
    process.wait_line("processes that still run are killed after (90|120) s")
    process.signal(signal.SIGKILL)  # the kubelet's grace is over, and rankshim's is not
    process.wait()
    assert not report.exists()
    # The other way round.
    process = started(rankshim, workload, pod, place, DEAF, "--grace=100ms", RANKSHIM_REPORT=str(report))
    process.wait_line("UP")
    process.signal(signal.SIGTERM)
    process.wait()
    assert "SIGTERM" in report.read_text()


@pytest.mark.nightly
def test_a_killed_node_joins_the_next_attempt_only_where_the_kubelet_starts_it_again(network, rankshim):
    assert said(rankshim, CASES / "job-restarts.yaml") == {("warning", "restarts")}
    waits_once = shell("echo UP; [ $RANKSHIM_ATTEMPT != 0 ] || exec sleep 1000")
    found = pods(network, CASES / "job-restarts.yaml", True)
    for (master, worker), again in ((found[:2], False), (found[2:], True)):
        options = [] if again else ["--wait-timeout=10s"]
        pair = [started(rankshim, *pod, waits_once, *options, **NATIVE) for pod in (master, worker)]
        for process in pair:
            process.wait_line("UP")
        pair[1].signal(signal.SIGKILL)
        pair[1].wait()
        if again:
            pair[1] = started(rankshim, *worker, waits_once, **NATIVE)
            assert pair[1].wait() == 0, pair[1].transcript()
        assert pair[0].wait() == (0 if again else NOT_IN_TIME), pair[0].transcript()


def test_the_same_start_ends_with_the_same_code(network, rankshim, tmp_path):
    """What OnFailure repeats: the image has no train.py."""
    assert said(rankshim, CASES / "on-failure.yaml") == {("warning", "restarts")}
    (workload, pod, place), _ = pods(network, CASES / "on-failure.yaml", True)
    environment = {**pod.environment, "PATH": programs(tmp_path, rankshim)}
    codes = {place.run(words(workload, pod), environment, cwd=tmp_path).code for _ in range(2)}
    assert codes == {127}


# The pod of each probe, the probe, and how it ends: a lone pod that runs, but for the first, which waits for its master.
PROBES = {
    "phase": ("readinessProbe", 1, {"NNODES": "2", "NODE_RANK": "1", "MASTER_ADDR": "nobody"}),
    "option": ("livenessProbe", 64, {}),
    "file": ("livenessProbe", 127, {}),
    "shell": ("livenessProbe", 127, {}),
    "folder": ("readinessProbe", 1, {}),
    "found": ("readinessProbe", 0, {}),
}


@pytest.mark.parametrize("name", PROBES)
def test_a_probe_ends_as_the_review_says(name, network, rankshim, tmp_path):
    kind, code, variables = PROBES[name]
    (workload, pod, place), = [found for found in pods(network, CASES / "probes.yaml", False) if found[1].name == name]
    # These folders are the pod's own; rankshim is in its PATH, but for the one whose command names another file.
    path = PATH if name == "file" else programs(tmp_path, rankshim)
    own = 'for folder in /run /dev/shm /mnt; do mount -t tmpfs tmpfs $folder; done; exec "$@"'
    command = [word for word in words(workload, pod)[1:] if word != "train.py"]
    process = place.start(["sh", "-c", own, "pod", rankshim, *command, *shell("echo UP; exec sleep 1000")],
                          {**pod.environment, **variables, "PATH": path})
    process.wait_line("UP" if not variables else "no such name yet")

    def ask(probe):
        """As the kubelet: in the container, without a shell."""
        asked = pod.container.get(probe, "exec", "command").words()
        enter = ["nsenter", f"--target={process.init}", "--all", "--", "env", "-i", f"PATH={path}"]
        return run([*enter, *asked], clean_environment()).code

    assert ask(kind) == code
    if name == "folder":
        assert ask("startupProbe") == 0
    process.signal(signal.SIGKILL)


def test_nodes_of_which_not_all_may_run_do_not_come_in_time(network, rankshim):
    assert said(rankshim, CASES / "parallelism.yaml") == {("warning", "note")}
    processes = [started(rankshim, *pod, ["true"], "--wait-timeout=1s", **NATIVE)
                 for pod in pods(network, CASES / "parallelism.yaml", True)[:2]]
    assert [process.wait() for process in processes] == [NOT_IN_TIME] * 2
    assert re.search("of 3 nodes did not join in time: node 2", processes[0].stderr), processes[0].transcript()


def test_workers_are_started_without_any_accelerator(network, rankshim):
    assert said(rankshim, CASES / "no-gpus.yaml") == {("warning", "devices")}
    processes = [started(rankshim, *pod, shell("echo $LOCAL_RANK"), **NATIVE) for pod in pods(network, CASES / "no-gpus.yaml", True)]
    for process in processes:
        assert (process.wait(), sorted(process.stdout.split())) == (0, [str(rank) for rank in range(8)])


def test_two_jobs_of_one_machine_want_one_port(network, rankshim):
    """Of hostNetwork; here the names are known, as by ClusterFirstWithHostNet."""
    found = pods(network, CASES / "host-network.yaml", False)
    workload, pod, place = found[0]
    place.hosts(f"127.0.0.1 localhost\n{place.address} {place.hostname} mnist-master-0\n")
    first = started(rankshim, workload, pod, place, ["true"], **NATIVE)
    until(lambda: first.listens(23456), "the first job's node 0 listens")
    second = started(rankshim, workload, pod, place, ["true"], **NATIVE)
    second.wait_line("waiting for the master's port 23456, which a process of user 0 in another container holds")
    first.kill()


def test_a_variable_of_a_config_map_decides_when_it_is_there(network, rankshim, tmp_path):
    path = tmp_path / "job.yaml"
    path.write_text(f"{(CASES / 'unknown-variable.yaml').read_text()}---\n"
                    "{apiVersion: v1, kind: ConfigMap, metadata: {name: not-here}, data: {nodes: '2'}}\n---\n"
                    "{apiVersion: v1, kind: Service, metadata: {name: trainer}, spec: {clusterIP: None}}\n")
    assert said(rankshim, path) == set()
    processes = [started(rankshim, *pod, shell("echo $NODE_RANK of $NNODES")) for pod in pods(network, path, True)]
    assert [(process.wait(), process.stdout) for process in processes] == [(0, "0 of 2\n"), (0, "1 of 2\n")]


def test_the_api_server_refuses_a_number_as_a_variable(rankshim):
    assert said(rankshim, CASES / "unquoted.yaml") == {("error", "unreadable")}
    (document,) = documents(CASES / "unquoted.yaml")
    assert any("2" in mistake for mistake in mistakes(document)), mistakes(document)


@really
def test_a_trainjobs_own_command_reaches_torchrun_by_its_variables_too(network, rankshim, tmp_path):
    assert said(rankshim, CASES / "trainjob-and-runtime.yaml") == {("warning", "bypass")}
    found = run_own(network, CASES / "trainjob-and-runtime.yaml", {"PATH": programs(tmp_path, rankshim)}, tmp_path)
    check(found[:2], "together")
    check(found[2:], "together")


LOADER = """import sys, torch
from torch.utils.data import DataLoader
batches = DataLoader([torch.zeros(8 << 20)] * 4, batch_size=4, num_workers=1)  # one batch of 128 MiB
sys.stdout.write("".join(f"{list(batch.shape)}\\n" for batch in batches))
"""


@really
@pytest.mark.parametrize(("size", "code"), [("64m", 1), ("1g", 0)])
def test_a_data_loaders_batch_needs_room_in_dev_shm(size, code, network, rankshim, tmp_path):
    assert said(rankshim, CASES / "shm.yaml") == {("warning", "shared_memory")}
    (_, pod, place), _ = pods(network, CASES / "shm.yaml", True)
    (tmp_path / "loader.py").write_text(LOADER)
    own = f'mount -t tmpfs -o size={size} tmpfs /dev/shm; exec "$@"'
    process = place.start(["sh", "-c", own, "pod", sys.executable, str(tmp_path / "loader.py")], pod.environment)
    assert process.wait(120) == code, process.transcript()
    assert ("No space left on device" in process.stderr) == (code != 0)
