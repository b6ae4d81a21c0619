"""Who hangs on a node that is alone, or that is not linked with the others: it looks at its own workers."""

import os
import pathlib
import re
import shutil
import sys

import pytest
from lib.hangs import TRAINS
from lib.mpi import OPEN_MPI
from lib.process import Process, clean_environment, last_line, run
from lib.requirements import cannot

LONG = 120
SAYS = r"rank 1 (is|was) in train\.py:\d+, in the kernel's \S+; ranks 0 and 2 waited in all_reduce \(train\.py:\d+\) .* \[R42\]$"


# Where scripts/setup installs the launchers.
BIN = pathlib.Path(os.environ.get("LAUNCHERS", pathlib.Path(sys.prefix) / "share" / "launchers")) / "bin"
COMMANDS = {
    "torchrun": ["--launcher=torchrun", "--nproc-per-node=3", "--"],
    "native": ["--launcher=native", "--nproc-per-node=3", "--"],
    "an elastic torchrun": ["--nnodes=1:1", "--rdzv-endpoint=127.0.0.1:29514", "--nproc-per-node=3", "--"],
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


def command_of(name):
    """The launcher's command, if it is installed."""
    command = MPICH if name == "MPICH" else COMMANDS[name]
    for program in ("mpiexec.mpich", OPEN_MPI[0]):
        if program in command and shutil.which(program, path=clean_environment()["PATH"]) is None:
            cannot(f"missing: {program} (scripts/setup installs it)")
    if any(str(BIN) in word for word in command) and not BIN.exists():
        cannot(f"{BIN} is not there (scripts/setup installs it)")
    return command


@pytest.mark.nightly
@pytest.mark.torch
def test_where_the_launcher_lets_who_hangs_run_on_that_is_a_warning_and_hang_timeout_ends_it(rankshim, tmp_path, torch):
    """MPICH's waits for all processes, however the first has ended."""
    script = tmp_path / "train.py"
    script.write_text(TRAINS)
    job = [rankshim, f"--run-dir={tmp_path}", "--grace=3s", "--hang-timeout=20s", *command_of("MPICH"), str(script), "sleeps", "6"]
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
    script = tmp_path / "train.py"
    script.write_text(TRAINS)
    limits = (["--hang-timeout=5s"], "1800") if level else ([], "6")
    job = [rankshim, f"--python={sys.executable}", f"--run-dir={tmp_path}", *limits[0], *command_of(name), str(script), "sleeps", limits[1]]
    with Process(job, clean_environment({"OMP_NUM_THREADS": "1"})) as process:
        assert process.wait(LONG) == 124, process.transcript()
        assert re.search(SAYS, last_line(process)), process.transcript()


@pytest.mark.torch
@pytest.mark.nightly
@pytest.mark.parametrize("name", [*COMMANDS, "MPICH"])
def test_a_notice_and_status_name_the_same_worker_while_the_job_runs(rankshim, tmp_path, torch, name):
    script = tmp_path / "train.py"
    script.write_text(TRAINS)
    options = [f"--python={sys.executable}", f"--run-dir={tmp_path}", "--grace=3s", "--hang-notice=2s"]
    waits = r"ranks 0 and 2 wait in all_reduce \(train\.py:\d+\) for rank 1, which is in train\.py:\d+, in the kernel's \S+"
    with Process([rankshim, *options, *command_of(name), str(script), "sleeps", "1800"], clean_environment({"OMP_NUM_THREADS": "1"})) as process:
        process.wait_line(rf"warning: no collective has completed for \S+ s: {waits} \[R42\]$", LONG)
        shown = run([rankshim, "status", "--stacks", f"--run-dir={tmp_path}"], clean_environment()).stdout
        assert re.search(waits, shown), shown
        assert process.popen.poll() is None
