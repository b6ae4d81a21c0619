"""The metrics: what `rankshim status` prints and what --metrics-file keeps, read as Prometheus reads them, while jobs run and end."""

import os
import re
import signal
import socket
import stat
import sys

import pytest
from lib.events import until
from lib.hangs import TRAINS
from lib.idle import DAYS, sleeps
from lib.process import Process, clean_environment
from lib.requirements import cannot
from report.conftest import JOB, answers, status

try:
    from prometheus_client import parser
    from prometheus_client.openmetrics import parser as openmetrics
except ImportError:
    parser = openmetrics = None

HOSTILE = 'a"} 1\nrankshim_attempt{x="\\\x1b[31m\u2028\u202eö'
ALWAYS = {"rankshim_info", "rankshim_phase", "rankshim_phase_start_time_seconds", "rankshim_phase_seconds", "rankshim_attempt",
          "rankshim_restarts", "rankshim_prepared_processes", "rankshim_hang_suspected"}


def read(text):
    """The samples by name, each with its labels and its value, of a text that both formats take."""
    if openmetrics is None:
        cannot("prometheus_client is missing: run scripts/setup")
    families = list(openmetrics.text_string_to_metric_families(text))
    assert all(family.documentation and family.samples for family in families), "each has HELP and a sample"
    found, plain = {}, {}
    for family in families:
        assert family.unit == ("seconds" if family.name.endswith("_seconds") else "")
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    for family in parser.text_string_to_metric_families(text):  # node_exporter reads this format
        assert family.type in ("gauge", "counter", "unknown"), "it knows no others"
        for sample in family.samples:
            plain.setdefault(sample.name, []).append((sample.labels, sample.value))
    assert plain == found
    return found


def value(found, name, **labels):
    """The one sample of that name with these labels, or None."""
    values = [value for all_labels, value in found.get(name, []) if all_labels.items() >= labels.items()]
    assert len(values) <= 1
    return values[0] if values else None


def phase_of(path):
    """The phase in a metrics file, or None if there is not a file yet."""
    if not path.exists():
        return None
    ((labels, _),) = read(path.read_text())["rankshim_phase"]
    return labels["phase"]


def test_status_prints_metrics_of_a_job_that_runs(shim, start, tmp_path):
    start(f"--run-dir={tmp_path}", "--", "sleep", "1000", env={**JOB, "RANKSHIM_RUN_ID": HOSTILE, "RANKSHIM_LINK": "off"})
    answers(shim, tmp_path)
    asked = shim("status", f"--run-dir={tmp_path}", "--format=openmetrics")
    assert asked.code == 0 and asked.stdout.endswith("# EOF\n")
    assert asked.stdout.isprintable() or set(filter(lambda c: not c.isprintable(), asked.stdout)) == {"\n"}
    found = read(asked.stdout)
    (labels, one), = found["rankshim_info"]
    assert one == 1 and labels.items() >= {"node_rank": "0", "nnodes": "2", "platform": "generic", "master": "127.0.0.1:29511"}.items()
    assert labels["run_id"].startswith('a"} 1\\nrankshim_attempt{x="\\\\x1b[31m\\xe2\\x80\\xa8')
    assert value(found, "rankshim_phase", phase="run") == 1
    assert value(found, "rankshim_attempt", node_rank="0") == 0
    assert "rankshim_last_exit_code" not in found and "rankshim_nodes" not in found


def test_live_and_ready_are_what_probes_ask(shim, start, tmp_path):
    def asked(*words):
        return shim("status", f"--run-dir={tmp_path}", *words).code

    assert (asked(), asked("live"), asked("ready")) == (1, 1, 1)
    waiting = start(f"--run-dir={tmp_path}", "--wait=port", "--", "true", env={**JOB, "NODE_RANK": "1", "MASTER_ADDR": "no.invalid"})
    answers(shim, tmp_path)
    assert (asked(), asked("live"), asked("ready")) == (0, 0, 1)
    waiting.signal(signal.SIGTERM)
    assert waiting.wait() == 143
    start(f"--run-dir={tmp_path}", "--", "sleep", "1000", env=JOB)
    answers(shim, tmp_path)
    assert (asked(), asked("live"), asked("ready")) == (0, 0, 0)


