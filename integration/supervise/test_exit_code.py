"""The exit code is the command's: N, or 128 + the signal that ended it; 126 and 127 of what cannot be started."""

import shutil
import signal
from pathlib import Path

import pytest

CODES = (0, 1, 3, 42, 64, 75, 78, 126, 127, 128, 137, 255)
SIGNALS = (signal.SIGTERM, signal.SIGKILL, signal.SIGSEGV, signal.SIGUSR1, signal.SIGRTMIN)


@pytest.mark.parametrize("end, code", [*((f"exit {code}", code) for code in CODES),
                                       *((f"ulimit -c 0; kill -{int(number)} $$", 128 + number) for number in SIGNALS)])
def test_the_commands_end_is_our_exit_code(start, end, code):
    assert start("sh", "-c", end).wait() == code


def foreign():
    """A program of another machine, which the shell would read as a script."""
    program = bytearray(Path("/bin/true").read_bytes())
    program[18:20] = b"\xff\x7f"  # e_machine
    return bytes(program)


# The file's content and mode, the exit code, and the word for the reason.
NOT_STARTED = {
    "a script without its interpreter": (lambda: b"#!/no/such/interpreter\n", 0o755, 127, "interpreter"),
    "a file that may not be executed": (lambda: b"echo no\n", 0o644, 126, "Permission denied"),
    "a program of another machine": (foreign, 0o755, 126, "architecture"),
}


@pytest.mark.parametrize("what", NOT_STARTED)
def test_a_file_that_cannot_be_executed_is_126_or_127_with_the_reason(start, tmp_path, what):
    content, mode, code, why = NOT_STARTED[what]
    file = tmp_path / "file"
    file.write_bytes(content())
    file.chmod(mode)
    process = start(str(file))
    assert process.wait() == code
    assert str(file) in process.stderr
    assert [word for *_, word in NOT_STARTED.values() if word in process.stderr] == [why]


@pytest.mark.parametrize("command, code", [("no-such-command", 127), ("/no/such/file", 127), ("/tmp", 126)])
def test_what_is_not_there_is_127_and_a_folder_is_126(start, command, code):
    process = start(command)
    assert process.wait() == code
    assert command in process.stderr


LOADER = b"/ld-linux"  # as in /lib64/ld-linux-x86-64.so.2
INTERPRETERS = {
    "none": (b"#!/no/such -x\n", "/no/such"),
    "Windows line ends": (b"#!/bin/sh\r\nexit 3\r\n", r"$'/bin/sh\r'"),
    "none of its interpreter": (b"#!INNER\n", "/no/such"),
    "a foreign loader": (Path(shutil.which("cat")).read_bytes().replace(LOADER, b"/ld-nosuc"), "/ld-nosuc"),
}


@pytest.mark.parametrize("relative", [False, True], ids=["by its path", "by a relative path"])
@pytest.mark.parametrize("content, interpreter", INTERPRETERS.values(), ids=INTERPRETERS.keys())
def test_a_program_whose_interpreter_is_missing_is_127_with_its_name(start, tmp_path, content, interpreter, relative):
    (tmp_path / "inner").write_bytes(INTERPRETERS["none"][0])
    (tmp_path / "run").write_bytes(content.replace(b"INNER", str(tmp_path / "inner").encode()))
    for file in ("inner", "run"):
        (tmp_path / file).chmod(0o755)
    program = "./run" if relative else str(tmp_path / "run")
    process = start(program, cwd=tmp_path)
    assert process.wait() == 127
    line = process.stderr.splitlines()[-1]
    assert f"{program} cannot be executed: its interpreter " in line and interpreter in line
    assert ("Windows line endings" in line, "dynamic loader" in line) == (content.count(b"\r") == 2, "/ld-" in interpreter)
