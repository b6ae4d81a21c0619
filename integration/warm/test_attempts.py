"""rankshim and the gate together: what is prepared while the nodes meet, and beside an attempt."""

import json
import os
import signal
import tempfile
import textwrap

import pytest
from lib.events import until
from lib.process import Process, children, clean_environment, descendants, last_line
from warm.conftest import ask, is_ready, ran

@pytest.mark.parametrize("launcher", ["native", "torchrun"])
def test_what_waits_for_the_other_node_is_what_runs_then(node, script, torch, launcher):
    first = node(0, [str(script), "a"], launcher=launcher)
    assert is_ready(first) == {"attempt": 0, "processes": 1, "ready": 1}
    [prepared] = children(first.pid)
    assert "RAN" not in first.stdout
    second = node(1, [str(script), "a"], launcher=launcher)
    assert [first.wait(60), second.wait(60)] == [0, 0], first.transcript() + second.transcript()
    [(_, rank, pid, parent, *rest)] = ran(first)
    assert int(pid if launcher == "native" else parent) == prepared
    assert rank == "0" and rest == ["['a']", "[]"]
    assert first.report()["leftovers"] == second.report()["leftovers"] == {"found": 0, "killed": 0}


def test_all_workers_of_a_node_are_prepared(node, script):
    first = node(0, [str(script)], nproc=3)
    assert is_ready(first)["processes"] == 3
    prepared = children(first.pid)
    second = node(1, [str(script)], nproc=3)
    assert [first.wait(60), second.wait(60)] == [0, 0]
    assert sorted(int(pid) for _, _, pid, *_ in ran(first)) == sorted(prepared)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_an_end_while_the_nodes_meet_ends_it_and_the_script_never_runs(node, script, number):
    first = node(0, [str(script)])
    is_ready(first)
    prepared = descendants(first.pid)
    first.signal(number)
    assert first.wait(20) == 128 + number
    until(lambda: not any(os.path.exists(f"/proc/{pid}/exe") for pid in prepared), "its end")
    assert not first.stdout


def test_a_node_that_waits_for_nothing_starts_its_workers_plainly(rankshim, tmp_path):
    look = "import os\nprint('GATE', 'RANKSHIM_GATE' in open('/proc/self/environ').read(), flush=True)\n"
    (tmp_path / "train.py").write_text(look)
    argv = [rankshim, "--launcher=native", "--nproc-per-node=2", "--warm=auto", "--", "train.py"]
    with Process(argv, clean_environment(), cwd=tmp_path) as process:
        assert (process.wait(), process.stdout) == (0, "GATE False\n" * 2)


def test_an_interpreter_that_does_not_import_our_part_runs_nothing_before_its_time(node, script, tmp_path):
    """A wrapper with -I, which no option of rankshim shows."""
    wrapper = tmp_path / "python3"
    wrapper.write_text('#!/bin/sh\nexec python3 -I "$@"\n')
    wrapper.chmod(0o755)
    first = node(0, [str(script)], f"--python={wrapper}", "--warm=auto")
    first.wait_line("this Python does not import rankshim's startup module", 30)
    assert not first.stdout and not first.status().get("prepared")
    second = node(1, [str(script)], f"--python={wrapper}")
    assert [first.wait(60), second.wait(60)] == [0, 0]
    assert len(ran(first)) == len(ran(second)) == 1


TRAINING = """\
    import os
    import torch
    import torch.distributed as dist
    import signal
    signal.signal(signal.SIGUSR1, lambda *_: os.write(1, b"USR1\\n"))
    dist.init_process_group("gloo")
    number = torch.ones(1)
    dist.all_reduce(number)
    os.write(1, f"RAN {os.environ['RANK']} {os.getpid()} {os.environ['TORCHELASTIC_RESTART_COUNT']} {int(number)}\\n".encode())
    if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        import time
        while not os.path.exists("go"):
            time.sleep(0.01)
        os._exit(3) if os.environ["RANK"] == "1" else time.sleep(1000)
    """


