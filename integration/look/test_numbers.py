"""How far a worker's collectives are: what rankshim's part in its Python answers, and that nothing else changes."""

import json
import os
import pathlib
import re
import socket

import pytest
from lib.events import until
from lib.process import Process, clean_environment

pytestmark = [pytest.mark.torch, pytest.mark.usefixtures("torch")]

LONG = 120

START = """\
import os, sys, threading, torch, torch.distributed as dist
rank = int(os.environ["RANK"])
torch.set_num_threads(1)
def say(what):
    os.write(1, f"{what} {os.getpid()}\\n".encode())
"""

# Ranks 0 and 2 make a group of their own, and wait for rank 1 in the world's second collective.
WAITS = START + """
dist.init_process_group("gloo")
even = dist.new_group([0, 2], group_desc="even")
gone = dist.new_group([0, 1, 2])
unused = dist.new_group([1, 2])
x = torch.ones(4)
dist.barrier(group=gone)
dist.destroy_process_group(gone)
dist.broadcast(x, 0)
if rank != 1:
    for _ in range(int(sys.argv[1])):
        dist.all_reduce(x, group=even)
say("threads " + ",".join(thread.name for thread in threading.enumerate()) + " of")
if rank == 1:
    threading.Event().wait()
dist.all_reduce(x)
"""


class Job:
    """Three workers of a lone node, with a folder of rankshim's in `folder`."""

    def __init__(self, rankshim, folder, text, *words, workers=3, **variables):
        script = folder / "train.py"
        script.write_text(text)
        env = {"TMPDIR": str(folder), "OMP_NUM_THREADS": "1", **variables}
        self.folder = folder
        self.process = Process([rankshim, "--launcher=native", f"--nproc-per-node={workers}", "--grace=2s", "--", str(script), *words],
                               clean_environment(env))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()

    def pids_of(self, what, workers=3):
        """By rank, once all have said so."""
        def said():
            return [int(line.text.split()[-1]) for line in list(self.process.lines) if what in line.text]

        until(lambda: len(said()) == workers, f"{what} of all workers", LONG)
        pids = said()
        return dict(sorted((int(re.search(rb"\0RANK=(\d+)", pathlib.Path(f"/proc/{pid}/environ").read_bytes())[1]), pid) for pid in pids))

    def place(self, pid):
        return next(self.folder.glob(f"rankshim-*/look.{pid}"), None)

    def ask(self, pid, question="operations"):
        """The worker's groups by name."""
        folder = os.open(self.place(pid).parent, os.O_RDONLY)
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as asker:
                asker.bind("")
                asker.settimeout(LONG)
                asker.sendto(question.encode(), f"/proc/self/fd/{folder}/look.{pid}")
                return {name: rest for name, *rest in json.loads(asker.recv(1 << 20))}
        finally:
            os.close(folder)

    def answering_thread(self, pid):
        """The folder in /proc of the thread that waits in recvfrom (number 45 on x86_64, 207 on Arm), once it does."""
        def waiting():
            for thread in pathlib.Path(f"/proc/{pid}/task").iterdir():
                call = (thread / "syscall").read_text().split()
                if call[0] in ("45", "207") and os.readlink(f"/proc/{pid}/fd/{int(call[1], 16)}").startswith("socket:"):
                    return thread
            return None
        return until(waiting, f"a thread of {pid} in recvfrom")


@pytest.mark.parametrize(("entries", "repeats"), [("2000", 5), ("4", 5)], ids=["all recorded", "entries overwritten"])
def test_a_worker_tells_how_far_each_of_its_groups_is(rankshim, tmp_path, entries, repeats):
    with Job(rankshim, tmp_path, WAITS, str(repeats), TORCH_FR_BUFFER_SIZE=entries) as job:
        pids = job.pids_of("threads MainThread of")
        for rank in (0, 2):
            until(lambda rank=rank: job.ask(pids[rank], "numbers")["0"][2:4] == [2, 1], f"rank {rank} waits for rank 1")
        for question in ("operations", "numbers"):
            answers = {rank: job.ask(pid, question) for rank, pid in pids.items()}
            for rank, groups in answers.items():
                description, members, entered, ended, operation = groups["0"]
                assert (description, members, entered, ended) == ("default_pg", [[0, 2, 1]], 1 if rank == 1 else 2, 1), answers
                if rank != 1:
                    assert operation == "all_reduce"
            assert list(answers[0]) == ["0", "1"] and list(answers[1]) == ["0", "3"], answers
            assert answers[0]["1"][:4] == answers[2]["1"][:4] == ["even", [[0, 2, 2]], repeats, repeats], answers
            assert answers[1]["3"][:4] == answers[2]["3"][:4] == ["", [[1, 2, 1]], 0, 0], answers  # nobody has entered one yet


