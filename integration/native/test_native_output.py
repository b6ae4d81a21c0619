"""Where the output of the native launcher's workers goes."""

import pytest

WORKERS = ("--platform=none", "--launcher=native", "--nproc-per-node=2")


def files(folder):
    """The texts of all files in the only run's folder, by their paths in it."""
    (run,) = folder.iterdir()
    return {str(path.relative_to(run)): path.read_text() for path in run.rglob("*") if path.is_file()}


def test_each_rank_writes_to_files_of_its_own_and_restarts_keep_those_of_before(shim, tmp_path):
    logs = tmp_path / "not" / "there"
    done = shim(*WORKERS, "--max-restarts=1", "--run-id=job/7", f"--log-dir={logs}", "--", "sh", "-c",
                "echo out $RANK; echo err $RANK >&2; exit $((1 - TORCHELASTIC_RESTART_COUNT))")
    assert done.code == 0, done.transcript()
    assert done.stdout == "" and "err" not in done.stderr
    (run,) = logs.iterdir()
    assert run.name.startswith("job_7_")
    found = files(logs)
    # A worker may be ended before it writes, because the other has failed.
    assert {path: text for path, text in found.items() if path.startswith("attempt_1")} == {
        f"attempt_1/{rank}/{name}.log": f"{name[3:6]} {rank}\n" for rank in (0, 1) for name in ("stdout", "stderr")}
    assert {f"attempt_0/{rank}/stdout.log" for rank in (0, 1)} <= found.keys()
    assert "out" in found["attempt_0/0/stdout.log"] + found["attempt_0/1/stdout.log"]


def test_the_worker_itself_writes_to_its_file(shim, tmp_path):
    done = shim(*WORKERS, f"--log-dir={tmp_path}", "--", "sh", "-c", "readlink /proc/self/fd/1")
    assert done.code == 0
    (run,) = tmp_path.iterdir()
    assert files(tmp_path)["attempt_0/1/stdout.log"] == f"{run}/attempt_0/1/stdout.log\n"


def test_a_folder_that_cannot_be_made_is_a_warning(shim, tmp_path):
    (tmp_path / "file").write_text("")
    done = shim(*WORKERS, f"--log-dir={tmp_path}/file/logs", "--", "sh", "-c", "echo $RANK")
    assert (done.code, sorted(done.stdout.split())) == (0, ["0", "1"])
    assert f"warning: cannot make the folder {tmp_path}/file/logs (Not a directory)" in done.stderr


@pytest.mark.torch
@pytest.mark.usefixtures("torch")
def test_torchrun_has_the_same_layout(shim, tmp_path):
    (tmp_path / "train.py").write_text("import os, sys\nprint('out', os.environ['RANK'])\nprint('err', os.environ['RANK'], file=sys.stderr)\n")
    found = {}
    for launcher in ("torchrun", "native"):
        done = shim("--platform=none", f"--launcher={launcher}", "--nproc-per-node=2", f"--log-dir={tmp_path / launcher}", "--",
                    str(tmp_path / "train.py"), env={"OMP_NUM_THREADS": "1"})
        assert (done.code, done.stdout) == (0, ""), done.transcript()
        found[launcher] = {path: text for path, text in files(tmp_path / launcher).items() if path.endswith(".log")}
    assert len(found["native"]) == 4
    assert found["native"] == found["torchrun"]
