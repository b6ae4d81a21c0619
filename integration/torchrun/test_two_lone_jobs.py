"""Two jobs of one node each on one machine, by a script as OpenMMLab's, which reads PORT: each gets a port of its own."""

import pytest

from lib.process import Process, clean_environment

pytestmark = [pytest.mark.torch, pytest.mark.usefixtures("torch")]

LONG = 120
SCRIPT = """set -eu
NNODES=${NNODES:-1} NODE_RANK=${NODE_RANK:-0} PORT=${PORT:-29500} MASTER_ADDR=${MASTER_ADDR:-127.0.0.1}
python -m torch.distributed.run --nnodes=$NNODES --node_rank=$NODE_RANK --master_addr=$MASTER_ADDR --nproc_per_node=$2 \\
  --master_port=$PORT "$1"
"""
# A worker that stays until the other job's has started too.
TOGETHER = """
import os, pathlib, sys, time
folder = pathlib.Path(__file__).parent
(folder / os.environ["JOB"]).touch()
while not ((folder / "a").exists() and (folder / "b").exists()):
    time.sleep(0.05)
print("TOGETHER at", os.environ["MASTER_PORT"], flush=True)
"""


@pytest.mark.nightly
def test_two_at_once_by_a_script_that_reads_port(rankshim, tmp_path):
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "dist_train.sh").write_text(SCRIPT)
    (tmp_path / "cfg.py").write_text(TOGETHER)
    jobs = [Process([rankshim, "--", "bash", "tools/dist_train.sh", "cfg.py", "1"],
                    clean_environment({"JOB": name, "OMP_NUM_THREADS": "1"}), name=name, cwd=tmp_path) for name in "ab"]
    ends = [(job.wait(LONG), job.transcript()) for job in jobs]
    assert [code for code, _ in ends] == [0, 0], ends
    ports = {line.split()[-1] for job in jobs for line in job.stdout.splitlines() if line.startswith("TOGETHER")}
    assert len(ports) == 2
