"""Under any launcher, a node whose workers know only each other, though the job has several nodes, is noticed soon after
the start."""

from lib.documents import shape, shown
from lib.events import until
from lib.idle import DAYS, sleeps
from report.conftest import JOB, read_report

# As any launcher starts them: the first has this node's size, the second the job's.
LONE = "env LOCAL_RANK=0 LOCAL_WORLD_SIZE=2 WORLD_SIZE=2 sleep 1000; exit 3"
JOINED = "env LOCAL_RANK=0 LOCAL_WORLD_SIZE=2 WORLD_SIZE=4 sleep 1000"
FIRST_LOOK = 5000  # ms after the start; the second is 15 s later


def test_a_lone_node_is_warned_of_and_ended_where_that_was_asked_for(start, tmp_path):
    options = ["--nproc-per-node=2", "--no-export-pet", "--hang-notice=off"]
    joined = start(*options, "--", "sh", "-c", JOINED, env=JOB)
    warned = start(*options, f"--report={tmp_path}/warned.json", "--", "sh", "-c", LONE, env=JOB)
    ended = start(*options, "--strict", f"--report={tmp_path}/ended.json", f"--termination-log={tmp_path}/log", "--",
                  "sh", "-c", LONE, env=JOB)
    line = warned.wait_line(r"warning: this node trains alone: worker \d+ \(sh\) has WORLD_SIZE=2, but the job has 4$",
                            stream="stderr")
    assert shape(line.text) in shown("docs/frameworks.md")
    until(lambda: sleeps(warned.pid) > DAYS, "it looks no more, and sleeps")

    assert ended.wait() == 78
    report = read_report(tmp_path / "ended.json")
    assert (report["outcome"], report["root_cause"]) == ("failed", None)
    assert "the job has 4" in report["trains_alone"] and report["trains_alone"] in report["verdict"]
    assert ended.stderr.splitlines()[-1].startswith("rankshim: error: this node trains alone: worker ")
    assert "--strict does not allow that" in (tmp_path / "log").read_text()

    until(lambda: sleeps(joined.pid) > FIRST_LOOK, "it has looked too, and looks again later")
    joined.signal(15)
    assert joined.wait() == 128 + 15 and "alone" not in joined.stderr
    warned.signal(15)
    assert warned.wait() == 128 + 15
    assert "the job has 4" in read_report(tmp_path / "warned.json")["trains_alone"]
