"""Jobs that write reports: the real binary on this machine, with sh or Python as workers.

RANKSHIM   the binary under test (default: dist/rankshim, as scripts/build makes it)
"""

from __future__ import annotations

import json
import os
import pathlib
import socket
import subprocess
import sys
from typing import Any

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
RANKSHIM = os.environ.get("RANKSHIM") or str(REPOSITORY / "dist" / "rankshim")
LONGEST = 120


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def clean(variables: dict[str, str]) -> dict[str, str]:
    """An environment of exactly these variables, PATH and HOME: this interpreter's folder is the one with torch."""
    return {"PATH": f"{os.path.dirname(sys.executable)}:/usr/bin:/bin", "HOME": "/", **variables}


def run(command: list[str], folder: pathlib.Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Runs it to its end, there."""
    return subprocess.run(command, env=clean(variables), cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=LONGEST, check=False)


class Job:
    """The nodes of one job. Each worker is `command`, which has RANK, NODE_RANK and the rest of torch's variables."""

    def __init__(self, folder: pathlib.Path, nodes: int, command: list[str], *options: str, workers: int = 2, **variables: str):
        self.paths = [str(folder / f"node-{rank}.json") for rank in range(nodes)]
        port = free_port()
        self.processes = [subprocess.Popen(
            [RANKSHIM, "--launcher=native", f"--nproc-per-node={workers}", f"--report={path}", f"--run-dir={folder}",
             f"--nnodes={nodes}", f"--node-rank={rank}", "--master-addr=127.0.0.1", f"--master-port={port}", *options, "--", *command],
            env=clean(variables), cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True) for rank, path in enumerate(self.paths)]
        self.outputs: list[str] = []

    def wait(self) -> Job:
        """Waits for the end of all nodes."""
        try:
            self.outputs = [process.communicate(timeout=LONGEST)[0] for process in self.processes]
        finally:
            for process in self.processes:
                process.kill()
        return self

    def stop_when(self, line: str) -> None:
        """Asks node 0 to stop when it has printed this line, and waits for the end of all nodes."""
        for printed in self.processes[0].stdout or ():
            if printed == f"{line}\n":
                self.processes[0].terminate()
                break
        self.wait()

    @property
    def codes(self) -> list[int]:
        return [process.returncode for process in self.processes]


def content(path: str) -> Any:
    return json.loads(pathlib.Path(path).read_text())


def changed(path: str, **members: Any) -> str:
    """A real report with these members, beside it."""
    other = pathlib.Path(path).with_suffix(".changed.json")
    other.write_text(json.dumps({**content(path), **members}))
    return str(other)
