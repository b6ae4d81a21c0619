"""What ends without a parent."""

import os

from lib.events import until
from supervise.conftest import children, status

ORPHANS = "i=0; while [ $i -lt {} ]; do (: &); i=$((i+1)); done"


def test_ten_thousand_orphans_leave_nothing_and_take_no_memory(start, tmp_path):
    go = tmp_path / "go"
    os.mkfifo(go)
    steps = [ORPHANS.format(100), "echo warm", f"read word <{go}", ORPHANS.format(10_000), "echo done", f"read word <{go}"]
    process = start("dash", "-c", "; ".join(steps))
    process.wait_line("warm")
    shim = process.shim()
    before = int(status(shim, "VmRSS").split()[0])
    go.write_text("on\n")
    process.wait_line("done", timeout=120)
    # Only the command is left: a zombie would be listed.
    until(lambda: len(children(shim)) == 1, 10, "all orphans are reaped")
    assert int(status(shim, "VmRSS").split()[0]) <= before + 16
    go.write_text("on\n")
    assert process.wait() == 0
