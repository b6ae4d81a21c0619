"""Incomplete and contradictory environments: a line with the fix, exit 78, nothing started."""

import json
import re

import pytest

from lib.kubeflow import operator_1_5, operator_1_9
from lib.process import clean_environment, run

CONFIGURATION, USAGE = 78, 64

WORKER = operator_1_5(1, 3, "job-master-0")
PET_WORKER = operator_1_9(1, 3, "job-master-0", workers_per_node=1)


def without(env, *names):
    return {name: value for name, value in env.items() if name not in names}


# What is wrong, and the variables that the line must name.
REFUSED = {
    "a world size without any rank": ({"WORLD_SIZE": "3"}, ["WORLD_SIZE"]),
    "a master and a world size without a rank": (without(WORKER, "RANK"), ["WORLD_SIZE"]),
    "a rank above 0 without a world size": (without(WORKER, "WORLD_SIZE"), ["RANK"]),
    "a rank above 0 without a master": (without(WORKER, "MASTER_ADDR"), ["MASTER_ADDR"]),
    "rank 0 of three without a master": (without(WORKER, "MASTER_ADDR") | {"RANK": "0"}, ["MASTER_ADDR"]),
    "a rank as large as the world": (WORKER | {"RANK": "3"}, ["RANK", "WORLD_SIZE"]),
    "a rank that is not a number": (WORKER | {"RANK": "one"}, ["RANK"]),
    "a negative rank": (WORKER | {"RANK": "-1"}, ["RANK"]),
    "a world size that is not a number": (WORKER | {"WORLD_SIZE": "3x"}, ["WORLD_SIZE"]),
    "localhost as a worker's master": (WORKER | {"MASTER_ADDR": "localhost"}, ["MASTER_ADDR"]),
    "port 0": (WORKER | {"MASTER_PORT": "0"}, ["MASTER_PORT"]),
    "a port above 65535": (WORKER | {"MASTER_PORT": "65536"}, ["MASTER_PORT"]),
    "a port that is not a number": (WORKER | {"MASTER_PORT": "http"}, ["MASTER_PORT"]),
    "RANK against NODE_RANK": (WORKER | {"NODE_RANK": "2"}, ["RANK", "NODE_RANK"]),
    "WORLD_SIZE against NNODES": (WORKER | {"NNODES": "2"}, ["WORLD_SIZE", "NNODES"]),
    "PET_NODE_RANK against NODE_RANK": (PET_WORKER | {"NODE_RANK": "0"}, ["PET_NODE_RANK", "NODE_RANK"]),
    "PET_NNODES against NNODES": (PET_WORKER | {"NNODES": "4"}, ["PET_NNODES", "NNODES"]),
    "PET_NPROC_PER_NODE against NPROC_PER_NODE": (
        PET_WORKER | {"NPROC_PER_NODE": "2"}, ["PET_NPROC_PER_NODE", "NPROC_PER_NODE"],
    ),
    "a minimum above the maximum": (PET_WORKER | {"PET_NNODES": "3:1"}, ["PET_NNODES"]),
    "a PET rank as large as the world": (PET_WORKER | {"PET_NODE_RANK": "3", "RANK": "3"}, ["PET_NODE_RANK"]),
    "PET_NNODES that is not a number": (PET_WORKER | {"PET_NNODES": "all"}, ["PET_NNODES"]),
    "PET_NPROC_PER_NODE that is not a number": (PET_WORKER | {"PET_NPROC_PER_NODE": "many"}, ["PET_NPROC_PER_NODE"]),
    "no workers at all": (PET_WORKER | {"PET_NPROC_PER_NODE": "0"}, ["PET_NPROC_PER_NODE"]),
    "NNODES without a rank": ({"NNODES": "2", "MASTER_ADDR": "job-master-0"}, ["NNODES"]),
    "NODE_RANK above 0 without NNODES": ({"NODE_RANK": "1", "MASTER_ADDR": "job-master-0"}, ["NODE_RANK"]),
    "a setting of ours that is not a number": (WORKER | {"RANKSHIM_NODE_RANK": "x"}, ["RANKSHIM_NODE_RANK"]),
}
SETTLES = re.compile(r"--[a-z]+(-[a-z]+)*|RANKSHIM_[A-Z_]+")
PROGRAM = ["sh", "-c", "echo STARTED"]
SCRIPT = ["train.py"]


