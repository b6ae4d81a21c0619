"""What a user sees who tries rankshim for the first time."""

import subprocess
import sys

import pytest

from lib.process import clean_environment


def run(*command, **options):
    return subprocess.run(command, check=False, capture_output=True, text=True, env=clean_environment(), timeout=60, **options)


def test_without_any_argument_it_prints_what_to_do(rankshim):
    done = run(rankshim)
    assert (done.returncode, done.stdout) == (64, "")
    assert 3 <= len(done.stderr.splitlines()) <= 6
    assert "rankshim --help" in done.stderr


@pytest.mark.attack
def test_install_recovers_from_a_copy_that_was_interrupted(rankshim, tmp_path):
    # In a container every rankshim is process 1, so the interrupted copy had the same number.
    command = f'echo half > "{tmp_path}/rankshim.$$"; exec "{rankshim}" install "{tmp_path}"'
    assert run("sh", "-c", command).returncode == 0
    assert run(str(tmp_path / "rankshim"), "--version").stdout.startswith("rankshim ")
    assert (tmp_path / "rankshim").stat().st_mode & 0o777 == 0o755


def test_install_into_what_is_no_folder_leaves_nothing(rankshim, tmp_path):
    assert run(rankshim, "install", str(tmp_path / "missing")).returncode == 71
    assert list(tmp_path.iterdir()) == []
    assert run(rankshim, "install", "").returncode == 64


def test_on_a_lone_node_a_missing_script_is_an_error_before_python_starts(rankshim, tmp_path):
    done = run(rankshim, f"--python={sys.executable}", "--", f"{tmp_path}/train.py")
    assert (done.returncode, done.stderr) == (127, f"rankshim: error: the script {tmp_path}/train.py cannot be read (No such file or directory)\n")


def test_on_a_lone_node_an_interpreter_without_torch_is_named(rankshim, tmp_path):
    (tmp_path / "train.py").touch()
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "$@"\n')  # without what is installed
    python.chmod(0o755)
    done = run(rankshim, f"--python={python}", "--", f"{tmp_path}/train.py")
    assert done.returncode == 78
    assert done.stderr.startswith(f"rankshim: error: no torch in {python}: ") and "--python" in done.stderr


def test_two_lone_jobs_on_one_machine_have_ports_of_their_own(rankshim, start):
    tell = ("--", "sh", "-c", "echo port=$MASTER_PORT; sleep 1000")
    first = start(*tell).wait_line("port=").text
    assert start(*tell).wait_line("port=").text != first


def test_a_subcommand_after_options_gets_a_hint(rankshim):
    done = run(rankshim, "--nnodes=1", "explain", "--", "train.py")
    assert done.returncode == 127
    assert "a subcommand is the first word: rankshim explain [OPTIONS]" in done.stderr
