"""The report, the termination log, the status, the hooks and the JSON log, with plain programs."""

import json
import os
import signal

import pytest

from lib.events import until
from lib.process import Process, clean_environment, run

# The master of a job of two, which waits for nobody: a plain program alone has no status.
JOB = {"NNODES": "2", "NODE_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29511", "RANKSHIM_WAIT": "none"}


@pytest.fixture
def start(rankshim):
    """Starts rankshim with arguments; ended with the test."""
    started = []

    def begin(*arguments, env=None):
        process = Process([rankshim, *arguments], clean_environment(env), name="rankshim")
        started.append(process)
        return process

    yield begin
    for process in started:
        process.kill()


def told(path):
    """The report."""
    return json.loads(path.read_text())


def test_a_programs_end_is_in_the_report_and_success_leaves_the_termination_log_empty(shim, tmp_path):
    log = tmp_path / "log"
    report = tmp_path / "report.json"
    options = [f"--report={report}", f"--termination-log={log}"]
    assert shim(*options, "--", "true").code == 0
    assert told(report)["outcome"] == "succeeded" and told(report)["root_cause"] is None
    assert not log.exists()
    assert shim(*options, "--", "sh", "-c", "exit 3").code == 3
    assert told(report)["outcome"] == "failed"
    assert told(report)["root_cause"]["who"] == "program" and told(report)["root_cause"]["exit_code"] == 3
    assert log.read_text().startswith("sh ended with code 3 after ")
    assert sorted(os.listdir(tmp_path)) == ["log", "report.json"]


def test_what_could_not_be_started_is_reported_too(shim, tmp_path):
    log = tmp_path / "log"
    report = tmp_path / "report.json"
    options = [f"--report={report}", f"--termination-log={log}"]
    assert shim(*options, "--", "train.py", env={"WORLD_SIZE": "3", "MASTER_ADDR": "x"}).code == 78
    assert told(report)["outcome"] == "not started"
    assert "NODE_RANK" in told(report)["verdict"] and "NODE_RANK" in log.read_text()
    assert shim(*options, "--", "no-such-program").code == 127
    assert "no-such-program was not found" in log.read_text()


def test_a_report_that_cannot_be_written_is_a_warning(shim):
    done = shim("--report=/proc/no/report", "--termination-log=/proc/no/log", "--", "sh", "-c", "exit 4")
    assert done.code == 4
    assert done.stderr.count("cannot be written") == 2


def test_while_it_stops_a_provisional_word_stands_in_the_termination_log(start, tmp_path):
    log = tmp_path / "log"
    go = tmp_path / "go"
    os.mkfifo(go)
    script = f"trap 'echo STOPPING; read word <{go}; exit 0' TERM; echo READY; while :; do sleep 1000 & wait $!; done"
    program = start(f"--termination-log={log}", "--", "bash", "-c", script)
    program.wait_line("READY", 60)
    program.signal(signal.SIGTERM)
    program.wait_line("STOPPING", 60)
    until(lambda: log.exists() and "SIGTERM came" in log.read_text(), 60, "the provisional word")
    go.write_text("on\n")
    assert program.wait(60) == 0
    assert log.read_text() == ""


def status(shim, folder, *options):
    """The exit code of `rankshim status`, and what it told."""
    asked = shim("status", f"--run-dir={folder}", *options)
    return asked.code, json.loads(asked.stdout or "{}")


def answers(shim, folder):
    """Until an instance answers."""
    return until(lambda: status(shim, folder)[1], 60, "an answer to rankshim status")


def test_status_tells_the_phase_and_is_for_probes(shim, start, tmp_path):
    assert status(shim, tmp_path)[0] == 1
    program = start(f"--run-dir={tmp_path}", "--", "sleep", "1000", env=JOB)
    answer = answers(shim, tmp_path)
    assert answer["phase"] == "run" and answer["failed"] is False
    assert answer["pid"] == program.pid and answer["workers"] == []
    assert status(shim, tmp_path, "--phase", "run")[0] == 0
    assert status(shim, tmp_path, "--phase", "wait")[0] == 1
    program.signal(signal.SIGTERM)
    program.wait(60)
    assert status(shim, tmp_path)[0] == 1
    assert os.listdir(tmp_path) == []


