"""What a subcommand prints arrives as a whole, or the exit code says that it did not."""

import json
import os
import pty
import subprocess

import pytest

from lib.process import clean_environment

PRINTED = [["env"], ["env", "--format=json"], ["explain"], ["explain", "--format=json"], ["platforms"], ["platforms", "slurm"],
           ["doctor"], ["help"], ["--help"], ["explain", "--help"], ["version"], ["-V"], ["--licenses"]]


@pytest.mark.parametrize("words", PRINTED, ids=" ".join)
def test_what_cannot_be_written_is_an_error(rankshim, words):
    with open("/dev/full", "w") as full:
        done = subprocess.run([rankshim, *words], check=False, env=clean_environment(), stdout=full, stderr=subprocess.PIPE,
                              text=True, timeout=60)
    assert (done.returncode, done.stderr.splitlines()[0]) == (71, "rankshim: error: stdout cannot be written: No space left on device [R41]")


def test_the_status_too(rankshim):
    script = 'until "$0" status >/dev/null; do :; done; "$0" status >/dev/full; exit $?'
    done = subprocess.run([rankshim, "--", "sh", "-c", script, rankshim], check=False, env=clean_environment(), capture_output=True,
                          text=True, timeout=60)
    assert done.returncode == 71 and "stdout cannot be written" in done.stderr


def test_help_and_version_are_words_too(shim):
    assert shim("help").stdout == shim("--help").stdout
    assert shim("version").stdout == shim("-V").stdout == shim("--version").stdout
    assert shim("help", "explain").stdout == shim("explain", "--help").stdout
    assert shim("explain", "--help").stdout.startswith("usage: rankshim explain [OPTIONS] [--] [COMMAND...]\n")


@pytest.mark.parametrize("value", ["a $(touch pwned)", "`touch pwned`", '";touch pwned;"', "$HOME"])
def test_a_shell_that_reads_the_env_file_executes_nothing_of_a_value(shim, tmp_path, value):
    done = shim("env", "--format=dotenv", env={"NNODES": "2:3", "RDZV_ENDPOINT": "job-0:29500", "RANKSHIM_RDZV_ENDPOINT": "job-0:29500",
                                               "RANKSHIM_RUN_ID": value})
    assert done.code == 0, done.transcript()
    (tmp_path / "job.env").write_text(done.stdout)
    read = subprocess.run(["sh", "-c", '. ./job.env; printf "%s" "$RDZV_ID"'], cwd=tmp_path, env={"PATH": "/usr/bin:/bin"},
                          capture_output=True, text=True, timeout=60)
    assert (read.returncode, read.stdout, read.stderr) == (0, value, "")
    assert [path.name for path in tmp_path.iterdir()] == ["job.env"]


def test_a_value_that_an_env_file_cannot_hold_is_an_error_and_prints_nothing(shim):
    done = shim("env", "--format=dotenv", env={"NNODES": "2:3", "RANKSHIM_RDZV_ENDPOINT": "job-0:29500", "RANKSHIM_RUN_ID": "it's"})
    assert (done.code, done.stdout) == (78, "")
    assert done.stderr == ("rankshim: error: RDZV_ID='it'\\''s' has a single quote, which readers of a .env file understand differently; "
                           "change the value, or use --format sh or json [R2]\n")


def test_a_word_near_a_subcommand_that_is_no_program_is_an_error_with_the_nearest(shim, tmp_path):
    done = shim("explian", "--", "train.py")
    assert done.code == 64 and "the nearest is explain" in done.stderr
    assert shim("--", "explian").code == 127
    (tmp_path / "explian").write_text("#!/bin/sh\nexit 5\n")
    (tmp_path / "explian").chmod(0o755)
    assert shim("explian", env={"PATH": f"{tmp_path}:/usr/bin:/bin"}).code == 5


def test_a_profile_that_is_not_there_has_a_nearest_name(shim):
    done = shim("platforms", "kubeflow")
    assert done.code == 64
    assert "there is no platform kubeflow, only kubeflow-mpijob, " in done.stderr and "`rankshim platforms` lists" in done.stderr
    assert "there is no platform slrum, the nearest is slurm" in shim("platforms", "slrum").stderr


# Variables, an option, and what the log's line is on a terminal.
COLOURS = {
    "a terminal": ({}, [], "rankshim: \x1b[31merror:\x1b[m unknown option"),
    "a terminal, NO_COLOR is empty": ({"NO_COLOR": ""}, [], "rankshim: \x1b[31merror:\x1b[m unknown option"),
    "NO_COLOR": ({"NO_COLOR": "1"}, [], "rankshim: error: unknown option"),
    "a terminal that is dumb": ({"TERM": "dumb"}, [], "rankshim: error: unknown option"),
    "JSON": ({}, ["--log-format=json"], '{"time":'),
}


@pytest.mark.parametrize("variables, options, shown", COLOURS.values(), ids=COLOURS.keys())
def test_only_a_terminal_shows_colours_and_only_to_who_wants_them(rankshim, variables, options, shown):
    master, slave = pty.openpty()
    subprocess.run([rankshim, *options, "--nosuch"], env=clean_environment({"TERM": "xterm"} | variables), stderr=slave, timeout=60)
    os.close(slave)
    assert os.read(master, 4096).decode().startswith(shown)
    os.close(master)


def test_a_pipe_gets_no_colours(shim):
    assert "\x1b" not in shim("--nosuch").stderr


def test_a_warning_is_yellow(rankshim):
    master, slave = pty.openpty()
    subprocess.run([rankshim, "explain"], env=clean_environment({"NNODES": "1", "NODE_RANKS": "1", "FOO_NODE_RANK": "1"}), stderr=slave,
                   stdout=subprocess.DEVNULL, timeout=60)
    os.close(slave)
    assert os.read(master, 4096).decode().startswith("rankshim: \x1b[33mwarning:\x1b[m ")
    os.close(master)


def test_install_says_what_it_did(shim, tmp_path):
    done = shim("install", str(tmp_path))
    version = shim("version").stdout.strip()
    assert (done.code, done.stdout, done.stderr) == (0, f"{tmp_path}/rankshim is {version} now\n", "")


def test_explain_has_the_launcher_for_programs_and_for_readers(shim):
    for line, launcher in {("train.py",): "torchrun", ("--launcher=native", "train.py"): "native", ("true",): "none"}.items():
        assert json.loads(shim("explain", "--format=json", *line).stdout)["launcher"] == launcher
        assert (f"launcher     {launcher}\n" in shim("explain", *line).stdout) == (launcher != "none")
