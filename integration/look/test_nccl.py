"""What NCCL itself says of a job's collectives, where no worker's Python does: RAS, the service of NCCL 2.28.7 and later.

There is no GPU here: the test answers in the form that NVIDIA documents (docs.nvidia.com, NCCL User Guide, "RAS")."""

import contextlib
import json
import re
import socket
import threading

import pytest
from lib.events import until
from lib.process import Process, clean_environment, last_line, run

LONG = 60

SCRIPT = """\
import os, time
def loads(): time.sleep(1000)
os.write(1, b"rank %d is %d\\n" % (int(os.environ["RANK"]), os.getpid()))
loads() if os.environ["RANK"] == "1" else time.sleep(1000)
"""


class Ras:
    """Answers as the processes of a job with one communicator; `pids` and `counts` are by rank. `counts` is asked anew each
    time."""

    def __init__(self, counts):
        self.counts, self.pids, self.commands = counts, {}, []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = "{}:{}".format(*self.listener.getsockname())
        threading.Thread(target=self.serve, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.close()

    def serve(self):
        with contextlib.suppress(OSError):
            while True:
                with self.listener.accept()[0] as client, client.makefile() as lines:
                    for line in lines:
                        self.commands.append(line.strip())
                        if self.commands[-1] == "STATUS":
                            client.sendall(self.status().encode())
                            break
                        client.sendall(b"SERVER PROTOCOL 2\n" if self.commands[-1].startswith("CLIENT") else b"OK\n")

    def status(self):
        ranks = [
            {
                "rank": rank,
                "host": "172.16.64.245",
                "pid": pid,
                "cuda_dev": rank,
                "nvml_dev": rank,
                "status": {"init_state": 0, "async_error": 0, "finalize_called": False, "destroy_flag": False, "abort_flag": False},
                "collective_counts": {"Broadcast": 1, "Reduce": 0, "AllReduce": count},
            }
            for (rank, pid), count in zip(sorted(self.pids.items()), self.counts(), strict=False)
        ]
        communicator = {
            "hash": "0xae94423cfbb2ef4a",
            "secondary_hash": "0xb7e7187447156001:0xb8242ed28a71381e",
            "size": len(ranks),
            "ranks_count": len(ranks),
            "missing_ranks_count": 0,
            "ranks": ranks,
            "missing_ranks": [],
        }
        return (
            json.dumps(
                {
                    "nccl_version": "2.29.1",
                    "communicators_count": 1,
                    "communicators": [communicator],
                    "ras": {"collection_time_sec": 0.0, "timeouts_count": 0},
                },
                indent=2,
            )
            + "\n"
        )


@contextlib.contextmanager
def job(rankshim, folder, ras, *options):
    script = folder / "train.py"
    script.write_text(SCRIPT)
    command = [rankshim, "--launcher=native", "--nproc-per-node=2", "--no-record", f"--run-dir={folder}", "--grace=1s", *options]
    with Process([*command, "--", str(script)], clean_environment({"NCCL_RAS_ADDR": ras.address})) as process:
        found = [process.wait_line(rf"^rank {rank} is (\d+)$") for rank in range(2)]
        ras.pids = {rank: int(line.text.split()[-1]) for rank, line in enumerate(found)}
        yield process


def test_status_shows_by_nccls_counts_who_waits_for_whom(rankshim, tmp_path):
    with Ras(lambda: (21, 20)) as ras, job(rankshim, tmp_path, ras):

        def told():
            lines = json.loads(run([rankshim, "status", "--stacks", "--format=json", f"--run-dir={tmp_path}"], clean_environment()).stdout)[
                "lines"
            ]
            return "rank 0 waits for rank 1 in AllReduce, number 22 of NCCL's communicator 0xae94423cfbb2ef4a" in lines and lines

        says = r"rank 0 waits in AllReduce \(train\.py:4\) for rank 1, which is in loads \(train\.py:2\)"
        assert re.match(says, until(told, "who waits")[0])
        assert ras.commands[:4] == ["CLIENT PROTOCOL 2", "TIMEOUT 1", "SET FORMAT json", "STATUS"]


@pytest.mark.nightly
def test_a_job_whose_counts_at_nccl_stand_still_is_ended_by_hang_timeout(rankshim, tmp_path):
    asked = []

    def counts():
        asked.append(None)
        return min(len(asked), 3) + 1, min(len(asked), 3)

    with Ras(counts) as ras, job(rankshim, tmp_path, ras, "--hang-timeout=5s") as process:
        assert process.wait(LONG) == 124, process.transcript()
        assert re.search(r"rank 1 (is|was) in loads \(train\.py:2\).*rank 0 waited in AllReduce", last_line(process)), process.transcript()
