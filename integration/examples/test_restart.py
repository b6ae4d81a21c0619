"""examples/restart: a training goes on by itself after a node was killed, and its losses are those of an undisturbed one."""

import re
import signal

import pytest

from examples.controllers import pods
from examples.test_manifests import EXAMPLES, command_of, documents, environment_of, host_of
from lib.documents import shape, shell, shown
from lib.process import PATH, clean_environment, run
from lib.requirements import cannot

PAGE = "examples/restart/README.md"
LONG = 200
STEPS = 30

pytestmark = [pytest.mark.torch, pytest.mark.usefixtures("torch")]


def losses(text):
    """The last value of each step."""
    return dict(re.findall(r"^step (\d+) loss (\S+)$", text, re.M))


@pytest.mark.nightly
def test_the_two_commands_of_the_page_print_equal_losses(rankshim, namespaces, tmp_path):
    if namespaces:
        cannot(namespaces)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "rankshim").symlink_to(rankshim)
    (tmp_path / "examples").symlink_to(EXAMPLES)
    environment = clean_environment({"PATH": f"{tmp_path}/bin:{PATH}", "TMPDIR": str(tmp_path)})
    done = run(["bash", "-ec", shell("examples/restart/README.md", "See it").text], environment, timeout=2 * LONG, cwd=tmp_path)
    assert (done.code, done.stdout) == (0, "The losses are equal.\n"), done.transcript()
    assert list(losses((tmp_path / "undisturbed.txt").read_text())) == [str(step) for step in range(STEPS)]
    assert "next: restart 1 of 3" in done.stderr
    assert shown(PAGE) <= {shape(line) for line in done.stderr.splitlines()}
    assert list(tmp_path.glob("tmp.*")) == []


@pytest.fixture
def train(network, rankshim, tmp_path):
    """Runs the pods of the manifest to their end: what rank 0 printed; node KILLED is killed in the middle, and started again."""
    dns, made = network.dns(), pods(documents(EXAMPLES / "restart" / "job.yaml")[-1])
    nodes = [network.node(host_of(pod)) for pod in made]
    for node, pod in zip(nodes, made):
        name = f"{host_of(pod)}.{pod['spec']['subdomain']}"
        node.hosts(f"127.0.0.1 localhost\n{node.address} {name}.default.svc.cluster.local {host_of(pod)}\n")
        dns.publish(name, node)

    def train(killed=None):
        folder = tmp_path / f"killed-{killed}"
        folder.mkdir()

        def start(rank):
            words = [word.replace("/checkpoints", str(folder)).replace("1000", str(STEPS)) for word in command_of(made[rank])]
            environment = {**environment_of(made[rank]), "RANKSHIM_LAUNCHER": "native", "RANKSHIM_NPROC_PER_NODE": "1",
                           "OMP_NUM_THREADS": "1"}
            return nodes[rank].start([rankshim, *words], environment, cwd=EXAMPLES / "restart")

        running = [start(rank) for rank in range(3)]
        before = ""
        if killed is not None:
            running[0].wait_line("^step 9 ", LONG)
            running[killed].signal(signal.SIGKILL)
            running[killed].wait()
            before = running[killed].stdout
            running[killed] = start(killed)  # as its kubelet does
        for node in running:
            assert node.wait(LONG) == 0, node.transcript()
        if killed is not None:
            assert all("next: restart 1" in running[rank].stderr for rank in {0, 1, 2} - {killed})
        return losses(before + running[0].stdout)

    return train


@pytest.mark.nightly
@pytest.mark.parametrize("killed", [0, 1])
def test_a_pod_whose_first_process_is_killed_comes_back_and_the_losses_are_those_of_an_undisturbed_training(train, killed):
    undisturbed = train()
    assert list(undisturbed) == [str(step) for step in range(STEPS)]
    assert train(killed) == undisturbed
