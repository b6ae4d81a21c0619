"""What can happen to a prepared process, and to rankshim beside it: the attempt is as it would be without it."""

import os
import pathlib
import shutil
import signal
import time
import venv

import pytest

from lib.events import until
from lib.process import Process, children, clean_environment, last_line
from warm.conftest import is_ready, ran

# Node 0's worker fails when it is told to. Node 1's takes its time to end; meanwhile node 0 prepares its next worker.
TRAIN = """\
import os, signal, time
rank, attempt = os.environ["RANK"], os.environ["RANKSHIM_ATTEMPT"]

def wait(name):
    while not os.path.exists(f"{name}.{attempt}"):
        time.sleep(0.005)

def linger(*_):
    wait("go on")
    os._exit(143)

if rank == "1":
    signal.signal(signal.SIGTERM, linger)
os.write(1, f"RAN {rank} {os.getpid()} {attempt}\\n".encode())
wait("fail" if rank == "0" else "end")
os._exit(0 if os.path.exists(f"end.{attempt}") else 3)
"""
# Takes more memory than there is.
EATS = "import os\nif os.environ['RANKSHIM_ATTEMPT'] == '1':\n    bytearray(1 << 30)\n"
# For rankshim, it makes its process groups as soon as it is imported.
TORCH = {
    "torch/__init__.py": "",
    "torch/_C/__init__.py": "",
    "torch/_C/_distributed_c10d.py": "",
    "torch/distributed/__init__.py": "import torch._C._distributed_c10d\nfrom torch.distributed import distributed_c10d\n",
    "torch/distributed/distributed_c10d.py": "",
}


class Job:
    """Two nodes that are started again and again."""

    def __init__(self, node, folder):
        self.node, self.folder, self.attempt, self.temporary = node, folder, 0, folder / "tmp"

    def start(self, *options, before=(), **variables):
        (self.folder / "train.py").write_text(TRAIN)
        self.temporary.mkdir()
        again = ["--job-restarts=60", "--restart-pause=0"]
        self.first = self.node(0, ["train.py"], *again, *options, before=before, TMPDIR=str(self.temporary), **variables)
        self.second = self.node(1, ["train.py"], *again)
        self.wait_until_both_run()

    def wait_until_both_run(self):
        for node in (self.first, self.second):
            node.wait_line(f"^RAN . [0-9]+ {self.attempt}$", 60)

    def worker(self):
        """Node 0's, in this attempt."""
        return next(int(pid) for _, _, pid, attempt in ran(self.first) if attempt == str(self.attempt))

    def prepared(self):
        """What is below node 0's rankshim, zombies left out."""
        return [pid for pid in children(self.first.pid) if os.path.exists(f"/proc/{pid}/exe")]

    def fail(self):
        """Node 0's worker fails; what is ready then for the next attempt."""
        (self.folder / f"fail.{self.attempt}").touch()
        is_ready(self.first, self.attempt + 1)
        [prepared] = self.prepared()
        return prepared

    def go_on(self):
        (self.folder / f"go on.{self.attempt}").touch()
        self.attempt += 1
        self.wait_until_both_run()

    def end_well(self):
        (self.folder / f"end.{self.attempt}").touch()
        (self.folder / f"fail.{self.attempt}").touch()
        assert [node.wait() for node in (self.first, self.second)] == [0, 0], self.first.transcript()


@pytest.fixture
def job(node, tmp_path):
    return Job(node, tmp_path)


def own_memory(pid):
    """In KiB."""
    return int(next(line.split()[1] for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("RssAnon")))


@pytest.mark.parametrize("restarts", [3, pytest.param(50, marks=pytest.mark.nightly)])
def test_restarts_in_a_row_take_what_was_prepared_and_leave_nothing(job, restarts):
    job.start()
    pid, held, memory = job.first.pid, [], []
    for _ in range(restarts):
        prepared = job.fail()
        job.go_on()
        assert job.worker() == prepared
        until(lambda: children(pid) == [prepared], "all others are reaped")
        until(lambda: len(os.listdir(job.temporary)) == 1, "the attempts before have no folder")
        held.append(len(os.listdir(f"/proc/{pid}/fd")))
        memory.append(own_memory(pid))
    job.end_well()
    print(f"{restarts} restarts: descriptors {held[0]} to {held[-1]}, KiB {memory[0]} to {memory[-1]}")
    assert held[-1] <= held[1]
    assert memory[-1] - memory[1] <= 256  # the report has all attempts
    assert job.first.report()["leftovers"] == {"found": 0, "killed": 0} and not os.listdir(job.temporary)


