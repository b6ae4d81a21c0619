"""rankshim's working directory, which would keep its file system busy."""

import json
import os

import pytest

from lib.events import until

GO = 'pwd; echo up; read -r word <"$1"; eval "$word"'


@pytest.fixture
def left(start, tmp_path):
    """left(OPTION...): a command in a folder HERE, which rankshim has left; go(WORD) lets it end."""
    fifo, here = tmp_path / "go", tmp_path / "here"
    os.mkfifo(fifo)
    here.mkdir()

    def run(*options):
        process = start("sh", "-c", GO, "sh", str(fifo), cwd=here, options=options)
        process.wait_line("up", stream="stdout")
        until(lambda: os.readlink(f"/proc/{process.shim()}/cwd") == "/", "rankshim has left its working directory")
        return process, here, lambda word: fifo.write_text(word + "\n")

    return run


def test_the_command_and_the_hooks_have_ours_and_we_have_none_while_the_command_runs(left):
    hook = 'pwd >hook; cp "$RANKSHIM_REPORT" hooks-report'
    process, here, go = left("--report=report.json", "--run-dir=.", "--post-stop", hook)
    go("exit 3")
    assert process.wait() == 3
    assert process.stdout.splitlines()[0] == str(here)
    assert (here / "hook").read_text().strip() == str(here)
    assert json.loads((here / "report.json").read_text()) == json.loads((here / "hooks-report").read_text())
    assert sorted(path.name for path in here.iterdir()) == ["hook", "hooks-report", "report.json"]


def test_a_working_directory_that_is_gone_at_the_end_is_a_warning(left):
    process, here, go = left()
    go(f"rmdir {here}")
    assert process.wait() == 0
    assert f"the working directory {here} no longer exists" in process.stderr
