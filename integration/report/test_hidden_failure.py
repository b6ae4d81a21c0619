"""A command that goes on after its torchrun has failed."""

import json

import pytest

from lib.process import clean_environment, run

pytestmark = [pytest.mark.torch, pytest.mark.usefixtures("torch")]

LONG = 120
FAILS_ONCE = """
import os, signal, sys
if os.path.exists("tried"): sys.exit(0)
if os.environ["RANK"] == "1":
    open("tried", "w").close()
    END
signal.pause()
"""
TORCHRUN = "torchrun --standalone --nproc_per_node=2 fails.py"


@pytest.fixture
def fails(rankshim, tmp_path):
    """fails(COMMAND, END, OPTION...): its end with its report, where rank 1 does END in the first try."""

    def ended(command, end, *options):
        (tmp_path / "fails.py").write_text(FAILS_ONCE.replace("END", end))
        done = run([rankshim, f"--report={tmp_path}/report.json", *options, "--", *command],
                   clean_environment({"OMP_NUM_THREADS": "1"}), name="rankshim", cwd=tmp_path, timeout=LONG)
        done.report = json.loads((tmp_path / "report.json").read_text())
        done.last_line = done.stderr.splitlines()[-1]
        return done

    return ended


@pytest.mark.parametrize("options, code, outcome", [
    ((), 0, "succeeded"),
    pytest.param(("--strict",), 42, "failed", marks=pytest.mark.nightly),
], ids=["told", "strict"])
def test_a_failure_of_torchrun_that_the_script_hides_is_told(fails, options, code, outcome):
    done = fails(["bash", "-c", f"{TORCHRUN} | cat"], "sys.exit(42)", *options)
    assert (done.code, done.report["outcome"]) == (code, outcome), done.transcript()
    cause = done.report["root_cause"]
    assert (cause["who"], cause["rank"], cause["local_rank"], cause["exit_code"], cause["source"]) == ("worker", 1, 1, 42, "torchrun")
    assert done.last_line.startswith("rankshim: error: " if options else "rankshim: warning: ")
    assert ", although rank 1 exited with code 42" in done.last_line


@pytest.mark.parametrize("options", [
    (), pytest.param(("--nnodes=2", "--node-rank=0", "--master-addr=127.0.0.1", "--wait=none"), marks=pytest.mark.nightly),
], ids=["alone", "of-two-nodes"])
def test_a_failure_that_a_python_program_hides_is_told_too(fails, tmp_path, options):
    (tmp_path / "start.py").write_text(f"import subprocess\nsubprocess.run({TORCHRUN.split()})\n")
    done = fails(["python", "start.py"], "sys.exit(42)", *options)
    assert (done.code, done.report["outcome"]) == (0, "succeeded"), done.transcript()
    assert done.last_line.startswith("rankshim: warning: python exited with code 0 after ")
    assert ", although rank 1 exited with code 42" in done.last_line


@pytest.mark.nightly
def test_a_signal_that_ended_it_is_named(fails):
    done = fails(["bash", "-c", f"{TORCHRUN}; true"], "os.kill(os.getpid(), signal.SIGKILL)", "--strict")
    assert (done.code, done.report["root_cause"]["signal"]) == (137, "SIGKILL"), done.transcript()


IN_PROCESS = """
from torch.distributed import run
if __name__ == "__main__":
    run.run(run.get_args_parser().parse_args(["--standalone", "--nproc_per_node=2", "fails.py"]))
"""


@pytest.mark.parametrize(("command", "end", "says"), [
    pytest.param(["bash", "-c", TORCHRUN], "os.kill(os.getpid(), signal.SIGKILL)", "was killed by SIGKILL", marks=pytest.mark.nightly),
    (["bash", "-c", TORCHRUN], "raise ValueError('boom')", "exited with code 1: ValueError: boom"),
    pytest.param(["python", "in_process.py"], "raise ValueError('boom')", "exited with code 1: ValueError: boom",
                 marks=pytest.mark.nightly),  # as accelerate does
], ids=["signal", "exception", "in its own process"])
def test_the_worker_of_a_torchrun_in_a_command_is_named_if_the_command_fails_too(fails, tmp_path, command, end, says):
    (tmp_path / "in_process.py").write_text(IN_PROCESS)
    done = fails(command, end, "--nnodes=2", "--node-rank=0", "--master-addr=127.0.0.1", "--wait=none", "--nproc-per-node=2")
    assert done.code == 1, done.transcript()
    assert " exited with code 1 after " in done.last_line or "was killed" not in says
    assert f"rank 1 {says}" in done.last_line
    assert (done.report["root_cause"]["who"], done.report["root_cause"]["rank"]) == ("worker", 1)


@pytest.mark.nightly
def test_a_script_that_tries_again_and_succeeds_hides_nothing(fails):
    done = fails(["bash", "-c", f"until {TORCHRUN}; do :; done"], "sys.exit(42)", "--strict")
    assert (done.code, done.report["root_cause"]) == (0, None), done.transcript()
