"""Who hangs on a node that is alone, or that is not linked with the others: it looks at its own workers."""

import re
import sys

import pytest
from lib.hangs import TRAINS
from lib.process import Process, clean_environment, last_line

LONG = 120
SAYS = r"rank 1 (is|was) in train\.py:\d+, in the kernel's \S+; ranks 0 and 2 waited in all_reduce \(train\.py:\d+\) .* \[R42\]$"


@pytest.mark.torch
@pytest.mark.parametrize(("level", "launcher"), [
    (0, "torchrun"),
    *(pytest.param(level, launcher, marks=pytest.mark.nightly) for level, launcher in ((0, "native"), (3, "native"), (3, "torchrun"))),
])
def test_a_worker_for_which_its_neighbours_wait_is_named_with_its_line(rankshim, tmp_path, torch, level, launcher):
    script = tmp_path / "train.py"
    script.write_text(TRAINS)
    options = [f"--launcher={launcher}", "--nproc-per-node=3", f"--python={sys.executable}", f"--run-dir={tmp_path}"]
    limits = (["--hang-timeout=5s"], "1800") if level else ([], "6")
    job = [rankshim, *options, *limits[0], "--", str(script), "sleeps", limits[1]]
    with Process(job, clean_environment({"OMP_NUM_THREADS": "1"})) as process:
        assert process.wait(LONG) == 124, process.transcript()
        assert re.search(SAYS, last_line(process)), process.transcript()
