"""A program that asks the platform itself for the master starts without a master address; any other program that would
train there is refused."""

import json
import subprocess

LONG = 60
DLROVER = {
    "ELASTIC_JOB_NAME": "torch-mnist",
    "DLROVER_MASTER_ADDR": "elasticjob-torch-mnist-dlrover-master:50001",
    "NODE_TYPE": "worker",
    "NODE_RANK": "1",
    "NODE_NUM": "2",
    "PATH": "/usr/bin:/bin",
}


def run(rankshim, *words, env=DLROVER):
    return subprocess.run([rankshim, *words], env=env, capture_output=True, text=True, timeout=LONG)


def test_dlrover_run_starts_without_a_master(rankshim, tmp_path):
    agent = tmp_path / "dlrover-run"
    agent.write_text('#!/bin/sh\necho "$NNODES $NODE_RANK ${MASTER_ADDR-none} $*"\n')
    agent.chmod(0o755)
    done = run(rankshim, f"--run-dir={tmp_path}", "--", str(agent), "--nnodes=2", "train.py")
    assert (done.returncode, done.stdout) == (0, "2 1 none --nnodes=2 train.py\n")
    assert "a master that it finds itself" in done.stderr

    explained = run(rankshim, "explain", "--format=json", "--", "dlrover-run", "train.py")
    assert "master_addr" not in json.loads(explained.stdout)["topology"]


def test_what_needs_a_master_does_not(rankshim):
    for command in ["train.py", "torchrun"]:
        done = run(rankshim, "explain", "--", command)
        assert done.returncode == 78
        assert "MASTER_ADDR" in done.stderr
