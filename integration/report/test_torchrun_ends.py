"""How torchrun's workers can end, and that the exit code, the report, the termination log and the last line on stderr
are right for each."""

import json
import pathlib
import re
import signal
import socket

import pytest

from lib.documents import shape, shown
from lib.process import Process, clean_environment
from report.conftest import Reporting

pytestmark = [pytest.mark.torch, pytest.mark.usefixtures("torch")]

WORKER = str(pathlib.Path(__file__).with_name("worker.py"))
LONG = 120  # for torchrun, its workers and their end on a busy machine

# The worker's end, with rankshim's options.
CASES = {
    "raise": [],
    "exit": [],
    "kill": [],
    "segfault": [],
    "memory": [],
    "agent": [],
    "deaf": ["--grace", "2s"],
    "deaf without stacks": ["--grace", "2s", "--no-stacks"],
    "restart": ["--max-restarts", "1"],
    "notice": [],
}


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Case(Reporting):
    """One job on its way to its end."""

    def __init__(self, rankshim, end, folder, wrapper):
        self.folder = folder
        (self.folder / "meet").mkdir(parents=True)
        (self.folder / "tmp").mkdir()
        options = [f"--report={self.folder}/report.json", f"--termination-log={self.folder}/log",
                   f"--run-dir={self.folder}", "--nproc-per-node=2", f"--master-port={free_port()}", *CASES[end]]
        environment = {"TMPDIR": f"{self.folder}/tmp", "MEET": f"{self.folder}/meet", "MY_TOKEN": "hunter2-hunter2"}
        self.process = Process([rankshim, *options, "--", WORKER, end.split()[0]], clean_environment(environment),
                               name=end, wrapper=wrapper)

    def end(self):
        super().end(LONG)
        assert self.report["version"] == 1
        assert self.report["exit_code"] == self.code
        assert self.last_line.endswith(self.report["verdict"])
        assert len(self.log.encode()) <= 4096
        return self


@pytest.fixture
def job(rankshim, tmp_path):
    """job(END): the ended Case."""
    started = []

    def ended(end, wrapper=()):
        started.append(Case(rankshim, end, tmp_path, wrapper))
        return started[-1].end()

    yield ended
    for case in started:
        case.process.kill()


def worker(case, rank):
    """The report's entry for a worker."""
    return next(one for one in case.report["workers"] if one["rank"] == rank)


def test_an_exception_is_reported_with_its_traceback_and_without_secrets(job):
    case = job("raise")
    assert case.code == 1
    assert case.report["outcome"] == "failed"
    assert (case.cause["who"], case.cause["rank"], case.cause["local_rank"], case.cause["node_rank"]) == ("worker", 1, 1, 0)
    assert case.cause["host"] == socket.gethostname()
    assert case.cause["exception"] == "ValueError: boom with [redacted]"
    assert any("fail_in_a_call" in line for line in case.cause["traceback"])
    assert not case.cause["out_of_memory"]
    assert ": ValueError: boom with [redacted]" in case.last_line
    assert case.log.startswith("rank 1 exited with code 1") and "fail_in_a_call" in case.log
    for text in (json.dumps(case.report), case.log, case.last_line):
        assert "hunter2" not in text
    assert {"resolve", "launch", "run", "wind-down"} <= set(case.report["phases"])
    assert case.report["resources"]["max_rss_bytes"] > 10 << 20
    assert case.report["resources"]["user_seconds"] > 0


@pytest.mark.alone  # how soon the worker is seen, which ends at once
def test_sys_exit_42_is_42(job):
    case = job("exit")
    assert case.code == 42
    assert (case.cause["who"], case.cause["rank"], case.cause["exit_code"]) == ("worker", 1, 42)
    assert case.cause["source"] == "kernel"
    assert worker(case, 1)["exit_code"] == 42
    assert worker(case, 0)["signal"] == "SIGTERM", "the agent ended it, after the failure"
    assert case.log == "", "the container's own log says more than a plain code"


