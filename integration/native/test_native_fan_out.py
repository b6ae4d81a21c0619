"""Several processes of any program on one node, as cube-studio's documentation starts three on one GPU: by a start.sh
that puts each into the background and ends with `wait`, which loses every exit code."""

import json
import os
import signal
import subprocess

import pytest

from lib.events import until
from lib.process import Process, clean_environment, run
from lib.requirements import needs_strace

TASK = """
import argparse, os, sys
parser = argparse.ArgumentParser()
parser.add_argument("--lr")
parser.add_argument("--process_index", type=int)
parser.add_argument("--process_num", type=int)
parser.add_argument("--config")
given = parser.parse_args()
sys.stdout.write(f"{given.process_index} of {given.process_num}, lr {given.lr}, {given.config}, gpu {os.environ['CUDA_VISIBLE_DEVICES']}\\n")
sys.stdout.flush()
if given.process_index == FAILS: sys.exit(17)
if FAILS >= 0:
    import signal
    while True: signal.pause()
"""
# A pod of cube-studio's pytorch template that has one accelerator (its README lists the variables).
POD = {"NCCL_DEBUG": "INFO", "NCCL_IB_DISABLE": "1", "MASTER_PORT": "23456", "NCCL_SOCKET_IFNAME": "eth0",
       "MASTER_ADDR": "127.0.0.1", "WORLD_SIZE": "1", "RANK": "0", "CUDA_VISIBLE_DEVICES": "0"}


@pytest.fixture
def task(tmp_path):
    """task(FAILS): the words that start three of cube-studio's processes, of which that one fails (-1: none)."""

    def words(fails):
        (tmp_path / "mytask.py").write_text(TASK.replace("FAILS", str(fails)))
        return ["--nproc-per-node=3", "--launcher=native", "--", "python3", str(tmp_path / "mytask.py"), "--lr", "0.1",
                "--process_index", "{local_rank}", "--process_num", "{local_world_size}", "--config", '{"a":{"rank":1}}']

    return words


def test_three_processes_share_an_accelerator_and_each_knows_its_place(shim, task):
    done = shim(*task(-1), env=POD)
    assert done.code == 0, done.transcript()
    assert sorted(done.stdout.splitlines()) == [f'{index} of 3, lr 0.1, {{"a":{{"rank":1}}}}, gpu 0' for index in range(3)]


@pytest.mark.parametrize("fails", [0, 2])
def test_one_that_fails_fails_the_pod_with_its_code(shim, task, fails):
    done = shim(*task(fails), env=POD)
    assert done.code == 17, done.transcript()
    assert f"error: rank {fails} exited with code " in done.stderr


def test_explain_shows_each_worker(shim, task):
    done = shim("explain", "--format=json", *task(-1), env=POD)
    workers = json.loads(done.stdout)["workers"]
    assert [worker["environment"]["LOCAL_RANK"] for worker in workers] == ["0", "1", "2"]
    assert workers[2]["command"][3:8] == ["0.1", "--process_index", "2", "--process_num", "3"]
    shown = shim("explain", *task(-1), env=POD).stdout
    assert [line.split()[0] for line in shown.split("workers\n")[1].splitlines()[:3]] == ["RANK=0", "RANK=1", "RANK=2"]


def test_a_restarted_set_ends_with_the_last_ones_code(shim):
    done = shim("--platform=none", "--launcher=native", "--nproc-per-node=2", "--max-restarts=1", "--", "sh", "-c",
                "echo $LOCAL_RANK $TORCHELASTIC_RESTART_COUNT; exit $((5 + TORCHELASTIC_RESTART_COUNT))")
    assert done.code == 6
    assert {line.split()[1] for line in done.stdout.splitlines()} == {"0", "1"}


def test_a_stop_ends_the_restarts(rankshim):
    words = ["--platform=none", "--launcher=native", "--nproc-per-node=2", "--max-restarts=100", "--", "sh", "-c",
             "trap 'exit 3' TERM; echo UP; while :; do sleep 0.1; done"]
    with Process([rankshim, *words], clean_environment(), name="rankshim") as process:
        process.wait_line("UP")
        process.signal(signal.SIGTERM)
        assert process.wait() == 143
    assert "restart" not in process.stderr


def test_a_second_interrupt_kills_what_does_not_stop(rankshim):
    words = ["--platform=none", "--launcher=native", "--nproc-per-node=2", "--", "sh", "-c",
             "trap 'echo INT' INT; echo UP; while :; do sleep 0.1; done"]
    with Process([rankshim, *words], clean_environment(), name="rankshim") as process:
        process.wait_line("UP")
        process.wait_line("UP")
        process.signal(signal.SIGINT)
        process.wait_line("INT")
        process.signal(signal.SIGINT)
        assert process.wait() == 130
    assert "a second SIGINT" in process.stderr