@pytest.fixture
def short_folder():
    """The names of rankshim's sockets must fit into an address."""
    with tempfile.TemporaryDirectory(prefix="warm-") as folder:
        yield folder


def test_the_next_attempt_is_prepared_beside_one_that_trains(rankshim, shim, tmp_path, short_folder, torch):
    script = tmp_path / "train.py"
    script.write_text(textwrap.dedent(TRAINING))
    run = Process([rankshim, "--launcher=native", "--nproc-per-node=2", "--job-restarts=1", "--warm=auto",
                   f"--run-dir={short_folder}", f"--report={tmp_path}/report.json", "--", "train.py"],
                  clean_environment(), cwd=tmp_path)
    run.status = lambda: ask(rankshim, f"{short_folder}")
    run.wait_line("RAN", 60)
    assert is_ready(run, attempt=1) == {"attempt": 1, "processes": 2, "ready": 2}
    workers = {int(pid) for _, _, pid, *_ in ran(run)}
    prepared = set(children(run.pid)) - workers
    assert len(prepared) == 2 and {one["pid"] for one in run.status()["workers"]} == workers
    run.signal(signal.SIGUSR1)
    until(lambda: run.stdout.count("USR1") == 2, "both workers have the signal")
    assert is_ready(run, attempt=1)["ready"] == 2
    stacks = shim("status", "--stacks", "--format=json", f"--run-dir={short_folder}").stdout
    assert f"{script}:" in stacks and "gate.py" not in stacks
    (tmp_path / "go").touch()
    assert run.wait(60) == 0, run.transcript()
    assert {int(pid) for _, _, pid, attempt, _ in ran(run) if attempt == "1"} == prepared
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["past_attempts"][0]["exit_code"] == 3 and report["leftovers"]["found"] == 0


def test_a_stop_ends_what_is_prepared_for_a_restart(rankshim, tmp_path, torch):
    script = tmp_path / "train.py"
    script.write_text(textwrap.dedent(TRAINING))
    (tmp_path / "run").mkdir()
    run = Process([rankshim, "--launcher=native", "--nproc-per-node=1", "--job-restarts=1", "--warm=auto", f"--run-dir={tmp_path}/run",
                   "--", "train.py"], clean_environment(), cwd=tmp_path)
    run.status = lambda: ask(rankshim, f"{tmp_path}/run")
    run.wait_line("RAN", 60)
    is_ready(run, attempt=1)
    everything = descendants(run.pid)
    run.signal(signal.SIGTERM)
    assert run.wait(20) == 143
    until(lambda: not any(os.path.exists(f"/proc/{pid}/exe") for pid in everything), "their ends")
    assert "SIGTERM" in last_line(run) and len(ran(run)) == 1


def test_nodes_with_different_numbers_of_workers_have_the_ranks_that_they_agree_on(rankshim, tmp_path, script):
    """Three nodes with 1, 2 and 3 workers: the middle one expects 2 and 3 before it has met the others, of 6 as it is."""
    ranks = [[0], [1, 2], [3, 4, 5]]
    nodes = []
    for node in (1, 0, 2):
        nodes.append(Process(
            [rankshim, "--nnodes=3", f"--node-rank={node}", f"--nproc-per-node={len(ranks[node])}", "--master-addr=127.0.0.1", "--launcher=native",
             f"--run-id={tmp_path}", "--warm=auto", f"--run-dir={tmp_path}", "--", str(script)], clean_environment()))
        nodes[-1].status = lambda: ask(rankshim, tmp_path)
        if node == 1:
            is_ready(nodes[-1])
    assert [process.wait(60) for process in nodes] == [0, 0, 0], [process.transcript() for process in nodes]
    assert [sorted(int(rank) for _, rank, *_ in ran(process)) for process in nodes] == [ranks[1], ranks[0], ranks[2]]
