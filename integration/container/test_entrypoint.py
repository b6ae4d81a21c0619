"""rankshim as the entrypoint, and so PID 1, of a user's container.

Each behaviour is tried in a plain container and in one as locked down as clusters make them.
"""

import re

import pytest

from container.conftest import USER_IMAGE

MODES = {
    "plain": [],
    "locked-down": [
        "--read-only", "--read-only-tmpfs=false", "--user=1000:1000", "--cap-drop=ALL",
        "--security-opt=no-new-privileges",
    ],
}
# Prints what it got, and ends as it likes on TERM.
LISTENER = """
for signal in HUP USR1 USR2 WINCH 37; do trap "echo got $signal" $signal; done
trap 'echo got TERM; exit 5' TERM
echo ready
while :; do sleep 1000 & wait; done
"""


@pytest.fixture(params=MODES)
def user_container(request, start):
    """Starts a command in the user's image."""

    def run(*command, options=(), **how):
        return start(USER_IMAGE, *command, options=[*MODES[request.param], *options], **how)

    return run


@pytest.mark.parametrize("command, code", [
    (["true"], 0),
    (["sh", "-c", "exit 7"], 7),
    (["sh", "-c", "exit 255"], 255),
    (["sh", "-c", "kill -TERM $$"], 143),
    (["sh", "-c", "kill -KILL $$"], 137),
    (["no-such-program"], 127),
    (["/etc/passwd"], 126),
    (["train.py"], 127),  # there is no Python in this image
    ([], 64),
])
def test_podman_run_ends_with_the_commands_code(user_container, command, code):
    container = user_container(*command)
    assert container.wait() == code, container.transcript()


def test_incomplete_facts_start_nothing(user_container):
    container = user_container("echo", "started", options=["--env=WORLD_SIZE=3"])
    assert container.wait() == 78
    assert "WORLD_SIZE" in container.stderr
    assert "started" not in container.stdout


def test_rankshim_is_pid_1_and_the_command_its_child(user_container):
    container = user_container("sh", "-c", "cat /proc/1/comm; echo parent $PPID")
    assert container.wait() == 0
    assert container.stdout == "rankshim\nparent 1\n"


def test_stdin_and_stdout_are_the_commands(engine):
    done = engine.run("sh", "-c", 'echo through | podman --log-level=error run --log-driver=passthrough --rm -i "$0" cat', USER_IMAGE)
    assert (done.code, done.stdout) == (0, "through\n")


def test_a_terminal_is_the_commands(engine):
    script = "test -t 0 && test -t 1 && echo groups $(cut -d' ' -f5,8 /proc/$$/stat)"
    done = engine.podman("run", "--rm", "-t", USER_IMAGE, "sh", "-c", script)
    assert done.code == 0, done.transcript()
    # A terminal shows our own lines on stderr too.
    process_group, foreground = re.search(r"^groups (\d+) (\d+)", done.stdout, re.MULTILINE).groups()
    assert process_group == foreground


def test_podman_stop_reaches_the_command_and_its_code_comes_back(engine, user_container):
    container = user_container("bash", "-c", LISTENER)
    container.wait_line("^ready$")
    engine.must("stop", "--time=60", container.name)
    assert container.wait() == 5, container.transcript()
    assert container.stdout.splitlines() == ["ready", "got TERM"]


def test_podman_stop_ends_a_command_that_does_nothing_about_it(engine, user_container):
    container = user_container("sh", "-c", "echo ready; exec sleep 1000")
    container.wait_line("^ready$")
    engine.must("stop", "--time=60", container.name)
    assert container.wait() == 143, container.transcript()


def test_podman_kill_sends_any_signal_once(engine, user_container):
    container = user_container("bash", "-c", LISTENER)
    container.wait_line("^ready$")
    signals = ["HUP", "USR1", "USR2", "WINCH", "37"]
    for name in signals:
        engine.must("kill", f"--signal={name}", container.name)
        container.wait_line(f"^got {name}$")
    engine.must("stop", "--time=60", container.name)
    assert container.wait() == 5
    assert container.stdout.splitlines() == ["ready", *(f"got {name}" for name in signals), "got TERM"]


def test_a_stop_while_waiting_for_the_master_ends_at_once_with_143(engine, user_container):
    container = user_container("echo", "started", options=[
        "--network=job", "--env=RANK=1", "--env=WORLD_SIZE=2", "--env=MASTER_ADDR=late-0", "--env=MASTER_PORT=23456",
    ])
    container.wait_line("late-0")
    engine.must("stop", "--time=60", container.name)
    assert container.wait() == 143, container.transcript()
    assert "started" not in container.stdout


def test_orphans_are_reaped(user_container):
    # Each subshell ends without waiting for its child, which PID 1 inherits, dead or alive; `wc` ends
    # when no child has its output open any more.
    container = user_container("bash", "-c", """
        for _ in {1..100}; do (sh -c 'echo orphan' &); done | wc -l
        while grep -q '^State:.*Z' /proc/[0-9]*/status 2>/dev/null; do sleep 0.01; done
        echo clean
    """)
    assert container.wait() == 0, container.transcript()
    assert container.stdout == "100\nclean\n"


def test_the_commands_leftovers_are_asked_to_stop(user_container):
    container = user_container("bash", "-c", """
        coproc left { trap 'echo left behind got TERM >&2; exit' TERM; echo up; sleep 1000 & wait; }
        read -r line <&"${left[0]}"
        exit 3
    """)
    assert container.wait() == 3
    assert "left behind got TERM\n" in container.stderr