def test_status_tells_what_is_waited_for_and_that_is_well(shim, start, tmp_path):
    job = {**JOB, "NODE_RANK": "1", "MASTER_ADDR": "no-such-master.invalid"}
    program = start(f"--run-dir={tmp_path}", "--wait=port", "--", "true", env=job)
    answer = answers(shim, tmp_path)
    assert (answer["phase"], answer["waiting_for"]) == ("wait", "no-such-master.invalid:29511 to answer")
    assert status(shim, tmp_path)[0] == 0
    assert status(shim, tmp_path, "--phase=run")[0] == 1
    program.signal(signal.SIGTERM)
    assert program.wait(60) == 143


def test_a_stale_socket_is_replaced_and_a_living_one_is_left(shim, start, tmp_path):
    first = start(f"--run-dir={tmp_path}", "--child-death-signal=KILL", "--", "sleep", "1000", env=JOB)
    answers(shim, tmp_path)
    second = start(f"--run-dir={tmp_path}", "--log-level=debug", "--", "sleep", "1000", env=JOB)
    second.wait_line("another rankshim answers", 60)
    assert status(shim, tmp_path)[1]["pid"] == first.pid
    second.signal(signal.SIGTERM)
    second.wait(60)
    first.signal(signal.SIGKILL)
    first.wait(60)
    third = start(f"--run-dir={tmp_path}", "--", "sleep", "1000", env=JOB)
    assert until(lambda: status(shim, tmp_path)[1].get("pid"), 60, "an answer") == third.pid


def test_a_pre_start_hook_comes_before_anything_is_read(shim, tmp_path):
    done = shim("--pre-start=echo HOOK", "--", "echo", "PROGRAM")
    assert done.code == 0
    assert done.stdout.split() == ["HOOK", "PROGRAM"]


@pytest.mark.parametrize("hook, code, words", [
    ("exit 9", 9, "the pre-start hook ended with code 9; nothing was started"),
    ("sleep 1000", 137, "it took longer than 250ms; nothing was started"),
])
def test_a_pre_start_hook_that_fails_is_our_end(shim, tmp_path, hook, code, words):
    done = shim(f"--pre-start={hook}", "--pre-start-timeout=250ms", "--", "echo", "PROGRAM")
    assert done.code == code
    assert words in done.stderr
    assert done.stdout == ""


def test_a_term_during_the_pre_start_hook_ends_it(start):
    program = start("--pre-start=echo HOOK; sleep 1000", "--", "echo", "PROGRAM")
    program.wait_line("HOOK", 60)
    program.signal(signal.SIGTERM)
    assert program.wait(60) == 143
    assert "PROGRAM" not in program.stdout


def test_the_post_stop_hook_gets_the_report_and_changes_nothing(shim, tmp_path):
    hook = "cat $RANKSHIM_REPORT; exit 5"
    done = shim(f"--post-stop={hook}", "--", "sh", "-c", "exit 3")
    assert done.code == 3
    assert json.loads(done.stdout)["exit_code"] == 3
    assert "the post-stop hook ended with code 5" in done.stderr
    report = tmp_path / "report.json"
    assert shim(f"--report={report}", "--post-stop=echo $RANKSHIM_REPORT", "--", "true").stdout == f"{report}\n"


def test_a_failed_container_is_held_until_a_term(shim, start, tmp_path):
    report = tmp_path / "report.json"
    program = start("--hold-on-failure=30m", f"--report={report}", f"--run-dir={tmp_path}", "--",
                    "sh", "-c", "sleep 0.3; exit 6", env=JOB)
    program.wait_line("the container is kept for 30m", 60)
    assert told(report)["exit_code"] == 6
    code, answer = status(shim, tmp_path)
    assert (code, answer["phase"], answer["failed"]) == (1, "held", True)
    program.signal(signal.SIGTERM)
    assert program.wait(60) == 6
    assert shim("--hold-on-failure=30m", "--", "true").code == 0
    assert shim("--hold-on-failure=100ms", "--", "false").code == 1


def test_the_log_can_be_json(rankshim):
    done = run([rankshim, "--log-format=json", "--", "sh", "-c", "exit 3"], clean_environment())
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert [line["level"] for line in lines] == ["info", "error"]
    assert lines[-1]["message"].startswith("sh ended with code 3")
    assert lines[-1]["time"].endswith("Z")
