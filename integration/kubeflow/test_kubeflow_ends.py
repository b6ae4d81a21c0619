"""How programs end under rankshim as PID 1: signals and leftovers."""

import os
import signal
import time

import pytest

from lib.events import until
from lib.idle import DAYS, sleeps

KILLED = 137
RUN_FOREVER = "echo READY; while :; do sleep 1000 & wait $!; done"


@pytest.fixture
def pod(network):
    """One node without a platform's variables: only PID 1 and what it starts."""
    return network.node("pod")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1,
                                    signal.SIGUSR2, signal.SIGRTMIN + 3])
def test_a_signal_from_outside_reaches_the_program(pod, rankshim, number):
    program = pod.start([rankshim, "--", "python3", "-I", "-S", "-c", f"""
import os, signal
signal.pthread_sigmask(signal.SIG_BLOCK, {{{int(number)}}})  # it cannot come between the line and the wait
os.write(1, b"READY\\n")
os.write(1, b"CAUGHT %d\\n" % signal.sigwait({{{int(number)}}}))
os._exit(7)
"""], {})
    program.wait_line("READY")
    program.signal(number)
    program.wait_line(f"CAUGHT {int(number)}")
    assert program.wait() == 7, "a program's own end counts, after a stop too"


def test_a_term_reaches_the_programs_whole_group(pod, rankshim):
    # bash with a job in the foreground acts on TERM only when the job has ended: both must get it.
    program = pod.start([rankshim, "--", "bash", "-c", "trap 'echo TRAPPED' TERM; sleep 1000; echo READY-NOT"], {})
    until(lambda: any(line.startswith("sleep") for line in program.tree().values()), "sleep runs")
    program.signal(signal.SIGTERM)
    program.wait_line("TRAPPED")
    program.wait()


def test_without_a_grace_a_program_has_as_long_as_it_needs_to_save(pod, rankshim, tmp_path):
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    save = "trap 'echo SAVING; read word <\"$1\"; echo SAVED; exit 0' TERM; "
    program = pod.start([rankshim, "--", "sh", "-c", save + RUN_FOREVER, "sh", str(gate)], {})
    program.wait_line("READY")
    program.signal(signal.SIGTERM)
    program.wait_line("SAVING")
    until(lambda: sleeps(program.init) > DAYS, "nothing is due")
    gate.write_text("saved\n")
    program.wait_line("SAVED")
    assert program.wait() == 0


def test_after_the_grace_what_ignores_a_term_is_killed_in_other_sessions_too(pod, rankshim):
    deaf = "trap '' TERM; echo DEAF; while :; do sleep 1000; done"
    program = pod.start(
        [rankshim, "--grace=1s", "--", "sh", "-c", f'setsid sh -c "{deaf}" & trap "" TERM; {RUN_FOREVER}'], {}
    )
    program.wait_line("DEAF")
    program.wait_line("READY")
    sent = time.monotonic()
    program.signal(signal.SIGTERM)
    assert program.wait() == KILLED, "its own end counts, and it ended by our KILL"
    assert program.ended - sent > 0.75  # the last fifth is for its stacks


def test_leftovers_get_a_term_then_their_time_then_a_kill(pod, rankshim, tmp_path):
    left = "trap 'echo LEFTOVER GOT TERM' TERM; echo LEFTOVER; while :; do sleep 1000 & wait $!; done"
    started = "setsid sh -c \"$1\" & read line < \"$2\"; exit 3"
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    program = pod.start([rankshim, "--leftover-grace=1s", "--", "sh", "-c", started, "sh", left, str(gate)], {})
    program.wait_line("LEFTOVER$")
    begin = time.monotonic()
    gate.write_text("go\n")
    program.wait_line("LEFTOVER GOT TERM")
    assert program.wait() == 3
    assert program.ended - begin > 0.75  # the last fifth is for its stacks


def test_leftovers_that_end_by_a_term_cost_no_time(pod, rankshim):
    program = pod.start([rankshim, "--leftover-grace=1h", "--", "sh", "-c", "setsid sleep 1000 & echo READY; exit 5"], {})
    assert program.wait() == 5


def test_orphans_are_reaped(pod, rankshim, tmp_path):
    gates = [tmp_path / "0", tmp_path / "1"]
    for gate in gates:
        os.mkfifo(gate)
    orphan = "read word <$0; exit ${0##*/}"
    started = f"orphans=$(for gate; do sh -c '{orphan}' $gate >/dev/null & echo $!; done); echo orphans $orphans; "
    # A signal reaches a process that has ended too, until it is reaped.
    gone = "for pid in $orphans; do while kill -0 $pid 2>/dev/null; do sleep 0.01; done; done; echo REAPED"
    program = pod.start([rankshim, "--", "sh", "-c", started + gone, "sh", *map(str, gates)], {})
    program.wait_line(r"^orphans \d+ \d+$")
    for gate in gates:
        gate.write_text("go\n")
    program.wait_line("REAPED")
    assert program.wait() == 0


def test_a_plain_process_ends_its_leftovers_too(shim):
    done = shim("--", "sh", "-c", "setsid sleep 60 & echo $!; exit 4")
    assert done.code == 4
    assert not os.path.exists(f"/proc/{done.stdout.strip()}"), "what it left behind is still there"


def test_rankshim_writes_nothing_to_standard_output_and_a_node_alone_gets_its_five_variables(pod, rankshim):
    given = {"COLOUR": "blue", "PORT": "8080"}
    bare = pod.run(["env"], given)
    under = pod.run([rankshim, "--", "env"], given)
    added = ["NNODES=1", "NODE_RANK=0", "NPROC_PER_NODE=1", "MASTER_ADDR=127.0.0.1", "MASTER_PORT=29500"]
    assert sorted(under.stdout.splitlines()) == sorted(bare.stdout.splitlines() + added)
    assert pod.run([rankshim, "--", "bash", "-uc", "exit $NODE_RANK"], {}).code == 0


def test_settings_are_removed_from_the_programs_environment(pod, rankshim):
    done = pod.run([rankshim, "--", "env"], {"RANKSHIM_LOG_LEVEL": "warn"})
    assert "RANKSHIM" not in done.stdout
