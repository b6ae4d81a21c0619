"""rankshim-review collect --dumps: the last collectives of each rank, by what torch's flight recorder has written."""

from __future__ import annotations

import json
import pickle
import sys

import pytest
from lib.process import Process, clean_environment
from rankshim_review import collect
from rankshim_review.dumps import read_dumps
from rankshim_review.reports import NoReport

LONG = 120


def frames(line):
    """Innermost first, as torch writes them."""
    torch = "/usr/lib/python3/dist-packages/torch/distributed/distributed_c10d.py"
    return [{"filename": torch, "line": 3245, "name": "all_reduce"}, {"filename": "/app/train.py", "line": line, "name": "step"},
            {"filename": "/app/train.py", "line": 90, "name": "<module>"}]


def entry(number, operation="nccl:all_reduce", state="completed", group=("0", "default_pg"), line=37, **more):
    return {"collective_seq_id": number, "profiling_name": operation, "state": state, "retired": state == "completed", "is_p2p": False,
            "process_group": group, "frames": frames(line), **more}


def write(folder, dumps, prefix="rank_"):
    for rank, entries in dumps.items():
        (folder / f"{prefix}{rank}").write_bytes(pickle.dumps({"version": "2.10", "entries": entries}, protocol=2))
    return str(folder)


def test_the_last_collectives_that_differ_or_did_not_complete_are_lines(tmp_path):
    waits, tp = [entry(20), entry(21, state="started")], ("5", "tp")
    folder = write(tmp_path, {
        0: [*waits, entry(7, group=tp)],
        1: [entry(19), entry(20, line=26), entry(7, group=tp), entry(3, "nccl:send 1->0", "started", is_p2p=True)],
        2: waits,
        4: [entry(21, "nccl:broadcast", "scheduled", frames=[])],
    })
    assert read_dumps(folder).lines == [
        "rank 1: completed all_reduce, number 20 of default_pg, at step (/app/train.py:26)",
        "ranks 0 and 2: did not complete all_reduce, number 21 of default_pg, at step (/app/train.py:37)",
        "rank 4: did not complete broadcast, number 21 of default_pg",
        "There is no dump of rank 3.",
    ]


def test_dumps_of_torchs_own_name_are_read_and_other_files_are_not(tmp_path):
    (tmp_path / "rank_7.tmp").write_text("x")
    (tmp_path / "rank_8").mkdir()
    folder = write(tmp_path, {0: [entry(1)], 1: [entry(1)]}, "comm_lib_trace_rank_")
    assert read_dumps(folder).lines == ["all had completed"]


class Calls:
    def __reduce__(self):
        return (print, ("called",))


@pytest.mark.parametrize("content", [
    pickle.dumps({"entries": [Calls()]}, protocol=2),
    pickle.dumps({"entries": [entry(1)]}, protocol=4),
    pickle.dumps({"entries": [entry(1)]}, protocol=2)[:-20],
    pickle.dumps({"entries": [entry([])]}, protocol=2),
    pickle.dumps({"entries": [entry(1, group=([], ""))]}, protocol=2),
    pickle.dumps([entry(1)], protocol=2),
    b"\x80\x02" + b"r\xff\xff\xff\x7f" * 9 + b".",  # far into the memo
    b"\x80\x02" + b"(" * 100_000 + b"t" * 100_000 + b".",
    b"",
    b"{}",
])
def test_a_file_that_is_no_dump_is_an_error_that_names_it_and_calls_nothing(tmp_path, capsys, content):
    (tmp_path / "rank_0").write_bytes(content)
    with pytest.raises(NoReport, match=r"rank_0 is not a dump of torch's flight recorder: "):
        read_dumps(str(tmp_path))
    assert "called" not in capsys.readouterr().out


def test_a_folder_without_dumps_is_an_error(tmp_path):
    with pytest.raises(NoReport, match="has no dump of torch's flight recorder, such as rank_0"):
        read_dumps(str(tmp_path))
    with pytest.raises(NoReport, match="No such file"):
        read_dumps(str(tmp_path / "missing"))


# gloo writes no dump itself, as NCCL does, so each rank calls the recorder: its format is the same.
DUMPS = """\
import os, sys, threading, time, torch, torch.distributed as dist
from torch._C._distributed_c10d import _dump_fr_trace

rank, folder = int(os.environ["RANK"]), os.path.dirname(os.environ["TORCH_FR_DUMP_TEMP_FILE"])
torch.set_num_threads(1)
dist.init_process_group("gloo")

def step():
    dist.all_reduce(torch.ones(1))

def dump():
    time.sleep(1)
    with open(f"{folder}/new_{rank}", "wb") as file:
        file.write(_dump_fr_trace())
    os.rename(file.name, os.environ["TORCH_FR_DUMP_TEMP_FILE"] + str(rank))

for _ in range(20):
    step()
    time.sleep(0.1)
threading.Thread(target=dump).start()
if rank == 1:
    time.sleep(1000)
step()
"""


@pytest.mark.nightly
@pytest.mark.torch
def test_collect_shows_what_torchs_own_recorder_has_dumped_beside_the_report(rankshim, tmp_path, torch, capsys):
    script, dumps, report = tmp_path / "train.py", tmp_path / "dumps", tmp_path / "report.json"
    script.write_text(DUMPS)
    command = [rankshim, "--launcher=native", "--nproc-per-node=3", f"--python={sys.executable}", "--hang-timeout=5s", "--grace=1s",
               f"--hang-dumps={dumps}", f"--report={report}", "--", str(script)]
    with Process(command, clean_environment({"OMP_NUM_THREADS": "1"})) as process:
        assert process.wait(LONG) == 124, process.transcript()
    assert collect.main([str(report), f"--dumps={dumps}"]) == 124
    lines = capsys.readouterr().out.splitlines()
    at = lines.index("The last collectives by torch's dumps:")
    assert lines[at + 1:at + 3] == [f"rank 1: completed all_reduce, number 20 of default_pg, at step ({script}:9)",
                                    f"ranks 0 and 2: did not complete all_reduce, number 21 of default_pg, at step ({script}:9)"]
    assert collect.main([str(report), f"--dumps={dumps}", "--format=json"]) == 124
    assert [(one["ranks"], one["number"], one["has_completed"]) for one in json.loads(capsys.readouterr().out)["dumps"]["collectives"]] == [
        ("1", 20, True), ("0,2", 21, False)]
