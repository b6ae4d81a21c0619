"""rankshim waits for what the platform has not written yet: a rank table that is initializing."""

import json
import signal
import subprocess

import pytest

from lib.events import until

LONG = 60


@pytest.fixture
def waiting(rankshim, tmp_path):
    """A run that has logged that it waits for the table, and the table."""
    table = tmp_path / "hccl.json"
    table.write_text('{"status": "initializing"}')
    process = subprocess.Popen(
        [rankshim, "--wait", "none", f"--run-dir={tmp_path}", "--", "/bin/echo", "started"],
        env={"RANK_TABLE_FILE": str(table), "PATH": "/usr/bin:/bin"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    line = process.stderr.readline()
    assert "waiting up to 10m: the rank table is initializing" in line
    yield process, table
    process.kill()
    process.wait()


def test_a_run_starts_when_the_rank_table_is_complete(waiting):
    process, table = waiting
    server = {"server_id": "10.0.0.1", "device": [{"device_id": "0", "rank_id": "0"}]}
    complete = table.with_suffix(".new")
    complete.write_text(json.dumps({"status": "completed", "server_count": "1", "server_list": [server]}))
    complete.rename(table)
    assert process.stdout.readline() == "started\n"
    assert process.wait(LONG) == 0


def test_a_stop_while_waiting_ends_it_and_starts_nothing(waiting):
    process, _ = waiting
    process.send_signal(signal.SIGTERM)
    assert process.wait(LONG) == 128 + signal.SIGTERM
    assert process.stdout.read() == ""


def test_explain_does_not_wait_and_reports_it(rankshim, tmp_path):
    table = tmp_path / "hccl.json"
    table.write_text('{"status": "initializing"}')
    done = subprocess.run(
        [rankshim, "explain", "--format", "json"],
        env={"RANK_TABLE_FILE": str(table)},
        capture_output=True,
        timeout=LONG,
        text=True,
    )
    assert done.returncode == 78
    assert "RANK_TABLE_FILE" in json.loads(done.stdout)["errors"][0]["names"]


def test_the_status_answers_while_the_rank_table_is_waited_for(waiting, rankshim, tmp_path):
    ask = [rankshim, "status", f"--run-dir={tmp_path}"]
    answer = until(lambda: json.loads(subprocess.run(ask, capture_output=True, text=True).stdout or "{}"), "an answer", LONG)
    assert answer["phase"] == "wait"
    assert answer["waiting_for"].startswith("the rank table is initializing")
