"""Jobs that write reports: the real binary on this machine, with sh or Python as workers."""

from __future__ import annotations

import json
import pathlib
import re
import socket
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from lib.process import Process, clean_environment

LONGEST = 120


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


class Job:
    """The nodes of one job. Each worker is `command`, which has RANK, NODE_RANK and the rest of torch's variables.
    `around` is in front of node 0's command line."""

    def __init__(self, rankshim: str, folder: pathlib.Path, nodes: int, command: list[str], *options: str, workers: int = 2,
                 around: Sequence[str] = ()):
        self.paths = [str(folder / f"node-{rank}.json") for rank in range(nodes)]
        options = ("--launcher=native", f"--nproc-per-node={workers}", f"--run-dir={folder}", f"--nnodes={nodes}",
                   "--master-addr=127.0.0.1", f"--master-port={free_port()}", *options)
        self.nodes = [Process([*([] if rank else around), rankshim, *options, f"--node-rank={rank}", f"--report={path}", "--", *command],
                              clean_environment(), cwd=folder, name=f"node {rank}") for rank, path in enumerate(self.paths)]

    def wait(self) -> list[int]:
        """The exit codes of all nodes, at their end."""
        try:
            return [node.wait(LONGEST) for node in self.nodes]
        finally:
            for node in self.nodes:
                node.kill()


def content(path: str) -> Any:
    return json.loads(pathlib.Path(path).read_text())


def changed(path: str, **members: Any) -> str:
    """A real report with these members, beside it."""
    other = pathlib.Path(path).with_suffix(".changed.json")
    other.write_text(json.dumps({**content(path), **members}))
    return str(other)


def an_hour_ahead(path: str) -> str:
    """A real report as a node writes it whose clock is an hour ahead, beside it."""
    def ahead(time: re.Match[str]) -> str:
        return f"{datetime.fromisoformat(time[1]) + timedelta(hours=1):%Y-%m-%dT%H:%M:%S}{time[2]}"

    other = pathlib.Path(path).with_suffix(".ahead.json")
    other.write_text(re.sub(r"(?<=\")(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d{3}Z)(?=\")", ahead, pathlib.Path(path).read_text()))
    return str(other)
