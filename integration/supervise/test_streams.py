"""Streams, descriptors and variables of the command reach it unchanged."""

import fcntl
import os
import signal
import subprocess
import sys

import pytest

from supervise.conftest import PID_1

DESCRIPTORS = "import os, sys; os.write(int(sys.argv[1]), str(sorted(map(int, os.listdir('/proc/self/fd')))).encode())"


@pytest.mark.parametrize("closed", [(0,), (1,), (2,), (0, 1, 2)], ids=str)
def test_a_closed_stream_stays_closed_and_no_file_of_rankshim_takes_its_number(start, closed):
    reader, writer = os.pipe()
    shell = " ".join(f"{number}>&-" for number in closed)
    process = start(sys.executable, "-c", DESCRIPTORS, str(writer),
                    before=["sh", "-c", f'exec "$@" {shell}', "sh"], pass_fds=[writer])
    assert process.wait() == 0
    os.close(writer)
    with os.fdopen(reader) as file:
        seen = eval(file.read())
    # The listing itself has one more descriptor open: the lowest number that is free.
    expected = {0, 1, 2, writer} - set(closed)
    assert set(seen) == expected | {min(set(range(20)) - expected)}


def test_other_descriptors_reach_the_command(start):
    reader, writer = os.pipe()
    process = start("bash", "-c", f"echo hello >&{writer}", pass_fds=[writer])
    assert process.wait() == 0
    os.close(writer)
    with os.fdopen(reader) as file:
        assert file.read() == "hello\n"


def test_the_reader_of_another_descriptor_sees_its_end_when_the_command_closes_it(rankshim):
    reader, writer = os.pipe()
    command = [rankshim, "--log-level=error", "--", "bash", "-c", f"exec {writer}>&-; read line"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, pass_fds=[writer]) as process:
        os.close(writer)
        with os.fdopen(reader) as file:
            assert file.read() == ""  # and does not wait for our own end
        assert process.poll() is None
        process.communicate(b"go on\n", timeout=60)
    assert process.returncode == 0


@pytest.mark.parametrize("before", [PID_1, ()], ids=["pid 1", "subreaper"])
def test_descriptors_that_were_passed_to_us_are_for_the_command(rankshim, before):
    # By sd_listen_fds(3), a process whose number is not LISTEN_PID leaves them alone.
    script = 'export LISTEN_PID={}; exec "$0" --log-level=error -- sh -c "echo \\$LISTEN_PID \\$\\$"'

    def environment_of(value):
        words = [*before, "sh", "-c", script.format(value), rankshim]
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()

    for_us, command = environment_of("$$")
    assert for_us == command
    assert environment_of("77777")[0] == "77777"


def test_a_full_stderr_neither_stops_us_nor_becomes_non_blocking(start):
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETFL, os.O_NONBLOCK)
    try:
        while True:
            os.write(writer, b"x" * 4096)
    except BlockingIOError:
        fcntl.fcntl(writer, fcntl.F_SETFL, 0)
    process = start("sh", "-c", "trap 'exit 3' TERM; echo ready; while :; do sleep 0.01; done",
                    before=["bash", "-c", f'exec "$@" 2>&{writer}', "bash"], pass_fds=[writer],
                    options=["--signal-scope", "child"])  # or the shell would say on stderr that sleep was ended, and wait
    process.wait_line("ready")
    process.send(signal.SIGTERM)
    assert process.wait() == 3
    assert fcntl.fcntl(writer, fcntl.F_GETFL) & os.O_NONBLOCK == 0
    os.close(reader)
    os.close(writer)


@pytest.mark.parametrize("form", ["text", "json"])
def test_whatever_is_logged_stdout_has_only_the_commands_output(start, form):
    options = ["--log-level=debug", f"--log-format={form}", "--warn-on-reap"]
    process = start("sh", "-c", "(true &); kill -HUP $PPID; sleep 10", options=options)
    assert process.wait() == 128 + signal.SIGHUP
    assert process.stdout == ""
    for words in ("reaped an orphan", "SIGHUP received", "killed by SIGHUP"):
        assert words in process.stderr


@pytest.mark.parametrize("question", ["--version", "--help", "--licenses"])
def test_an_answer_is_on_stdout_and_a_complaint_on_stderr(shim, question):
    answer = shim(question)
    assert (answer.code, answer.stderr) == (0, "") and "rankshim" in answer.stdout
    complaint = shim(question + "x")
    assert (complaint.code, complaint.stdout) == (64, "") and question + "x" in complaint.stderr


def test_the_command_starts_where_we_were_started_and_our_files_are_named_from_there(start, tmp_path):
    process = start("pwd", "-P", cwd=tmp_path, options=["--report=report.json", "--post-stop", "pwd -P"])
    assert process.wait() == 0
    assert process.stdout.splitlines() == [str(tmp_path.resolve())] * 2
    assert (tmp_path / "report.json").exists()
