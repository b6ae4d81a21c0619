"""A worker that comes to torch's store before rank 0 has opened it tries again at once: torch itself pauses for half a second."""

import pytest

TORCH = {
    "__init__.py": "",
    "_C/__init__.py": "",
    "_C/_distributed_c10d.py": """\
import socket
class TCPStore:
    def __init__(self, host_name, port, world_size=None, is_master=False):
        with socket.socket() as probe:
            print("open" if probe.connect_ex((host_name, port)) == 0 else "refused")
""",
    "distributed/__init__.py": "import torch._C._distributed_c10d\nfrom torch.distributed import distributed_c10d\n",
    "distributed/distributed_c10d.py": "",
}
# It listens when this script has paused three times.
TRAIN = """\
import os, socket, time
server = socket.socket()
server.bind(("127.0.0.1", 0))
pauses = []
def pause(seconds):
    pauses.append(seconds)
    if len(pauses) == int(os.environ.get("LISTEN", 3)):
        server.listen()
time.sleep = pause
import torch.distributed
from torch._C._distributed_c10d import TCPStore
print(isinstance(TCPStore("127.0.0.1", server.getsockname()[1], 2, os.environ["RANK"] == "0"), TCPStore), len(pauses), sum(pauses) < 0.3)
"""
CASES = {
    "rank 0 is a moment late": (1, {}, "open\nTrue 3 True\n"),
    "rank 0 does not come": (1, {"LISTEN": "100"}, "refused\nTrue 8 True\n"),
    "rank 0 itself": (0, {}, "refused\nTrue 0 True\n"),
    "torchrun's agent has opened it": (1, {"TORCHELASTIC_USE_AGENT_STORE": "True"}, "refused\nTrue 0 True\n"),
    "a large job": (1, {"WORLD_SIZE": "1025"}, "refused\nTrue 0 True\n"),
}


@pytest.mark.parametrize("case", CASES)
def test_a_worker_waits_a_moment_for_rank_0(start, tmp_path, case):
    for name, text in TORCH.items():
        path = tmp_path / "packages" / "torch" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    start.write(train=TRAIN)
    rank, env, expected = CASES[case]
    with start.plain("train.py", rank=rank, env={"PYTHONPATH": f":{tmp_path}/packages", **env}) as process:
        assert (process.wait(), process.stdout, process.stderr) == (0, expected, "")