def test_what_is_held_after_a_failure_is_live_and_nothing_else(shim, start, tmp_path):
    held = start(f"--run-dir={tmp_path}", "--hold-on-failure=10m", "--", "false", env=JOB)
    until(lambda: status(shim, tmp_path)[1].get("phase") == "held", "the container is kept")
    assert [shim("status", f"--run-dir={tmp_path}", *words).code for words in ([], ["live"], ["ready"])] == [1, 0, 1]
    assert status(shim, tmp_path)[1]["last_exit"] == {"exit_code": 1, "cause": "exited"}
    held.signal(signal.SIGTERM)
    assert held.wait() == 1


@pytest.mark.parametrize("words", ["alive", "ready live", "--stacks ready", "--stacks --format=openmetrics", "--format=prom"])
def test_a_question_that_status_does_not_know_is_wrong_usage(shim, words):
    assert shim("status", *words.split()).code == 64


def test_the_metrics_file_follows_a_job_and_stays_when_it_has_ended(start, tmp_path):
    file = tmp_path / "rankshim.prom"
    job = start(f"--metrics-file={file}", "--", "sleep", "1000", env=JOB)
    until(lambda: phase_of(file) == "run", "the file says that the command runs")
    assert stat.S_IMODE(file.stat().st_mode) == 0o644
    file.chmod(0o640)
    job.signal(signal.SIGTERM)
    assert job.wait() == 143
    found = read(file.read_text())
    assert phase_of(file) == "ended" and value(found, "rankshim_last_exit_code", cause="stop_requested") == 143
    assert value(found, "rankshim_phase_seconds_total", phase="run") > 0
    assert stat.S_IMODE(file.stat().st_mode) == 0o640 and os.listdir(tmp_path) == ["rankshim.prom"]
    assert {re.sub("_total$", "", name) for name in found} >= ALWAYS


def test_a_job_that_cannot_start_leaves_its_code_there(shim, tmp_path):
    file = tmp_path / "rankshim.prom"
    assert shim(f"--metrics-file={file}", "--", "train.py", env={"WORLD_SIZE": "3", "MASTER_ADDR": "x"}).code == 78
    assert value(read(file.read_text()), "rankshim_last_exit_code", cause="configuration") == 78
    file.unlink()
    assert shim(f"--metrics-file={file}", "--no-such-option", "--", "true").code == 64
    assert phase_of(file) == "ended"


def test_restarts_are_counted_by_cause_and_workers_by_state(start, tmp_path):
    file, script = tmp_path / "rankshim.prom", tmp_path / "train.py"
    script.write_text("import os, pathlib, time\n"
                      f"failed = pathlib.Path({str(tmp_path / 'failed')!r})\n"
                      "if os.environ['RANK'] == '0' and not failed.exists():\n"
                      "    failed.touch()\n"
                      "    raise ValueError('boom')\n"
                      "time.sleep(1000)\n")
    job = start("--launcher=native", "--nproc-per-node=2", "--job-restarts=2", "--restart-pause=0", "--warm=off", f"--metrics-file={file}",
                f"--termination-log={tmp_path}/log", "--", str(script))
    until(lambda: phase_of(file) == "run" and value(read(file.read_text()), "rankshim_attempt") == 1, "the second attempt runs")
    found = read(file.read_text())
    assert value(found, "rankshim_restarts_total", cause="exception") == 1
    assert sum(count for _, count in found["rankshim_restarts_total"]) == 1
    assert value(found, "rankshim_last_exit_code", cause="exception") == 1
    until(lambda: value(read(file.read_text()), "rankshim_workers", state="running") == 2, "both workers run")
    assert value(found, "rankshim_phase_seconds_total", phase="restart") is not None
    job.signal(signal.SIGTERM)
    assert job.wait() == 143


def test_node_0_counts_the_nodes_by_state(rankshim, tmp_path):
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    options = ["--launcher=native", "--nnodes=2", "--nproc-per-node=1", "--master-addr=127.0.0.1", f"--master-port={port}", "--link=on",
               "--warm=off", f"--termination-log={tmp_path}/log"]

    def node(rank, command):
        return Process([rankshim, *options, f"--node-rank={rank}", f"--run-dir={tmp_path}", f"--metrics-file={tmp_path}/{rank}.prom", "--",
                        *command], clean_environment(), name=f"node {rank}")

    def nodes(state):
        path = tmp_path / "0.prom"
        return value(read(path.read_text()), "rankshim_nodes", state=state) if path.exists() else None

    with node(0, ["sleep", "1000"]) as first:
        until(lambda: nodes("missing") == 1, "node 0 misses the other")
        with node(1, ["sleep", "1000"]) as second:
            until(lambda: nodes("running") == 2, "both run")
            second.signal(signal.SIGTERM)
            assert (second.wait(), first.wait()) == (143, 76)
    assert (nodes("running"), nodes("stopping"), nodes("stopped")) == (0, 1, 1)
    assert "rankshim_nodes" not in read((tmp_path / "1.prom").read_text())


