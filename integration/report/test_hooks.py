"""The hooks and the hold, with plain programs; a signal reaches them at every moment."""

import json
import os
import signal
import subprocess

import pytest

from lib.process import clean_environment
from report.conftest import JOB, answers, read_report, status


@pytest.fixture
def leaves(tmp_path):
    """leaves(CODE): a script that leaves a process which prints ASKED when it gets TERM, and goes on until the file
    `go` is there."""
    go, up = tmp_path / "go", tmp_path / "up"

    def script(code):
        return (f"(trap 'echo ASKED' TERM; : >{up}; while [ ! -e {go} ]; do sleep 0.02; done) & "
                f"while [ ! -e {up} ]; do sleep 0.02; done; exit {code}")

    return script


def test_a_pre_start_hook_comes_before_anything_is_read(shim, tmp_path):
    done = shim("--pre-start=echo HOOK", "--", "echo", "PROGRAM")
    assert done.code == 0
    assert done.stdout.split() == ["HOOK", "PROGRAM"]


@pytest.mark.parametrize("hook, limit, code, words", [
    ("exit 9", "60s", 9, "the pre-start hook exited with code 9; nothing was started"),
    ("sleep 1000", "250ms", 137, "it took longer than 250ms; nothing was started"),
])
def test_a_pre_start_hook_that_fails_is_our_end(shim, hook, limit, code, words):
    done = shim(f"--pre-start={hook}", f"--pre-start-timeout={limit}", "--", "echo", "PROGRAM")
    assert done.code == code
    assert words in done.stderr
    assert done.stdout == ""


def test_a_term_during_the_pre_start_hook_ends_it(start):
    program = start("--pre-start=echo HOOK; sleep 1000", "--", "echo", "PROGRAM")
    program.wait_line("HOOK")
    program.signal(signal.SIGTERM)
    assert program.wait() == 143
    assert "PROGRAM" not in program.stdout


def test_the_post_stop_hook_gets_the_report_and_changes_nothing(shim, tmp_path):
    hook = "cat $RANKSHIM_REPORT; exit 5"
    done = shim(f"--post-stop={hook}", "--", "sh", "-c", "exit 3")
    assert done.code == 3
    assert json.loads(done.stdout)["exit_code"] == 3
    assert "the post-stop hook exited with code 5" in done.stderr
    report = tmp_path / "report.json"
    assert shim(f"--report={report}", "--post-stop=echo $RANKSHIM_REPORT", "--", "true").stdout == f"{report}\n"


def test_a_failed_container_is_held_until_a_term(shim, start, tmp_path):
    report = tmp_path / "report.json"
    program = start("--hold-on-failure=30m", f"--report={report}", f"--run-dir={tmp_path}", "--",
                    "sh", "-c", "exit 6", env=JOB)
    program.wait_line("the container is kept for 30m")
    assert read_report(report)["exit_code"] == 6
    code, answer = status(shim, tmp_path)
    assert (code, answer["phase"], answer["failed"]) == (1, "held", True)
    program.signal(signal.SIGTERM)
    assert program.wait() == 6
    assert shim("--hold-on-failure=30m", "--", "true").code == 0
    assert shim("--hold-on-failure=100ms", "--", "false").code == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_a_signal_while_what_the_pre_start_hook_left_is_waited_for_starts_nothing(start, leaves, tmp_path, number):
    program = start(f"--pre-start={leaves(0)}", "--leftover-grace=60s", "--", "echo", "PROGRAM")
    program.wait_line("ASKED")
    program.signal(number)
    (tmp_path / "go").touch()
    assert program.wait() == 128 + number
    assert "PROGRAM" not in program.stdout
    assert "during the pre-start hook; nothing was started" in program.stderr


def test_what_a_pre_start_hook_leaves_running_is_stopped_with_a_warning(shim):
    done = shim("--pre-start=sleep 1000 & true", "--", "echo", "PROGRAM")
    assert (done.code, done.stdout) == (0, "PROGRAM\n")
    assert "the processes that the pre-start hook left running were stopped" in done.stderr


def test_a_term_among_the_leftovers_gives_them_the_grace(start, leaves):
    program = start("--grace=200ms", "--no-stacks", "--leftover-grace=1h", "--", "sh", "-c", leaves(3))
    program.wait_line("ASKED")
    program.signal(signal.SIGTERM)
    program.wait_line("SIGTERM received: leftover processes are killed in 200 ms")
    assert program.wait() == 3