@pytest.mark.parametrize("asked", ["asked", "not asked"])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_one_that_somebody_ends_or_stops_is_replaced_and_that_is_told_who_has_asked(job, number, asked):
    job.start(*(["--warm=auto"] if asked == "asked" else []))
    prepared = job.fail()
    os.kill(prepared, number)
    state = lambda: pathlib.Path(f"/proc/{prepared}/stat").read_text().rpartition(")")[2].split()[0]
    until(lambda: not os.path.exists(f"/proc/{prepared}/exe") or state() == "T", "it does not run")
    job.go_on()
    assert job.worker() != prepared
    assert job.first.stderr.count("a prepared process is not used: ") == (asked == "asked")
    job.end_well()


def test_a_script_that_is_edited_between_attempts_is_the_new_one(job, tmp_path):
    job.start()
    prepared = job.fail()
    (tmp_path / "train.py").write_text("import os\nos.write(1, b'NEW\\n')\n" + TRAIN)
    job.go_on()
    assert job.worker() == prepared and job.first.stdout.count("NEW") == 1
    job.end_well()


def test_an_interpreter_that_is_removed_between_attempts_is_missing_only_in_what_starts_later(job, tmp_path):
    venv.create(tmp_path / "venv", symlinks=True)
    job.start("--warm=auto", f"--python={tmp_path}/venv/bin/python3")
    prepared = job.fail()
    shutil.rmtree(tmp_path / "venv")
    job.go_on()
    assert job.worker() == prepared
    (tmp_path / "fail.1").touch()
    until(lambda: job.first.status().get("prepared", {}).get("attempt") == 2, "the next one cannot be prepared")
    (tmp_path / "go on.1").touch()
    assert [node.wait() for node in (job.first, job.second)] == [127, 76], job.first.transcript()
    assert "a prepared process is not used: execve: No such file or directory" in job.first.stderr
    assert f"failed: {tmp_path}/venv/bin/python3 was not found" in last_line(job.first)


def within(group):
    return ["sh", "-c", f'echo $$ >{group}/cgroup.procs; exec "$@"', "sh"]


def killed_at_the_limit(group):
    return int((group / "memory.oom_control").read_text().split()[-1])


def test_one_that_is_killed_at_the_memory_limit_is_replaced(memory_group, job, tmp_path):
    (tmp_path / "packages").mkdir()
    (tmp_path / "packages" / "eats.py").write_text(EATS)
    job.start("--warm=auto,eats", before=within(memory_group), PYTHONPATH=str(tmp_path / "packages"))
    (tmp_path / "fail.0").touch()
    until(lambda: killed_at_the_limit(memory_group) == 1 and not job.prepared(), "it is killed")
    job.go_on()
    assert "a prepared process is not used: it " in job.first.stderr  # has ended, or ends
    job.end_well()
    assert "memory" not in job.first.stderr


@pytest.fixture
def beside(rankshim, tmp_path):
    """beside(GROUP, OPTION…): a node alone in a memory cgroup, whose worker trains."""
    for name, text in (TORCH | {"eats.py": EATS}).items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    started = []

    def start(group, *options, trains="time.sleep(1000)"):
        (tmp_path / "train.py").write_text(f"import os, time\nimport torch.distributed\nprint('RAN', os.getpid(), flush=True)\n{trains}\n")
        argv = [*within(group), rankshim, "--launcher=native", "--nproc-per-node=1", "--job-restarts=1", *options, "--", "train.py"]
        started.append(Process(argv, clean_environment(), cwd=tmp_path))
        started[0].wait_line("RAN")
        return started[0]

    yield start
    for process in started:
        process.kill()


def test_where_memory_is_short_nothing_is_prepared_beside_a_training(memory_group, beside):
    process = beside(memory_group, "--log-level=debug")
    process.wait_line("nothing is prepared for a restart: memory is short")
    assert len(children(process.pid)) == 1
    process.signal(signal.SIGTERM)
    assert process.wait() == 143


@pytest.mark.nightly
def test_a_worker_beside_one_that_was_killed_at_the_memory_limit_is_not_out_of_memory(memory_group, beside):
    process = beside(memory_group, "--warm=auto,eats", "--log-level=debug")
    process.wait_line("the others keep running")
    until(lambda: len(children(process.pid)) == 1, "the prepared one is reaped")
    (worker,) = children(process.pid)
    seen = len(process.lines)
    os.kill(worker, signal.SIGKILL)
    process.wait_line("^RAN", since=seen)
    assert "rank 0 was killed by SIGKILL: earlier, the kernel killed a process" in process.stderr, process.transcript()
    process.signal(signal.SIGTERM)
    assert process.wait() == 143


NOTES = """import os, time
if os.environ["RANKSHIM_ATTEMPT"] == "1":
    for what in "begins", "ends":
        with open("notes", "a") as notes:
            notes.write(f"{os.environ['RANK']} {what}\\n")
        time.sleep(0.3)
"""


