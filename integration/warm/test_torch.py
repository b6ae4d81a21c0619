"""Real torch after the gate: what it does, and how it ends, is as in a plain start."""

import contextlib
import importlib.util
import pathlib
import re
import socket
import sys

import pytest

from lib.events import PATIENCE

WORK = pathlib.Path(__file__).with_name("work.py").read_text()
pytestmark = [pytest.mark.torch]


def free_port():
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        return str(place.getsockname()[1])


def outcome(process):
    """Its code and output, without what is another in each run."""
    code = process.wait(PATIENCE * 4)
    lines = [line for line in process.stderr.splitlines() if "socket.cpp" not in line]  # "The hostname cannot be retrieved"
    return code, process.stdout, re.sub(r"0x[0-9a-f]+|torchelastic_\S+|[0-9]+", "N", "\n".join(lines))


def both(start, *commands):
    """The outcomes of the workers with these commands: plainly started, and prepared."""
    found = []
    for make in (start.plain, start.prepared):
        env = {"MASTER_PORT": free_port()}
        with contextlib.ExitStack() as stack:
            workers = [stack.enter_context(make(*argv, rank=rank, env=env)) for rank, argv in enumerate(commands)]
            for worker in workers if make == start.prepared else ():
                assert worker.is_ready(), worker.transcript()
                assert has_torch(worker) and worker.stdout + worker.stderr == ""
            for worker in workers if make == start.prepared else ():
                worker.end.send(b"g")
            found.append([outcome(worker) for worker in workers])
    return found


def has_torch(process):
    """Whether the process has loaded torch."""
    return "libtorch" in pathlib.Path(f"/proc/{process.pid}/maps").read_text()


@pytest.mark.nightly  # test_rankshim.py has the usual ones
@pytest.mark.parametrize("parts", [
    ["ddp", "pickle", "fork", "program"], ["spawn"], ["forkserver"], ["spawned"], ["compile"],
], ids=lambda parts: parts[-1])
def test_workers_do_what_they_would(start, torch, parts):
    start.write(train=WORK)
    plain, prepared = both(start, *(["train.py", *parts, end] for end in ("7", "fail")))
    assert plain == prepared
    assert [code for code, *_ in plain] == [7, 1] and "ValueError: boom" in plain[1][2]


AGENTS = {
    "the module": ["-m", "torch.distributed.run"],
    "the program": [str(pathlib.Path(sys.executable).with_name("torchrun"))],
    "its file": ["{torch}/distributed/run.py"],
}


@pytest.mark.parametrize("agent", [pytest.param(one, marks=[] if one == "the module" else pytest.mark.nightly) for one in AGENTS])
def test_torchruns_agent_has_imported_torch_before_go(start, torch, agent):
    folder = importlib.util.find_spec("torch").submodule_search_locations[0]
    start.write(train="import os, sys\nprint(os.environ['RANK'], sys.argv)\nsys.exit(3)\n")
    argv = [word.format(torch=folder) for word in AGENTS[agent]]
    plain, prepared = both(start, [*argv, "--nproc-per-node=1", "train.py", "--x"])
    assert plain == prepared
    assert plain[0][:2] == (1, "0 ['train.py', '--x']\n") and "ChildFailedError" in plain[0][2]