@pytest.fixture
def place(tmp_path):
    """A folder with a train.py that prints a line if it is started."""
    (tmp_path / "train.py").write_text("print('STARTED')\n")
    return tmp_path


@pytest.mark.parametrize("command", [PROGRAM, SCRIPT], ids=["program", "script"])
@pytest.mark.parametrize("env, names", REFUSED.values(), ids=REFUSED.keys())
def test_it_is_refused_in_a_line_that_names_it_and_nothing_is_started(rankshim, place, env, names, command):
    # Without a wait: what is not refused is started, and shows.
    done = run([rankshim, "--wait=none", "--", *command], clean_environment(env), cwd=place)
    assert done.code == CONFIGURATION
    assert done.stdout == ""
    lines = done.stderr.splitlines()
    assert any(all(re.search(rf"\b{name}\b", line) for name in names) and SETTLES.search(line) for line in lines)
    assert "STARTED" not in done.stderr


@pytest.mark.parametrize("env, names", REFUSED.values(), ids=REFUSED.keys())
def test_explain_reports_it_in_json_too(shim, env, names):
    done = shim("explain", "--format", "json", "--", *SCRIPT, env=env)
    assert done.code == CONFIGURATION
    errors = json.loads(done.stdout)["errors"]
    assert errors
    for error in errors:
        assert set(error) == {"code", "what", "names", "fix"}
        assert f"{error['fix']} [{error['code']}]" in done.stderr
        assert error["what"] and error["fix"] and error["names"]
        assert SETTLES.search(error["fix"])
    assert any(all(re.search(rf"\b{name}\b", json.dumps(error)) for name in names) for error in errors), errors
    # One line per fault on stderr.
    faults = [line for line in done.stderr.splitlines() if any(error["what"] in line for error in errors)]
    assert len(faults) == len(errors)


def test_the_line_about_a_lonely_world_size_shows_its_value(shim):
    done = shim("--", *PROGRAM, env={"WORLD_SIZE": "3"})
    assert done.code == CONFIGURATION
    assert re.search(r"WORLD_SIZE\W+3\b", done.stderr)
    assert "STARTED" not in done.stdout


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_a_refusal_reaches_the_shell_through_eval(rankshim, shell):
    done = run([shell, "-c", f'eval "$("{rankshim}" env)"; echo STARTED'], clean_environment({"WORLD_SIZE": "3"}))
    assert done.code == CONFIGURATION
    assert "STARTED" not in done.stdout
    assert "WORLD_SIZE" in done.stderr


def test_wait_refuses_too(shim):
    assert shim("wait", env={"WORLD_SIZE": "3"}).code == CONFIGURATION


@pytest.mark.parametrize("env, option", [
    (WORKER | {"NODE_RANK": "2"}, "--node-rank=1"),
    (WORKER | {"NNODES": "2"}, "--nnodes=3"),
    (PET_WORKER | {"NODE_RANK": "0"}, "--node-rank=1"),
    ({"WORLD_SIZE": "3"}, "--platform=none"),
])
def test_what_the_line_names_settles_it(shim, env, option):
    assert shim("--", "true", env=env).code == CONFIGURATION
    assert shim(option, "--wait=none", "--", "true", env=env).code == 0


