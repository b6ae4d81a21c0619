"""What a subcommand prints arrives as a whole, or the exit code says that it did not."""

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
    assert "no profile is named kubeflow, the nearest is kubeflow-" in done.stderr and "; rankshim platforms lists them" in done.stderr
