"""What rankshim logs and does after a launcher was asked to stop, with a stand-in for torchrun with one worker."""

import os
import re
import signal

import pytest

from lib.process import descendants
from lib.requirements import needs_strace
from lib.torch_stand_in import make_torch_stand_in
from supervise.conftest import AGENT, status

DEAF = 'import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print("up", flush=True); time.sleep(1000)'
HANGS = r"worker 0 \((rank 0, )?pid \d+, state %s, in \w+\) did not stop in \d\.\d s"


@pytest.mark.alone  # how soon the worker is seen, which ends at once
def test_an_agent_that_ignores_a_stop_when_its_workers_have_all_ended_is_killed_without_stacks(agent, torch_stand_in):
    # As torchrun in its exit barrier, where it waits for the other nodes.
    slow = "import faulthandler; faulthandler.enable()" + AGENT.replace("while worker.poll() is None:", 'worker.wait(); os.write(1, b"ended\\n")\nwhile True:')
    assert slow != AGENT
    make_torch_stand_in(torch_stand_in, slow)
    process = agent('print("up", flush=True)', "--grace=20s")
    process.wait_line("ended", stream="stdout")
    process.send(signal.SIGTERM)
    process.wait_line("the launcher, whose workers have all ended, did not follow SIGTERM within 2 s: rankshim kills everything")
    assert process.wait() == 0, "the work was done before the stop came"
    assert "has no worker yet" not in process.stderr and "SIGABRT" not in process.stderr and "Fatal Python" not in process.stderr
    assert "all workers had exited with code 0 before SIGTERM stopped torchrun" in process.stderr.splitlines()[-1]


@pytest.mark.parametrize("stacks", ["--stacks", "--no-stacks"])
def test_a_worker_that_does_not_stop_is_named_with_where_it_hangs(agent, stacks):
    process = agent(DEAF, "--grace=1s", stacks)
    process.wait_line("up", stream="stdout")
    process.send(signal.SIGTERM)
    assert process.wait() == 143
    lines = process.stderr.splitlines()
    what_now = ": asked for stacks by SIGABRT, then killed" if stacks == "--stacks" else ""
    assert any(re.search(HANGS % "S" + what_now + "$", line) for line in lines), process.stderr
    assert re.search(r"^rankshim: .*stopped \(SIGTERM\): .*; " + HANGS % "S" + "$", lines[-1])
    assert "left behind" not in process.stderr


def test_a_worker_that_the_launcher_will_kill_is_named_before(agent, tmp_path):
    process = agent(DEAF.replace("up", "up {os.getpid()}").replace('print("', 'import os; print(f"'), TORCH_ELASTIC_SHUTDOWN_TIMEOUT="1")
    own_number = process.wait_line("up", stream="stdout").text.split()[1]
    # In a PID namespace it has another one than here.
    (worker,) = [pid for pid in descendants(process.pid) if status(pid, "NSpid").split()[-1] == own_number]
    process.send(signal.SIGTERM)
    process.wait_line(HANGS % "S" + "; the launcher kills the processes that have not stopped$")
    os.kill(worker, signal.SIGKILL)
    assert process.wait() == 143
    assert re.search(HANGS % "S" + "$", process.stderr.splitlines()[-1])


def test_a_signal_for_the_workers_is_logged_when_it_is_passed_on(agent):
    process = agent('import signal, sys; signal.signal(signal.SIGUSR1, lambda *_: sys.exit(0)); print("up", flush=True); signal.pause()')
    process.wait_line("up", stream="stdout")
    process.send(signal.SIGUSR1)
    process.wait_line("SIGUSR1 passed on to the launcher's worker")
    assert process.wait() == 0
    assert process.stderr.count("SIGUSR1") == 1


def test_a_signal_for_the_workers_is_logged_when_it_is_given_up(agent, tmp_path):
    go = tmp_path / "go"
    os.mkfifo(go)
    process = agent(f'print("up", flush=True); open({str(go)!r}).read()')  # without a handler
    process.wait_line("up", stream="stdout")
    process.send(signal.SIGUSR1)
    process.wait_line("SIGUSR1 is kept until the launcher's workers can take it")
    go.write_text("on")
    process.wait_line("SIGUSR1 is dropped: the launcher ended before its workers could take it")
    assert process.wait() == 0


# It ends as soon as rankshim, the parent of its agent, holds a pidfd of it.
FOLLOWED = """
import glob, os, sys, time
shim = open("/proc/%d/stat" % os.getppid()).read().rpartition(")")[2].split()[1]
mine = "Pid:\\t%d\\n" % os.getpid()

def holds(name):
    try:
        return mine in open(name).read()
    except FileNotFoundError:
        return False

while not any(map(holds, glob.glob("/proc/%s/fdinfo/*" % shim))):
    time.sleep(0.01)
sys.exit(7)
"""


def test_a_worker_is_followed_though_rankshim_goes_on_long_after_it_has_started_the_agent(agent):
    """The agent has made its folders by then."""
    needs_strace()
    late = ["strace", "-D", "-qq", "-o", "/dev/null", "-e", "trace=setpgid", "-e", "inject=setpgid:delay_exit=1500000"]
    process = agent(FOLLOWED, before=late)
    assert process.wait() == 7
    assert "worker 0 exited with code 7" in process.stderr
