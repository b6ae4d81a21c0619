"""The examples that promise a retry after a drain keep it: a node of three gets a TERM in the middle of the training, all pods end by
codes that the platform's policy tries again, and the pods that it then makes train to the end.

The pods are namespaces with the variables of their manifest; the policy is that of test_tried_again.py. The native launcher starts
the workers, because what ends them is the same and torchrun takes seconds.
"""

import signal

import pytest

from examples.controllers import pods
from examples.test_manifests import EXAMPLES, command_of, documents, environment_of, host_of
from examples.test_tried_again import RULES

LONG = 120
# It trains until it is stopped; the second time it has a checkpoint and succeeds.
TRAIN = """import os, sys, time
if os.path.exists("checkpoint"):
    sys.exit(0)
print("UP", flush=True)
time.sleep(1000)
"""
PATHS = ["indexed-job/job.yaml", "kubeflow-v1/job.yaml", "kueue/job.yaml", "openmmlab/job.yaml", "volcano/pytorch.yaml",
         "volcano/svc-env.yaml"]


@pytest.fixture
def start(network, rankshim, tmp_path):
    """Starts all pods of a job, each as a node of its own."""
    (tmp_path / "tools").mkdir()
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "tools" / "dist_train.sh").write_text("exec python3 train.py\n")
    dns, nodes = network.dns(), {}

    def name_of(pod):
        subdomain = pod["spec"].get("subdomain")
        return f"{host_of(pod)}.{subdomain}" if subdomain else host_of(pod)

    def run(made):
        for pod in made:
            name = name_of(pod)
            if name not in nodes:
                node = nodes[name] = network.node(host_of(pod))
                long = f"{name}.{pod['metadata']['namespace']}.svc.cluster.local " if "." in name else ""
                node.hosts(f"127.0.0.1 localhost\n{node.address} {long}{host_of(pod)}\n")
                dns.publish(name, node)
        running = []
        for pod in made:
            options = command_of(pod)
            own = {"RANKSHIM_LAUNCHER": "native"} if "train.py" in options else {}
            environment = {**environment_of(pod), **own, "RANKSHIM_NPROC_PER_NODE": "1"}
            running.append(nodes[name_of(pod)].start([rankshim, *options], environment, cwd=tmp_path))
        return running

    return run


@pytest.mark.parametrize("path", PATHS)
def test_after_a_drain_all_pods_are_started_again_and_train_to_the_end(start, tmp_path, path):
    document = documents(EXAMPLES / path)[-1]
    running = start(pods(document))
    for node in running:
        node.wait_line("UP", LONG)
    running[1].signal(signal.SIGTERM)
    codes = [node.wait(LONG) for node in running]
    assert codes[1] == 143 and codes[0] == codes[2] != 143, running[0].transcript()
    decide = RULES[document["apiVersion"], document["kind"]]
    assert all(decide(document, code) for code in codes), codes
    (tmp_path / "checkpoint").touch()
    for node in start(pods(document)):
        assert node.wait(LONG) == 0, node.transcript()
