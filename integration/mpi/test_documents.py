"""The commands on the page of examples/mpi are run as they are, by a real Open MPI on one node."""

import shutil

import pytest
import yaml

from lib.documents import blocks
from lib.process import PATH
from lib.requirements import cannot

LONG = 120
MPIRUN = "mpirun.openmpi"
# As an MPIJob's launcher runs it, which has a host for each eight processes and may be root.
SETTINGS = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1"}
# The processes that know their ranks meet at the master, as torch's do: an open port alone would prove nothing. Each prints
# by one write, because several may write at once.
WORKER = """import os, socket, sys
rank, world = (os.environ.get(name, "?") for name in ("RANK", "WORLD_SIZE"))
if rank == "0":
    server, others = socket.create_server(("", int(os.environ["MASTER_PORT"])), backlog=128), int(world) - 1
    while others:
        others -= len(server.accept()[0].recv(1))
elif rank != "?":
    socket.create_connection((os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))).send(b"1")
sys.stdout.write(f"RESULT {rank} of {world}\\n")
"""


@pytest.mark.parametrize("when, found", [
    ("before", ["RESULT ? of ?"] * 24), ("after", [f"RESULT {rank} of 24" for rank in range(24)])])
def test_every_process_of_mpirun_knows_its_rank_with_rankshim_and_none_without_it(network, rankshim, tmp_path, when, found):
    (block,) = [block for block in blocks("yaml") if block.document == "examples/mpi/README.md"]
    command = yaml.safe_load(block.halves()[when])["command"]
    if (mpirun := shutil.which(MPIRUN, path=PATH)) is None:
        cannot(f"missing: {MPIRUN} (scripts/setup installs it)")
    for name, program in {"rankshim": rankshim, "mpirun": mpirun}.items():
        (tmp_path / name).symlink_to(program)
    (tmp_path / "train.py").write_text(WORKER)
    node = network.node("launcher")
    node.resolv_conf("nameserver 127.0.0.1\n")  # nobody answers there, at once
    done = node.run(command, {**SETTINGS, "PATH": f"{tmp_path}:{PATH}"}, timeout=LONG, cwd=tmp_path)
    assert done.code == 0, done.transcript()
    assert sorted(line for line in done.stdout.splitlines() if line.startswith("RESULT ")) == sorted(found)