# Mounts a file system whose server never answers, for a user that is not its own: the kernel alone says what it is.
SERVERLESS = """
import ctypes, os, sys
server = os.open("/dev/fuse", os.O_RDWR)
options = b"fd=%d,rootmode=40000,user_id=4711,group_id=4711" % server
if ctypes.CDLL(None).mount(b"x", os.fsencode(sys.argv[1]), b"fuse", 0, options) != 0:
    sys.exit("cannot mount")
os.set_inheritable(server, True)
os.execvp(sys.argv[2], sys.argv[2:])
"""


@pytest.mark.torch
@pytest.mark.usefixtures("torch")
def test_a_hang_is_suspected_from_its_notice_on(shim, start, tmp_path):
    file, script = tmp_path / "rankshim.prom", tmp_path / "train.py"
    script.write_text(TRAINS)
    job = start("--launcher=native", "--nproc-per-node=2", "--hang-notice=3s", "--grace=1s", f"--metrics-file={file}",
                f"--run-dir={tmp_path}", f"--termination-log={tmp_path}/log", f"--python={sys.executable}", "--", script, "sleeps", "1800",
                env={"OMP_NUM_THREADS": "1"})
    job.wait_line("HANGS NOW")
    assert value(read(file.read_text()), "rankshim_hang_suspected") == 0
    until(lambda: value(read(file.read_text()), "rankshim_hang_suspected") == 1, "the notice is in the file")
    assert re.search(r"for rank 1, which is in train.py:\d+", status(shim, tmp_path)[1]["hang"])
    job.signal(signal.SIGTERM)
    job.wait()
    assert value(read(file.read_text()), "rankshim_hang_suspected") == 0


@pytest.mark.parametrize(("place", "says"), [
    ("pipe", "there is something that is not a file"),
    ("device", "there is something that is not a file"),
    ("folder", "there is something that is not a file"),
    ("no folder", "No such file or directory"),
    ("full", "No space left on device"),
    ("read-only", "Read-only file system"),
    ("network", "its folder is on a network's file system"),
])
def test_where_metrics_cannot_be_written_the_job_runs_as_ever(rankshim, tmp_path, namespaces, place, says):
    if namespaces:
        cannot(namespaces)
    file = tmp_path / "m" / "rankshim.prom"
    made = {
        "pipe": f"mkfifo {file}",
        "device": f"mknod {file} c 1 3",
        "folder": f"mkdir {file}",
        "no folder": f"rmdir {file.parent}",
        "full": f"mount -t tmpfs -o size=4k tmpfs {file.parent}; head -c 4096 /dev/zero >{file.parent}/x",
        "read-only": f"mount -t tmpfs -o ro tmpfs {file.parent}",
        "network": "",
    }[place]
    if place == "network" and not os.path.exists("/dev/fuse"):
        cannot("/dev/fuse is missing")
    file.parent.mkdir()
    run = ["python3", "-c", SERVERLESS, file.parent] if place == "network" else ["env"]
    with Process(["unshare", "--mount", "sh", "-c", f'{made}\nexec "$@"', "sh", *run, rankshim, f"--metrics-file={file}",
                  f"--termination-log={tmp_path}/log", "--", "sh", "-c", "exit 3"], clean_environment()) as job:
        assert job.wait() == 3, job.transcript()
    warnings = [line for line in job.stderr.splitlines() if "the metrics cannot be written" in line]
    assert len(warnings) == 1 and says in warnings[0], job.transcript()


def test_a_link_in_the_metrics_files_place_is_replaced(shim, tmp_path):
    file, other = tmp_path / "rankshim.prom", tmp_path / "other"
    other.write_text("untouched")
    file.symlink_to(other)
    assert shim(f"--metrics-file={file}", "--", "true").code == 0
    assert other.read_text() == "untouched" and not file.is_symlink() and phase_of(file) == "ended"


def test_with_metrics_an_idle_program_leaves_rankshim_asleep(start, tmp_path):
    file = tmp_path / "rankshim.prom"
    program = start(f"--metrics-file={file}", f"--run-dir={tmp_path}", "--", "sleep", "1000")
    until(lambda: phase_of(file) == "run" and sleeps(program.pid) > DAYS, "nothing is due")
