"""A real Slurm on this machine."""

import pathlib
import re
import shutil

import pytest

from lib.events import until
from lib.process import clean_environment
from lib.requirements import cannot

HERE = pathlib.Path(__file__).resolve().parent
TOOLS = ("munged", "slurmctld", "slurmd", "srun", "sbatch")
JOB = 180


class Cluster:
    """Two Slurm nodes that share one network, or the `machines` node1, node2 and so on; run() is the user. Both have `shared`, a
    binary, as /opt/rankshim/rankshim, and `plugins` is what Slurm's plugstack.conf says. `line` is one more line of slurm.conf."""

    def __init__(self, node, folder, *, shared="", plugins="", line="", machines=()):
        self.folder = folder
        self._node = node
        names = "".join(f"{machine.address} {machine.hostname}\n" for machine in machines)
        for each in (node, *machines):
            each.hosts(f"127.0.0.1 localhost\n{node.address} {node.hostname}{'' if machines else ' node0 node1'}\n{names}")
            each.resolv_conf("nameserver 127.0.0.1\n")  # nobody answers there, at once
        (folder / "plugstack.conf").write_text(plugins)
        addresses = [machine.address for machine in machines]
        self.daemons = node.start([str(HERE / "cluster.sh"), str(folder), shared, line, *addresses], {}, name="slurm")
        if machines:
            until((folder / "run" / "munge.sock").exists, "munged listens")
        for machine in machines:
            machine.start(["slurmd", "-D", "-N", machine.hostname, "-f", str(folder / "slurm.conf")], {})
        self.daemons.wait_line("^ready$", 120)

    def _variables(self, environment):
        return {"SLURM_CONF": f"{self.folder}/slurm.conf", "OMP_NUM_THREADS": "1", **(environment or {})}

    def run(self, *argv, environment=None):
        """A command of Slurm's to its end; .code is its exit code."""
        return self._node.run(list(argv), self._variables(environment), timeout=JOB, cwd=self.folder, name=argv[0])

    def start(self, *argv, environment=None):
        """The same, while it runs."""
        return self._node.start(list(argv), self._variables(environment), cwd=self.folder, name=argv[0])

    def batch(self, script, *options, environment=None, nodes=2):
        """A batch script's text on both nodes to its end: its exit code, and the lines that it and its steps print."""
        lines = script.splitlines(keepends=True)
        options_end = next((i for i, line in enumerate(lines) if not line.startswith("#")), len(lines))
        lines.insert(options_end, "trap 'echo end $?' EXIT\n")
        path = self.folder / f"{len(list(self.folder.glob('*.sbatch')))}.sbatch"
        path.write_text("".join(["" if lines[0].startswith("#!") else "#!/bin/bash -e\n", *lines]))
        out = path.with_suffix(".out")
        submitted = self.run("sbatch", f"--nodes={nodes}", f"--output={out}", *options, str(path), environment=environment)
        assert submitted.code == 0, submitted.transcript()
        # sbatch --wait would look every few seconds.
        until(lambda: out.exists() and re.search(r"^end \d+$", out.read_text(), re.M), "the batch script ends", JOB)
        *lines, end = out.read_text().splitlines()
        return int(end.removeprefix("end ")), lines


@pytest.fixture
def slurm():
    """The commands of Slurm are there."""
    missing = [tool for tool in TOOLS if shutil.which(tool, path=clean_environment()["PATH"]) is None]
    if missing:
        cannot(f"missing: {', '.join(missing)} (scripts/setup installs them)")


@pytest.fixture
def cluster(slurm, network, tmp_path):
    return Cluster(network.node("head"), tmp_path)
