"""`rankshim doctor` on this machine, with one thing spoilt for real."""

import sys

import pytest

from lib.process import clean_environment, run


def diagnosed(rankshim, *options, variables=None, before=()):
    """The exit code and {subject: (level, text)}; the first line where there are several."""
    done = run([*before, rankshim, "doctor", *options], clean_environment(variables or {}), timeout=60)
    found = {}
    for line in done.stdout.splitlines():
        level, subject, text = line[:8].strip(), line[9:25].strip(), line[26:]
        found.setdefault(subject, (level, text))
    return done.code, found


SUBJECTS = ["job", "own name", "python", "torch", "accelerators", "/dev/shm", "memory", "locked memory", "open files",
            "processes", "temporary files", "clock", "seccomp", "ptrace", "signals"]


def test_every_check_has_a_line_and_the_exit_code_shows_whether_one_is_a_problem(rankshim):
    code, found = diagnosed(rankshim)
    assert list(found) == SUBJECTS
    assert code == (78 if any(level == "problem" for level, _ in found.values()) else 0)
    assert {level for level, _ in found.values()} <= {"ok", "warning", "problem"}


@pytest.mark.torch
def test_torch_is_found_with_its_version_and_not_imported(rankshim, torch):
    from importlib.metadata import version
    code, found = diagnosed(rankshim, "--python", sys.executable)
    assert found["torch"] == ("ok", f"has the version {version('torch')}")
    assert found["python"][0] == "ok" and code == 0


def test_a_job_that_cannot_be_resolved_is_a_problem_with_its_advice(rankshim):
    code, found = diagnosed(rankshim, variables={"NNODES": "2", "NODE_RANK": "5", "MASTER_ADDR": "127.0.0.1"})
    assert code == 78
    assert found["job"][0] == "problem" and "NODE_RANK=5" in found["job"][1]


def test_a_masters_name_that_does_not_resolve_is_a_problem(rankshim):
    code, found = diagnosed(rankshim, "--nnodes=2", "--node-rank=1", "--master-addr=nowhere.invalid")
    assert code == 78
    level, text = found["master's name"]
    assert level == "problem" and "nowhere.invalid" in text


def test_a_script_that_is_missing_is_a_problem(rankshim):
    code, found = diagnosed(rankshim, "--", "nowhere.py")
    assert code == 78


def test_limits_are_those_of_this_process(rankshim):
    _, found = diagnosed(rankshim, before=["prlimit", "--nofile=512:512", "--memlock=65536:65536"])
    assert found["open files"][0] == "warning" and "512" in found["open files"][1]
    assert "limited to 0 MiB" in found["locked memory"][1]


def test_a_small_folder_of_shared_memory_is_named(rankshim, namespaces):
    if namespaces:
        pytest.skip(namespaces)
    mounted = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs -o size=64m none /dev/shm && exec "$@"', "sh"]
    _, found = diagnosed(rankshim, before=mounted)
    assert found["/dev/shm"][0] == "warning" and "has 64 MiB in all" in found["/dev/shm"][1]


def test_a_folder_for_temporary_files_that_is_missing_is_a_problem(rankshim):
    code, found = diagnosed(rankshim, variables={"TMPDIR": "/nowhere"})
    assert code == 78 and found["temporary files"][0] == "problem"