def test_a_hook_has_the_grace_of_any_command(start):
    program = start("--grace=200ms", "--pre-start=trap '' TERM; echo HOOK; sleep 1000", "--", "echo", "PROGRAM")
    program.wait_line("HOOK")
    program.signal(signal.SIGTERM)
    assert program.wait() == 143
    assert "PROGRAM" not in program.stdout


def test_a_signal_that_is_to_be_dropped_is_dropped_in_a_hook_too(start, tmp_path):
    go = tmp_path / "go"
    hook = f"echo HOOK; while [ ! -e {go} ]; do sleep 0.02; done"
    program = start("--rewrite-signal=HUP=none", f"--pre-start={hook}", "--", "echo", "PROGRAM")
    program.wait_line("HOOK")
    program.signal(signal.SIGHUP)
    go.touch()
    assert program.wait() == 0
    assert "PROGRAM" in program.stdout


def test_the_status_answers_during_the_pre_start_hook_too(start, shim, tmp_path):
    program = start(f"--run-dir={tmp_path}", "--pre-start=sleep 1000", "--", "true")
    assert answers(shim, tmp_path)["phase"] == "pre-start"
    assert status(shim, tmp_path)[0] == 0
    program.signal(signal.SIGTERM)
    assert program.wait() == 143


def test_a_stop_that_was_acted_upon_does_not_reach_the_post_stop_hook(start):
    job = {"NNODES": "2", "NODE_RANK": "1", "MASTER_ADDR": "no-such-master.invalid"}
    # What was sent before the USR1 has come before it.
    hook = "trap 'echo HOOK; exit' USR1; kill -USR1 $PPID; while :; do sleep 0.02; done"
    program = start(f"--post-stop={hook}", "--", "true", env=job)
    program.wait_line("waiting for master")
    program.signal(signal.SIGTERM)
    assert program.wait() == 143
    assert program.stdout == "HOOK\n"


def test_a_log_reader_that_goes_away_ends_neither_the_waiting_nor_the_hold(rankshim):
    job = {"NNODES": "2", "NODE_RANK": "1", "MASTER_ADDR": "no-such-master.invalid"}
    for options, env, code in [(["--wait-timeout=300ms"], job, 75), (["--hold-on-failure=300ms"], {}, 1)]:
        reader, writer = os.pipe()
        os.close(reader)
        done = subprocess.run([rankshim, *options, "--", "false"], stderr=writer, env=clean_environment(env), timeout=60)
        os.close(writer)
        assert done.returncode == code


def test_where_a_pipe_took_the_report_the_post_stop_hook_has_it_in_a_file(shim):
    done = shim("--report=/dev/stderr", "--post-stop=cat $RANKSHIM_REPORT", "--", "true")
    assert json.loads(done.stdout)["exit_code"] == 0


def test_where_the_report_cannot_be_written_the_post_stop_hook_gets_it_all_the_same(shim):
    done = shim("--report=/proc/no/report", "--post-stop=cat $RANKSHIM_REPORT", "--", "sh", "-c", "exit 3")
    assert json.loads(done.stdout)["exit_code"] == 3


def test_a_term_that_becomes_an_int_kills_no_leftovers(start, leaves, tmp_path):
    program = start("--rewrite-signal=TERM=INT", "--leftover-grace=60s", "--", "sh", "-c", leaves(3))
    program.wait_line("ASKED")
    program.signal(signal.SIGTERM)
    (tmp_path / "go").touch()
    assert program.wait() == 3
    assert "rankshim kills everything" not in program.stderr


@pytest.mark.parametrize("numbers", [[signal.SIGTERM], [signal.SIGUSR1, signal.SIGTERM]], ids=["TERM", "USR1 before it"])
def test_a_container_that_was_asked_to_stop_among_the_leftovers_is_not_held(start, leaves, tmp_path, numbers):
    program = start("--hold-on-failure=30m", "--leftover-grace=60s", "--", "sh", "-c", leaves(3))
    program.wait_line("ASKED")
    for number in numbers:
        program.signal(number)
    (tmp_path / "go").touch()
    assert program.wait() == 3


def test_a_container_that_was_asked_to_stop_in_the_post_stop_hook_is_not_held(start):
    program = start("--hold-on-failure=30m", "--post-stop=echo HOOK; sleep 1000", "--", "sh", "-c", "exit 3")
    program.wait_line("HOOK")
    program.signal(signal.SIGTERM)
    assert program.wait() == 3
