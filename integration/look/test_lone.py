"""Who hangs on a node that is alone, or that is not linked with the others: it looks at its own workers."""

import os
import pathlib
import re
import shutil
import sys

import pytest
from lib.hangs import TRAINS
from lib.mpi import OPEN_MPI
from lib.process import Process, clean_environment, last_line
from lib.requirements import cannot

LONG = 120
SAYS = r"rank 1 (is|was) in train\.py:\d+, in the kernel's \S+; ranks 0 and 2 waited in all_reduce \(train\.py:\d+\) .* \[R42\]$"


# Where scripts/setup installs the launchers.
BIN = pathlib.Path(os.environ.get("LAUNCHERS", pathlib.Path(sys.prefix) / "share" / "launchers")) / "bin"
COMMANDS = {
    "torchrun": ["--launcher=torchrun", "--nproc-per-node=3", "--"],
    "native": ["--launcher=native", "--nproc-per-node=3", "--"],
    "a shell's torchrun": ["--", "sh", "-c", 'torchrun --standalone --nproc_per_node=3 "$@"', "sh"],
    "accelerate": ["--", f"{BIN}/accelerate", "launch", "--multi_gpu", "--num_processes=3"],
    "a shell's accelerate": ["--", "sh", "-c", f'{BIN}/accelerate launch --multi_gpu --num_processes=3 "$@"; exit $?', "sh"],
    "deepspeed": ["--", f"{BIN}/deepspeed", "--no_local_rank", "--num_gpus=3", "--master_port=29511"],
    # mpirun gives no RANK and no LOCAL_RANK, and the script takes its own.
    "mpirun": ["--env=MASTER_ADDR=127.0.0.1", "--env=MASTER_PORT=29512", "--", *OPEN_MPI, "-n", "3", "sh", "-c",
               'RANK=$OMPI_COMM_WORLD_RANK WORLD_SIZE=$OMPI_COMM_WORLD_SIZE exec "$@"', "sh", sys.executable],
    "fabric": ["--", f"{BIN}/fabric", "run", "--accelerator=cpu", "--devices=3"],
}


MPICH = ["--env=MASTER_ADDR=127.0.0.1", "--env=MASTER_PORT=29513", "--", "mpiexec.mpich", "-n", "3", "sh", "-c",
         'RANK=$PMI_RANK WORLD_SIZE=$PMI_SIZE exec "$@"', "sh", sys.executable]


@pytest.mark.nightly
@pytest.mark.torch
def test_where_the_launcher_lets_who_hangs_run_on_that_is_a_warning_and_hang_timeout_ends_it(rankshim, tmp_path, torch):
    """MPICH's waits for all processes, however the first has ended."""
    if shutil.which("mpiexec.mpich", path=clean_environment()["PATH"]) is None:
        cannot("missing: mpiexec.mpich (scripts/setup installs it)")
    script = tmp_path / "train.py"
    script.write_text(TRAINS)
    job = [rankshim, f"--run-dir={tmp_path}", "--grace=3s", "--hang-timeout=20s", *MPICH, str(script), "sleeps", "6"]
    says = r"rank 1 (is|was) in train\.py:\d+, in the kernel's \S+; ranks 0 and 2 waited .*"
    with Process(job, clean_environment({"OMP_NUM_THREADS": "1"})) as process:
        process.wait_line(rf"warning: {says} timeout; it is still running \[R42\]$", LONG)
        assert process.wait(LONG) == 124, process.transcript()
        assert re.search(rf"error: {says} \[R42\]$", last_line(process)), process.transcript()


@pytest.mark.torch
@pytest.mark.nightly
@pytest.mark.parametrize("level", [0, 3])
@pytest.mark.parametrize("name", COMMANDS)
def test_a_worker_for_which_its_neighbours_wait_is_named_with_its_line(rankshim, tmp_path, torch, level, name):
    if name == "mpirun" and shutil.which(OPEN_MPI[0], path=clean_environment()["PATH"]) is None:
        cannot(f"missing: {OPEN_MPI[0]} (scripts/setup installs it)")
    if name not in ("torchrun", "native", "a shell's torchrun", "mpirun") and not BIN.exists():
        cannot(f"{BIN} is not there (scripts/setup installs it)")
    script = tmp_path / "train.py"
    script.write_text(TRAINS)
    limits = (["--hang-timeout=5s"], "1800") if level else ([], "6")
    job = [rankshim, f"--python={sys.executable}", f"--run-dir={tmp_path}", *limits[0], *COMMANDS[name], str(script), "sleeps", limits[1]]
    with Process(job, clean_environment({"OMP_NUM_THREADS": "1"})) as process:
        assert process.wait(LONG) == 124, process.transcript()
        assert re.search(SAYS, last_line(process)), process.transcript()
