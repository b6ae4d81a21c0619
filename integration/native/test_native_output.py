"""Where the output of the native launcher's workers goes."""

import os
import select
import signal
import subprocess

import pytest

from lib.events import PATIENCE, until
from lib.idle import DAYS, sleeps
from lib.process import Process, children, clean_environment, run
from lib.requirements import needs_strace

WORKERS = ("--platform=none", "--launcher=native", "--nproc-per-node=2")


def files(folder):
    """The texts of all files in the only run's folder, by their paths in it."""
    (run,) = folder.iterdir()
    return {str(path.relative_to(run)): path.read_text() for path in run.rglob("*") if path.is_file()}


def test_each_rank_writes_to_files_of_its_own_and_restarts_keep_those_of_before(shim, tmp_path):
    logs = tmp_path / "not" / "there"
    done = shim(*WORKERS, "--max-restarts=1", "--run-id=job/7", f"--log-dir={logs}", "--", "sh", "-c",
                "echo out $RANK; echo err $RANK >&2; exit $((1 - TORCHELASTIC_RESTART_COUNT))")
    assert done.code == 0, done.transcript()
    assert done.stdout == "" and "err" not in done.stderr
    (run,) = logs.iterdir()
    assert run.name.startswith("job_7_")
    found = files(logs)
    # A worker may be ended before it writes, because the other has failed.
    assert {path: text for path, text in found.items() if path.startswith("attempt_1")} == {
        f"attempt_1/{rank}/{name}.log": f"{name[3:6]} {rank}\n" for rank in (0, 1) for name in ("stdout", "stderr")}
    assert {f"attempt_0/{rank}/stdout.log" for rank in (0, 1)} <= found.keys()
    assert "out" in found["attempt_0/0/stdout.log"] + found["attempt_0/1/stdout.log"]


def test_the_worker_itself_writes_to_its_file(shim, tmp_path):
    done = shim(*WORKERS, f"--log-dir={tmp_path}", "--", "sh", "-c", "readlink /proc/self/fd/1")
    assert done.code == 0
    (run,) = tmp_path.iterdir()
    assert files(tmp_path)["attempt_0/1/stdout.log"] == f"{run}/attempt_0/1/stdout.log\n"


def test_a_folder_that_cannot_be_made_is_a_warning(shim, tmp_path):
    (tmp_path / "file").write_text("")
    done = shim(*WORKERS, f"--log-dir={tmp_path}/file/logs", "--", "sh", "-c", "echo $RANK")
    assert (done.code, sorted(done.stdout.split())) == (0, ["0", "1"])
    assert f"warning: cannot make the folder {tmp_path}/file/logs (Not a directory)" in done.stderr


@pytest.mark.nightly
@pytest.mark.torch
@pytest.mark.usefixtures("torch")
def test_torchrun_has_the_same_layout(shim, tmp_path):
    (tmp_path / "train.py").write_text("import os, sys\nprint('out', os.environ['RANK'])\nprint('err', os.environ['RANK'], file=sys.stderr)\n")
    found = {}
    for launcher in ("torchrun", "native"):
        done = shim("--platform=none", f"--launcher={launcher}", "--nproc-per-node=2", f"--log-dir={tmp_path / launcher}", "--",
                    str(tmp_path / "train.py"), env={"OMP_NUM_THREADS": "1"})
        assert (done.code, done.stdout) == (0, ""), done.transcript()
        found[launcher] = {path: text for path, text in files(tmp_path / launcher).items() if path.endswith(".log")}
    assert len(found["native"]) == 4
    assert found["native"] == found["torchrun"]


def test_each_line_begins_with_its_workers_rank(shim):
    done = shim(*WORKERS, "--prefix", "--", "sh", "-c", "echo out $RANK; echo err $RANK >&2; printf 'no end'")
    assert done.code == 0
    for rank in "01":
        assert [line for line in done.stdout.splitlines() if line.startswith(f"[{rank}]")] == [f"[{rank}] out {rank}", f"[{rank}] no end"]
        assert f"[{rank}] err {rank}" in done.stderr.splitlines()
    assert len(done.stdout.splitlines()) == 4


@pytest.mark.parametrize("prefix", [(), ("--prefix",)])
def test_tee_writes_to_the_files_and_here(shim, tmp_path, prefix):
    done = shim(*WORKERS, f"--log-dir={tmp_path}", "--tee", *prefix, "--", "sh", "-c", "echo $RANK; echo err $RANK >&2; printf rest")
    assert done.code == 0
    first = "[0] " if prefix else ""
    assert sorted(done.stdout.splitlines())[:1] == [first + "0"]
    assert first + "err 0" in done.stderr.splitlines() and done.stdout.count("rest\n") == 2
    assert files(tmp_path)["attempt_0/1/stdout.log"] == "1\nrest", "no prefix, and nothing added"


