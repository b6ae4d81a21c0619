"""`rankshim doctor` on this machine, with one thing spoilt for real."""

import json
import sys

import pytest

from lib.process import clean_environment, run


def diagnosed(rankshim, *options, variables=None, before=()):
    """The exit code and {subject: (level, text)}; the first line where there are several."""
    done = run([*before, rankshim, "doctor", *options], clean_environment(variables or {}), timeout=60)
    found = {}
    for line in done.stdout.splitlines()[:-1]:
        level, subject, text = line[:8].strip(), line[9:25].strip(), line[26:]
        found.setdefault(subject, (level, text))
    return done.code, found


SUBJECTS = ["job", "own name", "python", "torch", "accelerators", "/dev/shm", "memory", "locked memory", "open files",
            "processes", "temporary files", "clock", "ptrace", "signals"]


def test_every_check_has_a_line_and_the_exit_code_shows_whether_one_is_a_problem(rankshim):
    code, found = diagnosed(rankshim)
    assert list(found) == SUBJECTS
    assert code == (78 if any(level == "problem" for level, _ in found.values()) else 0)
    assert {level for level, _ in found.values()} <= {"ok", "warning", "problem"}


def test_the_last_line_counts_and_programs_get_the_same_lines(shim):
    text, json_ = shim("doctor", timeout=60), shim("doctor", "--format=json", timeout=60)
    *lines, summary = text.stdout.splitlines()
    count = {level: sum(line.startswith(level) for line in lines) for level in ("problem", "warning")}
    parts = [f"{number} {level}{'s' if number > 1 else ''}" for level, number in count.items() if number]
    assert summary == (", ".join(parts) or "all is well")
    found = json.loads(json_.stdout)["findings"]
    assert [f"{one['severity']:<8} {one['subject']:<16} " for one in found] == [line[:26] for line in lines]
    assert text.code == json_.code


def test_a_masters_address_needs_no_line_that_says_so(rankshim):
    _, found = diagnosed(rankshim, variables={"NNODES": "2", "NODE_RANK": "1", "MASTER_ADDR": "127.0.0.1"})
    assert found["job"] == ("ok", "node 1 of 2 nodes on generic, master 127.0.0.1") and "master's name" not in found


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
    assert found["/dev/shm"][0] == "warning" and "has 64 MiB in total" in found["/dev/shm"][1]


def test_a_folder_for_temporary_files_that_is_missing_is_a_problem(rankshim):
    code, found = diagnosed(rankshim, variables={"TMPDIR": "/nowhere"})
    assert code == 78 and found["temporary files"][0] == "problem"


def test_a_full_disk_for_temporary_files_is_a_problem_and_a_run_warns_of_it(rankshim, namespaces, tmp_path):
    if namespaces:
        pytest.skip(namespaces)
    script = 'mount -t tmpfs -o size=64k none "$TMPDIR"; head -c 65536 /dev/zero >"$TMPDIR/file"; exec "$@"'
    full = ["unshare", "--mount", "sh", "-c", script, "sh"]
    code, found = diagnosed(rankshim, before=full, variables={"TMPDIR": str(tmp_path)})
    assert code == 78 and found["temporary files"][0] == "problem"
    done = run([*full, rankshim, "--launcher=native", "--", "-m", "this"], clean_environment({"TMPDIR": str(tmp_path)}))
    assert done.code == 0, done.transcript()
    assert f"warning: cannot write in {tmp_path} (No space left on device)" in done.stderr


def test_a_report_that_could_not_be_written_is_a_problem(rankshim, tmp_path):
    code, found = diagnosed(rankshim, f"--report={tmp_path}/nowhere/report.json")
    assert code == 78 and found["report"][0] == "problem"
    for report in (f"{tmp_path}/report.json", "report.json", "/dev/stdout"):
        assert "report" not in diagnosed(rankshim, f"--report={report}")[1]