@pytest.mark.nightly
def test_beside_a_training_one_imports_after_another(rankshim, tmp_path):
    for name, text in (TORCH | {"takes_time.py": NOTES, "train.py": "import time\nimport torch.distributed\ntime.sleep(1000)\n"}).items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    argv = [rankshim, "--launcher=native", "--nproc-per-node=3", "--job-restarts=1", "--warm=auto,takes_time", "--", "train.py"]
    notes = tmp_path / "notes"
    with Process(argv, clean_environment(), cwd=tmp_path) as process:
        until(lambda: notes.exists() and notes.read_text().count("ends") == 3, "all have imported")
        assert notes.read_text().split("\n")[:-1] == [f"{rank} {what}" for rank in range(3) for what in ("begins", "ends")]
        process.signal(signal.SIGTERM)
        assert process.wait() == 143


HOLDS = "held = bytearray(400 << 20)\n"


@pytest.mark.nightly
def test_a_training_outlives_one_whose_imports_take_the_last_memory(memory_group, beside):
    """Although it is larger, and the kernel would choose it."""
    process = beside(memory_group, "--warm=auto,eats", "--log-level=debug", trains=HOLDS + "time.sleep(1000)")
    process.wait_line("the others keep running")
    until(lambda: killed_at_the_limit(memory_group) == 1 and len(children(process.pid)) == 1, "the prepared one is reaped")
    process.signal(signal.SIGTERM)
    assert process.wait() == 143 and "was killed" not in process.stderr, process.transcript()


@pytest.mark.nightly
def test_a_training_that_is_killed_just_after_the_prepared_one_is_out_of_memory(memory_group, beside):
    eats = f"""if os.environ["RANKSHIM_ATTEMPT"] == "1":
    os._exit(0)
{HOLDS}while open("{memory_group}/memory.oom_control").read().split()[-1] == "0":
    time.sleep(0.001)
bytearray(1 << 30)
"""
    process = beside(memory_group, "--warm=auto,eats", trains=eats)
    assert process.wait() == 0 and process.stdout.count("RAN") == 2, process.transcript()
    assert killed_at_the_limit(memory_group) == 2
    assert "rank 0 was killed by SIGKILL: out of memory: the limit is 512 MiB" in process.stderr and "a prepared process is not used: it " in process.stderr


# ---- at every moment ----

ONCE = "import os, time\nos.write(1, f'RAN {os.getpid()}\\n'.encode())\nwhile not os.path.exists('end'):\n    time.sleep(0.005)\n"


@pytest.mark.nightly
@pytest.mark.parametrize("late", [False, True])
def test_a_stop_at_any_moment_ends_the_node_and_all_that_it_prepared(node, tmp_path, late):
    for milliseconds in range(0, 400, 20):
        folder = tmp_path / str(milliseconds)
        (folder / "tmp").mkdir(parents=True)
        (folder / "train.py").write_text(ONCE)
        first = node(0, ["train.py"], folder=folder, TMPDIR=str(folder / "tmp"))
        if late:
            is_ready(first)
        second = node(1, ["train.py"], folder=folder)
        time.sleep(milliseconds / 1000)
        first.signal(signal.SIGTERM)
        assert first.wait() == 143, (milliseconds, first.transcript())
        assert "SIGTERM" in last_line(first) and len(ran(first)) <= 1
        assert not os.listdir(folder / "tmp"), milliseconds
        second.kill()
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                assert os.readlink(f"/proc/{pid}/cwd") != str(folder), milliseconds
            except OSError:
                pass


@pytest.mark.nightly
def test_one_that_is_killed_just_as_it_may_go_is_replaced_or_has_failed(node, tmp_path):
    ends = []
    for delay in (0, 0.0002, 0.0005, 0.001, 0.002, 0.004, 0.008, 0.015, 0.03):
        folder = tmp_path / str(delay)
        folder.mkdir()
        (folder / "train.py").write_text(ONCE)
        first = node(0, ["train.py"], folder=folder)
        is_ready(first)
        [prepared] = [pid for pid in children(first.pid) if os.path.exists(f"/proc/{pid}/exe")]
        second = node(1, ["train.py"], folder=folder)
        first.wait_line("all 2 nodes are here")
        now = time.monotonic()
        while time.monotonic() < now + delay:
            pass
        os.kill(prepared, signal.SIGKILL)
        until(lambda: first.popen.poll() is not None or any(int(pid) != prepared for _, pid in ran(first)), "its end, or another one")
        (folder / "end").touch()
        ends.append(first.wait())
        second.wait()
        if ends[-1] == 0:
            assert len(ran(first)) == 1
        else:
            assert ends[-1] == 137 and "was killed by SIGKILL" in last_line(first), (delay, first.transcript())
    print(ends)
