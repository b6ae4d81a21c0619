"""A worker whose script an exception has ended, and that does not exit."""

import re
import sys
import time

import pytest
from lib.process import Process, clean_environment, last_line

LONG = 60
STAYS = """\
import os, threading, time

def upload():
    while not os.path.exists(os.environ["OVER"]):
        time.sleep(0.05)

threading.Thread(target=upload).start()  # not a daemon
raise ValueError("boom")
"""


@pytest.mark.torch
def test_a_thread_that_keeps_the_process_of_an_exception_is_a_warning(rankshim, tmp_path, torch):
    (tmp_path / "train.py").write_text(STAYS)
    over = tmp_path / "over"
    command = [rankshim, "--launcher=native", f"--python={sys.executable}", "--", str(tmp_path / "train.py")]
    with Process(command, clean_environment({"OVER": str(over)})) as process:
        warning = process.wait_line("has not exited", LONG)
        assert re.search(r"warning: rank 0 raised an exception 10 s ago and has not exited: it is in \w+ \(threading.py:\d+\)", warning.text)
        over.touch()
        assert process.wait(LONG) == 1


# Each worker has a thread that stays: it waits, or it computes.
ALL_STAY = """\
import sys, threading, time

def stay():
    while True:
        time.sleep(1000) if sys.argv[1] == "waits" else sum(range(1000))

threading.Thread(target=stay).start()
print("raises", flush=True)
raise ValueError("boom")
"""


@pytest.mark.torch
@pytest.mark.parametrize(("does", "at_least", "launcher"), [
    ("waits", 1, "native"),
    ("waits", 1, "torchrun"),
    pytest.param("waits", 1, "none", marks=pytest.mark.nightly),
    pytest.param("works", 5, "native", marks=pytest.mark.nightly),
    pytest.param("works", 5, "torchrun", marks=pytest.mark.nightly),
    pytest.param("works", 5, "none", marks=pytest.mark.nightly),
])
def test_where_all_have_raised_and_none_exits_hang_timeout_ends_them_by_their_exception(rankshim, tmp_path, torch, launcher, does, at_least):
    script = tmp_path / "train.py"
    script.write_text(ALL_STAY)
    command = [sys.executable, str(script)] if launcher == "none" else [str(script)]
    options = [f"--launcher={launcher}", f"--python={sys.executable}", "--nproc-per-node=2", "--hang-timeout=2s", "--hang-notice=1s"]
    with Process([rankshim, *options, "--", *command, does], clean_environment()) as process:
        process.wait_line("raises", LONG)
        raised = time.monotonic()
        assert process.wait(LONG) == 1
        assert time.monotonic() - raised >= at_least
        assert "ValueError: boom" in last_line(process) and "hung" not in process.stderr, process.transcript()
