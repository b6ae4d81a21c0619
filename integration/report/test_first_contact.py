"""What a person sees who tries rankshim for the first time."""

import subprocess

from lib.process import clean_environment


def run(*command, **options):
    return subprocess.run(command, check=False, capture_output=True, text=True, env=clean_environment(), timeout=60, **options)


def test_without_any_argument_it_says_what_to_do(rankshim):
    done = run(rankshim)
    assert (done.returncode, done.stdout) == (64, "")
    assert 3 <= len(done.stderr.splitlines()) <= 6
    assert "rankshim --help" in done.stderr


def test_an_environment_is_read_from_stdin(rankshim):
    done = run(rankshim, "explain", "--env-file", "-", "--", "train.py", input="NNODES=2\nNODE_RANK=1\nMASTER_ADDR=m\n")
    assert done.returncode == 0
    assert "env NODE_RANK" in done.stdout


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