@pytest.mark.nightly  # supervise/test_no_folder_stays.py has it with a stand-in
def test_a_killed_worker_is_137_and_not_out_of_memory(job):
    case = job("kill")
    assert case.code == 137
    assert (case.cause["rank"], case.cause["signal"], case.cause["out_of_memory"]) == (1, "SIGKILL", False)


@pytest.mark.nightly
def test_a_segmentation_fault_is_139(job):
    case = job("segfault")
    assert case.code == 139
    assert (case.cause["rank"], case.cause["signal"]) == (1, "SIGSEGV")


def test_a_worker_over_the_memory_limit_is_reported_as_out_of_memory(memory_group, job):
    case = job("memory", ("sh", "-c", f'echo $$ >{memory_group}/cgroup.procs; exec "$@"', "sh"))
    assert case.code == 137
    assert (case.cause["rank"], case.cause["signal"], case.cause["out_of_memory"]) == (1, "SIGKILL", True)
    memory = case.report["memory"]
    limit = int((memory_group / "memory.limit_in_bytes").read_text())
    assert memory["oom_kills"] >= 1 and memory["limit_bytes"] == limit and memory["peak_bytes"] <= limit
    assert "out of memory: the limit is 512 MiB" in case.last_line
    # The page has a job of two nodes.
    assert shape(case.last_line) in {line.replace("node 0 failed: ", "") for line in shown("docs/report.md")}
    assert "out of memory" in case.log


def test_when_the_agent_is_killed_its_workers_are_ended_and_the_report_has_it(job):
    case = job("agent")
    assert case.code == 137
    assert (case.cause["who"], case.cause["signal"]) == ("launcher", "SIGKILL")
    assert case.report["leftovers"] == {"found": 2, "killed": 0}
    assert [worker(case, rank)["signal"] for rank in (0, 1)] == ["SIGTERM", "SIGTERM"]
    assert case.log.startswith("torchrun was killed by SIGKILL") and "2 leftover processes" in case.log


@pytest.mark.nightly  # supervise/test_launchers_end.py has it with a stand-in
def test_workers_that_ignore_a_term_are_killed_after_the_grace_and_none_counts_as_failed(job):
    case = job("deaf")
    assert case.code == 128 + signal.SIGTERM
    assert case.report["outcome"] == "stopped"
    assert case.cause is None
    assert case.report["stop_signal"] == "SIGTERM"
    # From the SIGABRT, when the grace period is over, there are 0.4 s to the KILL. A busy machine may not give them to Python, and on
    # an idle one torchrun may have seen its workers' ends by then, and end itself.
    ends = {worker(case, rank)["signal"] for rank in (0, 1)}
    assert ends <= {"SIGABRT", "SIGKILL"}, "the ABRT shows where it hung, and ends Python too"
    assert case.report["phases"]["wind-down"] >= 2
    assert "stopped (SIGTERM): " in case.log
    assert re.search(r"; worker 0 \(rank 0, pid \d+, state S, in \w+\), worker 1 \(rank 1, .*\) did not stop in 2\.\d s", case.last_line)
    assert case.report["leftovers"] == {"found": 0, "killed": 0}


@pytest.mark.nightly
def test_without_stacks_such_workers_get_nothing_but_the_kill(job):
    case = job("deaf without stacks")
    assert case.code == 128 + signal.SIGTERM
    assert [worker(case, rank)["signal"] for rank in (0, 1)] == ["SIGKILL", "SIGKILL"]
    assert case.report["killed_by_rankshim"]


def test_of_several_attempts_the_last_ones_failure_counts(job):
    case = job("restart")
    assert case.code == 4
    assert case.report["restarts"] == 1
    assert (case.cause["rank"], case.cause["exit_code"]) == (1, 4)


@pytest.mark.nightly  # supervise/test_launchers_end.py has it with a stand-in
def test_a_preemption_notice_reaches_every_worker_and_not_the_agent_that_it_would_end(job):
    case = job("notice")
    assert case.code == 0
    assert (case.report["outcome"], case.cause, case.log) == ("succeeded", None, "")
    assert [worker(case, rank)["exit_code"] for rank in (0, 1)] == [0, 0]