def test_the_thread_that_answers_does_not_wake_up_but_for_a_question(rankshim, tmp_path):
    with Job(rankshim, tmp_path, WAITS, "5") as job:
        pids = job.pids_of("threads MainThread of")
        until(lambda: job.ask(pids[0], "numbers")["0"][2:4] == [2, 1], "rank 0 waits")
        thread = job.answering_thread(pids[0])

        def switches():
            return int(re.search(r"^voluntary_ctxt_switches:\s+(\d+)", (thread / "status").read_text(), re.M)[1])

        gloo = next(other for other in thread.parent.iterdir() if (other / "comm").read_text() == "gloo_tcp_loop\n")

        def of_gloo():
            return int(re.search(r"^voluntary_ctxt_switches:\s+(\d+)", (gloo / "status").read_text(), re.M)[1])

        before, wakes = switches(), of_gloo()
        until(lambda: of_gloo() >= wakes + 200, "gloo's own thread has woken 200 times")  # about 2 s
        assert switches() == before
        job.ask(pids[0], "numbers")
        assert job.answering_thread(pids[0]) == thread
        assert switches() > before


LOADS = START + """
import glob, socket, torch.utils.data as data
socket.setdefaulttimeout(0.01)
class Seen(data.Dataset):
    def __len__(self):
        return 4
    def __getitem__(self, at):
        places = glob.glob(os.environ["TMPDIR"] + "/rankshim-*/look.%d" % os.getpid())
        return torch.tensor([len(places), int("FOLDER" in dir(sys.modules.get("sitecustomize")))])
if __name__ == "__main__":
    dist.init_process_group("gloo")
    for kind in ("fork", "spawn") if rank == 0 else ():
        seen = [batch.tolist() for batch in data.DataLoader(Seen(), num_workers=1, multiprocessing_context=kind)]
        assert seen == [[[0, 0]]] * 4, seen
    dist.barrier()
    dist.destroy_process_group()
    dist.init_process_group("gloo", init_method="file://" + sys.argv[1], rank=rank, world_size=2)
    dist.all_reduce(torch.ones(1))
    say("again")
    if rank == 0:
        threading.Event().wait()
    dist.all_reduce(torch.ones(1))
"""


def test_loaders_processes_do_not_answer_and_a_second_world_does(rankshim, tmp_path):
    with Job(rankshim, tmp_path, LOADS, str(tmp_path / "met"), workers=2) as job:
        pids = job.pids_of("again", 2)
        until(lambda: job.ask(pids[1])["0"][2:4] == [2, 1], "rank 1 waits in the new world")
        assert job.ask(pids[0])["0"] == ["default_pg", [[0, 1, 1]], 1, 1, "all_reduce"]
        assert not [line for line in job.process.lines if "sitecustomize" in line.text or "Warning" in line.text]


# A torch that is none: what rankshim's part does at its import and at the first process group shows without it.
STAND_IN = {
    "torch/__init__.py": "",
    "torch/_C/__init__.py": "",
    "torch/_C/_distributed_c10d.py": "def _set_global_rank(rank):\n    pass\n",
    "torch/distributed/__init__.py": "import torch._C._distributed_c10d\nfrom .distributed_c10d import *\n",
    "torch/distributed/distributed_c10d.py":
        "import torch\ndef init_process_group():\n    torch._C._distributed_c10d._set_global_rank(0)\n",
}

FORKS = """\
import glob, os, sys, threading
def threads():
    return len(os.listdir("/proc/self/task"))
finders = len(sys.meta_path)
import torch.distributed as dist
assert threads() == 1
if os.fork() == 0:
    os._exit(0)
assert os.wait()[1] == 0
dist.init_process_group()
assert threads() == 2 and threading.enumerate() == [threading.main_thread()] and len(sys.meta_path) == finders - 1
def places():
    return glob.glob(os.environ["TMPDIR"] + "/rankshim-*/look.%d" % os.getpid())
assert places()
if os.fork() == 0:  # a worker by multiprocessing
    assert threads() == 1 and not places()
    dist.init_process_group()
    os._exit(0 if places() and threads() == 2 else 1)
assert os.wait()[1] == 0
print("well", os.getpid())
"""


def test_until_there_is_a_process_group_there_is_no_thread_and_no_warning_of_a_fork(rankshim, tmp_path):
    for name, text in STAND_IN.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    with Job(rankshim, tmp_path, FORKS, workers=1, PYTHONPATH=str(tmp_path)) as job:
        assert job.process.wait(LONG) == 0, job.process.transcript()
        assert "well" in job.process.stdout
        assert "Warning" not in job.process.stderr, job.process.stderr


def test_without_recording_nothing_answers(rankshim, tmp_path):
    script = START + 'dist.init_process_group("gloo")\nsay("made")\n'
    with Job(rankshim, tmp_path, script, workers=1, RANKSHIM_RECORD="false") as job:
        assert job.process.wait(LONG) == 0, job.process.transcript()
        assert not list(tmp_path.glob("rankshim-*/look.*"))