def test_a_restarted_set_is_relayed_too(shim):
    done = shim(*WORKERS, "--prefix", "--max-restarts=1", "--", "sh", "-c",
                "echo $TORCHELASTIC_RESTART_COUNT; [ $RANK = 1 ] && exit 3; exec sleep 1000")
    assert done.code == 3
    assert [line for line in done.stdout.splitlines() if line.startswith("[1]")] == ["[1] 0", "[1] 1"]


# 4 MB of short lines, with bounded memory, and a line of 10 MB.
def test_much_output_is_complete(rankshim, tmp_path):
    command = f"exec \"{rankshim}\" {' '.join(WORKERS)} --prefix -- sh -c 'yes | head -c 2000000; head -c 10000000 /dev/zero; grep VmHWM /proc/$PPID/status >&2'"
    done = subprocess.run(["sh", "-c", command], env=clean_environment(), stdout=(tmp_path / "out").open("wb"), stderr=subprocess.PIPE)
    assert done.returncode == 0
    lines = (tmp_path / "out").read_bytes().splitlines()
    for rank in (b"[0] ", b"[1] "):
        mine = [line[4:] for line in lines if line.startswith(rank)]
        assert mine.count(b"y") == 1_000_000
        assert sum(line.count(b"\0") for line in mine) == 10_000_000
    assert all(len(line) <= 4 + (64 << 10) for line in lines)
    peaks = [int(line.split()[2]) for line in done.stderr.decode().splitlines() if "VmHWM" in line]
    assert len(peaks) == 2 and max(peaks) < 8_000, "kB"


@pytest.mark.parametrize("ways", [("--prefix",), ("--prefix", "--tee", "--log-dir")])
def test_rankshim_acts_on_signals_while_nothing_reads_its_output(rankshim, tmp_path, ways):
    words = [*ways[:-1], f"--log-dir={tmp_path}"] if ways[-1] == "--log-dir" else ways
    reader, writer = os.pipe()  # which nobody reads
    command = [rankshim, *WORKERS, *words, "--", "sh", "-c", "[ $RANK = 1 ] && exec sleep 1000; exec yes"]
    process = subprocess.Popen(command, env=clean_environment(), stdout=writer, stderr=subprocess.PIPE)
    until(lambda: not select.select([], [writer], [], 0)[1], "the pipe is full")
    process.send_signal(signal.SIGTERM)
    until(lambda: not children(process.pid), "the workers have ended")
    process.send_signal(signal.SIGTERM)  # does not wait for a reader any longer
    assert process.wait(PATIENCE) == 143
    assert b"the workers' last lines are lost" in process.stderr.read()
    os.close(reader)
    os.close(writer)


def test_what_a_worker_leaves_behind_with_its_stdout_keeps_nothing_alive(shim):
    done = shim(*WORKERS, "--prefix", "--leftover-grace=100ms", "--", "sh", "-c", "trap '' TERM; sleep 1000 & echo $RANK; exit 0")
    assert done.code == 0
    assert sorted(done.stdout.splitlines()) == ["[0] 0", "[1] 1"]


def test_nothing_is_done_while_nothing_is_written(rankshim, tmp_path):
    for words in (["--prefix"], ["--tee", f"--log-dir={tmp_path}"]):
        with Process([rankshim, *WORKERS, "--hang-notice=off", *words, "--", "sh", "-c", "echo up $RANK; exec sleep 1000"], clean_environment()) as process:
            for rank in (0, 1):
                process.wait_line(f"up {rank}")
            until(lambda: sleeps(process.pid) > DAYS, "nothing is due")


@pytest.mark.parametrize("failure, words, expected", [
    ("inotify_init1:error=EMFILE", ("--tee",), "does not come here"),
    ("pipe2:error=EMFILE:when=1..4", (), "cannot put"),
    # The first five are the loop's own, the signals', and those of the socket on which exceptions are told.
    ("epoll_ctl:error=ENOSPC:when=6", (), "cannot put"),
    ("?dup2,?dup3:error=EMFILE", (), "warning: a worker writes to the stdout or stderr of rankshim: "),
])
def test_a_call_that_is_refused_costs_the_prefix_and_not_the_job(rankshim, tmp_path, failure, words, expected):
    needs_strace()
    words = [*words, f"--log-dir={tmp_path}"] if words else ["--prefix"]
    inject = ["strace", "-D", "-f", "-qq", "-o", "/dev/null", "-e", f"trace={failure.split(':')[0]}", "-e", f"inject={failure}"]
    done = run([*inject, rankshim, *WORKERS, *words, "--", "sh", "-c", "echo $RANK; exit 3"],
               {**clean_environment(), "RANKSHIM_HANG_NOTICE": "off"}, name="rankshim")
    assert done.code == 3, done.transcript()
    assert expected in done.stderr, done.transcript()
