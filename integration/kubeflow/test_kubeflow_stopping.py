"""Stopping torchrun: in its rendezvous, in training, and when the workers ignore the signal."""

import pathlib
import signal
import time

import pytest

from lib.events import until
from lib.kubeflow import PORT, operator_1_5

pytestmark = [pytest.mark.torch, pytest.mark.usefixtures("torch")]

STOPPING = str(pathlib.Path(__file__).resolve().parent / "workers" / "stopping.py")
MASTER = "job-master-0"
TERMINATED = 143
START = 120  # for torchrun and its workers to be there, on a busy machine


@pytest.fixture
def master(network):
    """The master of a job of two whose worker never comes."""
    node = network.node(MASTER)
    network.dns().publish(MASTER, node)
    return node


def agent(process):
    """The command lines of torchrun's agent, as long as it is there."""
    return [line for line in process.tree().values() if "torch.distributed.run" in line]


@pytest.mark.alone
def test_a_term_in_the_rendezvous_ends_the_container_within_two_seconds(master, rankshim):
    process = master.start([rankshim, "--link=off", "--", STOPPING, "plain"], operator_1_5(0, 2, MASTER))
    until(lambda: process.listens(int(PORT)), "the agent waits for its peer", START)
    assert agent(process), "torchrun as PID 1's child ignores nothing, but the store's wait does not return"
    sent = time.monotonic()
    process.signal(signal.SIGTERM)
    assert process.wait() == TERMINATED
    assert process.ended - sent < 2.5


@pytest.mark.alone
def test_a_term_while_torchrun_is_still_loading_does_too(master, rankshim):
    process = master.start([rankshim, "--link=off", "--", STOPPING, "plain"], operator_1_5(0, 2, MASTER))
    until(lambda: agent(process), "the agent's process exists", START)
    sent = time.monotonic()
    process.signal(signal.SIGTERM)
    assert process.wait() == TERMINATED
    assert process.ended - sent < 2.5


def training(node, rankshim, what, *options, workers=1):
    """A node alone under torchrun, in training."""
    process = node.start([rankshim, f"--nproc-per-node={workers}", *options, "--", STOPPING, what], {})
    for rank in range(workers):
        process.wait_line(f"TRAINING rank={rank}", START)
    return process


@pytest.fixture
def alone(network):
    """A node without a platform."""
    return network.node("alone")


@pytest.mark.parametrize("options, code", [((), TERMINATED), pytest.param(("--exit-map=stopped=0",), 0, marks=pytest.mark.nightly)])
def test_a_job_that_was_stopped_is_not_done_though_every_worker_saved_and_ended_with_0(alone, rankshim, options, code):
    process = training(alone, rankshim, "save", *options, workers=2)
    process.signal(signal.SIGTERM)
    assert process.wait() == code
    assert process.stdout.count("GOT SIGTERM") == 2 and process.stdout.count("SAVED") == 2


@pytest.mark.nightly  # the test before has the code of a stop
def test_a_term_in_training_that_ends_the_worker_gives_143(alone, rankshim):
    process = training(alone, rankshim, "plain")
    process.signal(signal.SIGTERM)
    assert process.wait() == TERMINATED


@pytest.mark.nightly
def test_workers_that_ignore_a_term_are_killed_when_the_grace_is_over(alone, rankshim):
    process = training(alone, rankshim, "deaf", "--grace=2s", workers=2)
    sent = time.monotonic()
    process.signal(signal.SIGTERM)
    assert process.wait() == TERMINATED
    assert process.ended - sent > 1.9


@pytest.mark.nightly
@pytest.mark.parametrize("end, code", [("3", 3), ("-9", 137)])
def test_the_workers_end_is_the_exit_code_though_torchruns_is_1(alone, rankshim, end, code):
    assert alone.run([rankshim, "--", STOPPING, end], {}, timeout=START).code == code