def test_a_gpu_asked_for_where_there_is_none_is_refused(network, rankshim):
    node = network.node("lonely")
    # Over /dev of the node's own mount namespace, so that a machine with GPUs has none here.
    hide = 'mount -t tmpfs none /dev && exec "$0" "$@"'
    done = node.run(["sh", "-c", hide, rankshim, "--nproc-per-node=gpu", "--", "train.py"], {})
    assert done.code == CONFIGURATION
    assert "gpu" in done.stderr and "nproc-per-node" in done.stderr


def test_an_unknown_rankshim_variable_is_refused_with_the_nearest_name(shim):
    done = shim("--", *PROGRAM, env={"RANKSHIM_NODE_RANKS": "1"})
    assert done.code == CONFIGURATION
    assert "RANKSHIM_NODE_RANKS" in done.stderr and re.search(r"RANKSHIM_NODE_RANK\b", done.stderr)
    assert "STARTED" not in done.stdout


def test_kubernetes_service_links_and_our_version_are_no_settings(shim):
    env = {"RANKSHIM_SERVICE_HOST": "10.0.0.1", "RANKSHIM_SERVICE_PORT": "80", "RANKSHIM_PORT": "tcp://10.0.0.1:80",
           "RANKSHIM_PORT_80_TCP": "tcp://10.0.0.1:80", "RANKSHIM_VERSION": "1"}
    assert shim("--", "true", env=env).code == 0


def test_an_unknown_option_is_wrong_usage_with_the_nearest_name(shim):
    done = shim("--node-rnak=1", "--", *PROGRAM)
    assert done.code == USAGE
    assert "--node-rnak" in done.stderr and re.search(r"--node-rank\b", done.stderr)
    assert done.stdout == ""


def test_an_empty_variable_counts_as_not_set(shim):
    done = shim("--", *PROGRAM, env={"WORLD_SIZE": "", "RANK": "", "MASTER_ADDR": "", "RANKSHIM_NODE_RANK": ""})
    assert (done.code, done.stdout) == (0, "STARTED\n")


# Nothing answers for the worker's master: a rankshim that waited for it first would end with 75. It tries to tell it for a second.


@pytest.mark.parametrize("command", [["none.py"], ["torchrun", "none.py"], ["no-such-program"]], ids=" ".join)
def test_what_is_not_there_is_127_before_anything_is_waited_for(shim, tmp_path, command):
    torchrun = tmp_path / "torchrun"
    torchrun.write_text("#!/bin/sh\n")
    torchrun.chmod(0o755)
    done = shim("--", *command, env=WORKER | {"PATH": f"{tmp_path}:/usr/bin:/bin", "RANKSHIM_WAIT_TIMEOUT": "1s"})
    assert done.code == 127, done.transcript()
    assert command[-1] in done.stderr


def test_an_interpreter_without_torch_is_78_before_anything_is_waited_for(shim, tmp_path):
    python = tmp_path / "python3"
    python.write_text("#!/bin/sh\nexec /usr/bin/python3 -I -S \"$@\"\n")  # without any site-packages
    python.chmod(0o755)
    (tmp_path / "train.py").touch()
    done = shim("--python", str(python), "--", str(tmp_path / "train.py"), env=WORKER | {"RANKSHIM_WAIT_TIMEOUT": "1s"})
    assert done.code == CONFIGURATION, done.transcript()
    assert f"no torch in {python}" in done.stderr
    assert "--python" in done.stderr


def test_an_option_of_rankshim_after_the_two_dashes_is_wrong_usage(shim):
    for subcommand in ([], ["explain"]):
        done = shim(*subcommand, "--", "--nproc-per-node", "2", "train.py")
        assert done.code == USAGE
        assert "give the options before --" in done.stderr


def test_a_torchrun_that_contradicts_its_platform_is_refused(shim):
    done = shim("--", "torchrun", "--standalone", "train.py", env=PET_WORKER)
    assert done.code == CONFIGURATION
    assert "torchrun --standalone contradicts PET_NNODES=3" in done.stderr