def test_a_program_that_is_not_there_is_127_and_one_that_cannot_be_executed_126(shim, tmp_path):
    (tmp_path / "text").write_text("no program\n")
    for program, code in (("/no/such/program", 127), (str(tmp_path / "text"), 126)):
        assert shim("--platform=none", "--launcher=native", "--nproc-per-node=3", "--", program).code == code


def test_nothing_is_left_in_the_temporary_folder(shim, tmp_path):
    done = shim("--platform=none", "--launcher=native", "--nproc-per-node=2", "--", "sh", "-c",
                'test -d "${TORCHELASTIC_ERROR_FILE%/*}" && echo "$TORCHELASTIC_ERROR_FILE"', env={"TMPDIR": str(tmp_path)})
    assert done.code == 0
    assert len(done.stdout.splitlines()) == 2
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("failure, code", [
    ("vfork:error=EAGAIN:when=2", 71),  # the second worker: the first is ended, the third never started
    ("wait4:error=EIO:when=1", 17),
    ("mkdir:error=EROFS", 17),
])
def test_a_call_that_fails_neither_hides_the_end_nor_leaves_a_worker(rankshim, tmp_path, failure, code):
    needs_strace()
    mark = str(tmp_path / "worker.sh")
    (tmp_path / "worker.sh").write_text("[ $LOCAL_RANK = 1 ] && exit 17; while :; do sleep 0.05; done\n")
    trace = tmp_path / "trace"
    inject = ["strace", "-D", "-qq", "-o", str(trace), "-e", f"trace={failure.split(':')[0]}", "-e", f"inject={failure}"]
    done = run([*inject, rankshim, "--platform=none", "--launcher=native", "--nproc-per-node=3", "--grace=5s", "--", "sh", mark],
               clean_environment(), name="rankshim")
    until(lambda: "(INJECTED)" in trace.read_text(), "rankshim makes the call, and strace has written that")
    assert done.code == code, done.transcript()
    assert subprocess.run(["pgrep", "-f", mark], capture_output=True).returncode == 1, "a worker is left"


def test_each_process_has_variables_of_its_own(shim):
    done = shim("--platform=none", "--launcher=native", "--nproc-per-node=2", "--env=CACHE=/cache/{local_rank}", "--env", "PATTERN={{rank}},{x}",
                "--", "sh", "-c", 'echo "$CACHE $PATTERN"')
    assert (done.code, sorted(done.stdout.splitlines())) == (0, ["/cache/0 {rank},{x}", "/cache/1 {rank},{x}"])


def test_one_process_has_its_words_as_they_are(shim):
    job = {"NNODES": "2", "NODE_RANK": "1", "MASTER_ADDR": "127.0.0.1", "RANKSHIM_ENV": "A={node_rank}\nB=2"}
    words = ["--wait=none", "--", "sh", "-c", "echo $A $B $0", "{node_rank}/{nnodes}"]
    assert shim(*words, env=job).stdout == "{node_rank} 2 {node_rank}/{nnodes}\n"


def test_explain_shows_variables_and_hides_secrets(shim):
    done = shim("explain", "--platform=none", "--launcher=native", "--env=MY_TOKEN=sesame-{rank}", "--env=OUT=/out/{rank}", "--", "true")
    assert "OUT=/out/0" in done.stdout and "sesame" not in done.stdout


def test_a_secret_that_was_given_as_a_variable_is_not_in_the_report(shim, tmp_path):
    script = """echo '{"message": {"message": "no login for '$MY_TOKEN'"}}' >$TORCHELASTIC_ERROR_FILE; exit 1"""
    done = shim("--platform=none", "--launcher=native", "--env=MY_TOKEN=sesame", f"--report={tmp_path}/report", "--", "sh", "-c", script)
    assert "no login for [redacted]" in done.stderr, done.transcript()
    assert "sesame" not in done.stderr + (tmp_path / "report").read_text()


def test_a_variable_without_a_name_is_refused(shim):
    done = shim("--env==x", "--", "true")
    assert done.code == 64
    assert "is not NAME=VALUE, one on each line" in done.stderr


def test_no_worker_outlives_a_rankshim_that_is_killed(rankshim, tmp_path):
    """Outside a container: otherwise they would keep the master's port. They are deaf to every signal that can be handled."""
    deaf = "trap '' HUP INT QUIT TERM USR1 USR2; echo UP $$; while :; do sleep 0.05; done"
    words = ["--platform=none", "--launcher=native", "--nproc-per-node=2", "--", "sh", "-c", deaf]
    with Process([rankshim, *words], clean_environment(), name="rankshim") as process:
        until(lambda: len(process.stdout.splitlines()) == 2, "both are up")
        workers = [int(line.split()[1]) for line in process.stdout.splitlines()]
        os.kill(process.pid, signal.SIGKILL)
        until(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in workers), "the workers are gone")
