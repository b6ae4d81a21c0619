"""A worker whose script an exception has ended, and that does not exit."""

import re
import sys

import pytest
from lib.process import Process, clean_environment

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
