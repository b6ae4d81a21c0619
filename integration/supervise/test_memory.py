"""The system refuses memory."""

import contextlib
import os
import resource
import signal
import subprocess

from lib.process import Process, clean_environment, descendants
from supervise.conftest import name, status

RESERVE = 256 * 1024  # bytes that rankshim has set aside for such a moment (loop.cpp)
# More children than a list of processes has room for without more memory.
MANY_CHILDREN = """
trap 'echo asked; exit 9' TERM
trap 'echo noted' USR1
for i in $(seq 1000); do sleep 1000 & done
echo ready
while :; do wait; done
"""


def test_memory_refused_before_the_command_runs_is_71_with_a_message(rankshim, tmp_path):
    config = tmp_path / "large.toml"
    config.write_text("env = [\n" + "".join(f'  "NAME_{i}=VALUE",\n' for i in range(30_000)) + "]\n")
    done = subprocess.run(["prlimit", "--as=4000000", rankshim, "explain", "--config", config], check=False,
                          env=clean_environment(), capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (
        71, "rankshim: error: the system refused memory: raise the limit (ulimit -v, or the container's limit) [R40]\n")


def test_refused_while_the_command_runs_signals_and_the_exit_code_are_still_true(rankshim):
    # Not as PID 1, where everything can be signalled without a list of it.
    argv = [rankshim, "--signal-scope", "tree", "--", "bash", "-c", MANY_CHILDREN]
    with Process(argv, clean_environment()) as process:
        process.wait_line("ready", stream="stdout")
        size = int(status(process.pid, "VmSize").split()[0]) * 1024 - RESERVE
        resource.prlimit(process.pid, resource.RLIMIT_AS, (size, size))
        process.signal(signal.SIGUSR1)
        process.wait_line("noted", stream="stdout")
        process.wait_line("refused memory")
        children = descendants(process.pid)
        process.signal(signal.SIGTERM)
        process.wait_line("asked", stream="stdout")
        for child in children:  # with the command's end nothing holds them together, nor ends them
            # One may have ended: rankshim ends what is left as soon as it has the memory to list it.
            with contextlib.suppress(ProcessLookupError, FileNotFoundError):
                if name(child) == "sleep":
                    os.kill(child, signal.SIGKILL)
        assert process.wait() == 9
