"""What rankshim makes of the environments that Kubeflow's operators give their pods."""

import contextlib
import json
import pathlib
import re
import sys

import pytest

from lib.explain import explained, launcher_flags, sources, values
from lib.kubeflow import recorded
from lib.network import Network
from lib.process import clean_environment, run
from lib.requirements import cannot

ACCELERATORS = [device for device in pathlib.Path("/dev").glob("nvidia*") if re.fullmatch(r"nvidia\d+", device.name)]
# Where the platform names no number of workers: as many as there are accelerators here, else 1.
PER_DEVICE = str(len(ACCELERATORS) or 1)
# More workers than accelerators is an error, so the recorded numbers fit only a machine without or with enough.
FITS = not ACCELERATORS or len(ACCELERATORS) >= 2

# The result for each recorded job: the facts that are equal on all its pods, and the variables that they
# come from. The pods are in the order of their ranks.
JOBS = {
    "operator-1.3": {
        "platform": "kubeflow-pytorchjob",
        "facts": {"nnodes": "3", "nproc_per_node": PER_DEVICE, "master_port": "23456"},
        "sources": {"nnodes": "env WORLD_SIZE", "node_rank": "env RANK", "master_addr": "env MASTER_ADDR",
                    "master_port": "env MASTER_PORT"},
    },
    "operator-1.5": {
        "platform": "kubeflow-pytorchjob",
        "facts": {"nnodes": "3", "nproc_per_node": PER_DEVICE, "master_addr": "job-master-0", "master_port": "23456"},
        "sources": {"nnodes": "env WORLD_SIZE", "node_rank": "env RANK", "master_addr": "env MASTER_ADDR",
                    "master_port": "env MASTER_PORT"},
    },
    "operator-1.7": {
        "platform": "kubeflow-pytorchjob",
        "facts": {"nnodes": "3", "nproc_per_node": "2", "master_addr": "job-master-0", "master_port": "23456"},
        "sources": {"nnodes": "env PET_NNODES", "node_rank": "env PET_NODE_RANK",
                    "nproc_per_node": "env PET_NPROC_PER_NODE", "master_addr": "env PET_MASTER_ADDR",
                    "master_port": "env PET_MASTER_PORT"},
    },
    "operator-1.7-auto": {
        "platform": "kubeflow-pytorchjob",
        "facts": {"nnodes": "3", "nproc_per_node": PER_DEVICE, "master_addr": "job-master-0", "master_port": "23456"},
        "sources": {"nnodes": "env PET_NNODES", "node_rank": "env PET_NODE_RANK",
                    "master_addr": "env PET_MASTER_ADDR", "master_port": "env PET_MASTER_PORT"},
    },
    "trainer-2": {
        "platform": "kubeflow-trainjob",
        "facts": {"nnodes": "3", "nproc_per_node": "2", "master_addr": "job-node-0-0.job", "master_port": "29500"},
        "sources": {"nnodes": "env PET_NNODES", "node_rank": "env PET_NODE_RANK",
                    "nproc_per_node": "env PET_NPROC_PER_NODE", "master_addr": "env PET_MASTER_ADDR",
                    "master_port": "env PET_MASTER_PORT"},
    },
    "cube-studio": {
        "platform": "kubeflow-pytorchjob",
        "facts": {"nnodes": "3", "nproc_per_node": PER_DEVICE, "master_addr": "pytorchjob-xxx-master-0",
                  "master_port": "23456"},
        "sources": {"nnodes": "env WORLD_SIZE", "node_rank": "env RANK", "master_addr": "env MASTER_ADDR",
                    "master_port": "env MASTER_PORT"},
    },
}
PODS = [(job, rank, pod) for job in JOBS for rank, pod in enumerate(recorded(job))]


def needs_room(job):
    if not FITS and JOBS[job]["facts"]["nproc_per_node"] == "2":
        pytest.skip("this machine has one accelerator; the recorded job has two workers per node")


@pytest.fixture(scope="module")
def on_pod(rankshim, namespaces):
    """Runs rankshim with a recorded environment on a node of that host name: on_pod(pod, env, ...).

    Without namespaces on this machine itself, whose host name is another.
    """
    nodes = {}
    with contextlib.ExitStack() as stack:
        network = None if namespaces else stack.enter_context(Network())

        def start(pod, env, *arguments):
            if network is None:
                if env.get("MASTER_ADDR") == "localhost":
                    cannot(namespaces)
                return run([rankshim, *arguments], clean_environment(env), name=pod)
            if pod not in nodes:
                nodes[pod] = network.node(pod)
            return nodes[pod].run([rankshim, *arguments], env)

        yield start


@pytest.mark.parametrize("job, rank, pod", PODS)
def test_every_pod_finds_its_rank_and_names_the_source(on_pod, job, rank, pod):
    needs_room(job)
    expected = JOBS[job]
    document = explained(on_pod(pod, recorded(job)[pod], "explain", "--format", "json", "--", "train.py"))

    facts = values(document)
    assert facts["node_rank"] == str(rank)
    assert {fact: facts.get(fact) for fact in expected["facts"]} == expected["facts"]
    found = sources(document)
    assert {fact: found.get(fact) for fact in expected["sources"]} == expected["sources"]
    assert document["granularity"] == "node"
    assert document["platform"] == expected["platform"]


@pytest.mark.parametrize("job", JOBS)
def test_the_run_id_is_equal_on_all_pods(on_pod, job):
    needs_room(job)
    run_ids = {
        values(explained(on_pod(pod, env, "explain", "--format", "json", "--", "train.py")))["run_id"]
        for pod, env in recorded(job).items()
    }
    # This matters: torchrun's static store prefixes its keys with the id, so nodes with two ids never meet. In
    # operator 1.3 the master gets "localhost" where its workers get the master's name.
    assert len(run_ids) == 1, run_ids


@pytest.mark.parametrize("job, rank, pod", PODS)
def test_torchrun_gets_the_same_in_spellings_that_every_version_knows(on_pod, job, rank, pod):
    needs_room(job)
    document = explained(
        on_pod(pod, recorded(job)[pod], "explain", "--format", "json", "--", "train.py", "--lr", "0.1")
    )
    facts = values(document)
    command = document["command"]
    assert "-u" in command[: command.index("-m")]
    assert command[command.index("-m") + 1] == "torch.distributed.run"

    flags, script = launcher_flags(command)
    assert script == ["train.py", "--lr", "0.1"]
    for fact in ("nnodes", "node_rank", "nproc_per_node", "master_addr", "master_port"):
        assert flags[fact] == facts[fact]
    assert flags["max_restarts"] == "0"
    assert flags.get("rdzv_backend", "static") == "static"
    assert flags.get("rdzv_id", facts["run_id"]) == facts["run_id"]
    assert not [flag for flag in flags if "-" in flag], "torch before 2.0 knows underscores only"


@pytest.mark.parametrize("job, rank, pod", PODS)
def test_a_program_gets_the_generic_variables_and_keeps_the_platforms(on_pod, job, rank, pod):
    needs_room(job)
    env = recorded(job)[pod]
    document = explained(on_pod(pod, env, "explain", "--format", "json", "--", "python", "mnist.py"))
    facts = values(document)
    assert document["command"] == ["python", "mnist.py"]
    changed = document["environment"]["set"]
    after = {name: value for name, value in env.items() if name not in document["environment"]["unset"]} | changed
    assert after["NNODES"] == "3"
    assert after["NODE_RANK"] == str(rank)
    assert after["NPROC_PER_NODE"] == facts["nproc_per_node"]
    assert after["MASTER_ADDR"] == facts["master_addr"]
    assert after["MASTER_PORT"] == after["PORT"] == facts["master_port"]
    if "RANK" in env:
        assert (after["RANK"], after["WORLD_SIZE"]) == (env["RANK"], env["WORLD_SIZE"])
    assert "LOCAL_RANK" not in after


@pytest.mark.parametrize("job", ["operator-1.4-elastic", "operator-1.7-elastic"])
def test_an_elastic_job_has_a_rendezvous_instead_of_ranks(network, rankshim, job):
    run_ids = set()
    for pod, env in recorded(job).items():
        node = network.node(pod)
        done = node.run([rankshim, "explain", "--format", "json", "--", "train.py"], env)
        document = explained(done)
        facts = values(document)
        assert (facts["nnodes"], facts["rdzv_backend"], facts["rdzv_endpoint"]) == (
            "1:3", "c10d", "job-worker-0:23456",
        )
        assert "node_rank" not in facts
        assert facts["rdzv_id"] == facts["run_id"]
        run_ids.add(facts["run_id"])

        flags, script = launcher_flags(document["command"])
        assert script == ["train.py"]
        assert flags["nnodes"] == "1:3"
        assert flags["rdzv_backend"] == "c10d"
        assert flags["rdzv_endpoint"] == "job-worker-0:23456"
        assert flags["rdzv_id"] == facts["rdzv_id"]
        assert flags["max_restarts"] == env["PET_MAX_RESTARTS"]
        # torch cannot guess which node hosts the store behind names: rankshim sets it.
        conf = dict(pair.split("=") for pair in flags["rdzv_conf"].split(","))
        assert conf["is_host"].lower() in (("true", "1") if pod == "job-worker-0" else ("false", "0"))
        # Two agents that are both PID 1 with one host name would be treated as one node.
        assert flags["local_addr"] == node.address
        if job == "operator-1.7-elastic":
            assert facts["run_id"] == "elastic-job"
            assert conf["last_call_timeout"] == "5"
            assert facts["nproc_per_node"] == "1"
        else:
            assert sources(document)["nproc_per_node"] == "env PET_N_PROC_PER_NODE"
            assert facts["nproc_per_node"] == "2"
    assert len(run_ids) == 1


def test_an_elastic_job_with_a_master_stays_elastic_though_it_has_ranks(on_pod):
    pods = recorded("operator-1.7-elastic-master")
    assert len(pods) > 1
    for pod, env in pods.items():
        document = explained(on_pod(pod, env, "explain", "--format", "json", "--", "train.py"))
        facts = values(document)
        assert (facts["nnodes"], facts["rdzv_backend"]) == ("2:3", "c10d")
        flags, _ = launcher_flags(document["command"])
        assert (flags["nnodes"], flags["rdzv_backend"]) == ("2:3", "c10d")
        assert "node_rank" not in facts and "node_rank" not in flags  # the rendezvous hands the ranks out
        assert facts["rdzv_endpoint"] == flags["rdzv_endpoint"]
        assert flags["max_restarts"] == "0"


@pytest.mark.parametrize("job", ["operator-1.7-elastic", "operator-1.7", "trainer-2"])
@pytest.mark.parametrize("command", [["train.py"], ["python", "mnist.py"]])
def test_no_pet_variable_stays_that_is_empty_or_has_another_value(shim, job, command):
    needs_room(job)
    env = recorded(job)[sorted(recorded(job))[1]] | {"PET_STANDALONE": "", "PET_RDZV_ID": ""}
    document = explained(shim("explain", "--format", "json", "--", *command, env=env))
    unset, changed = document["environment"]["unset"], document["environment"]["set"]
    after = {name: value for name, value in env.items() if name not in unset} | changed
    left = {name: value for name, value in after.items() if name.startswith("PET_")}
    assert "" not in left.values()
    facts = values(document)
    for name, value in left.items():
        fact = name.removeprefix("PET_").lower()
        assert facts.get(fact, value) == value, f"{name}={value} contradicts {facts}"


def test_explain_as_text_shows_values_sources_and_the_command(shim):
    env = recorded("operator-1.5")["job-worker-1"]
    done = shim("explain", "--", "train.py", env=env)
    assert done.code == 0
    for wanted in ("node_rank", "env RANK", "nnodes", "env WORLD_SIZE", "job-master-0", "torch.distributed.run"):
        assert wanted in done.stdout


def test_env_for_the_shell_gives_the_variables_that_a_command_would_get(shim, rankshim):
    env = recorded("operator-1.5")["job-worker-1"]
    done = shim("env", env=env)
    assert done.code == 0
    shell = run(["sh", "-c", f'eval "$("{rankshim}" env)"; echo "$NNODES $NODE_RANK $MASTER_ADDR $PORT"'],
                clean_environment(env))
    assert shell.stdout == "3 2 job-master-0 23456\n"


def test_what_rankshim_set_resolves_to_the_same_again(shim):
    env = recorded("operator-1.5")["job-worker-1"]
    first = explained(shim("explain", "--format", "json", "--", "python", "mnist.py", env=env))
    after = {name: value for name, value in env.items() if name not in first["environment"]["unset"]}
    after |= first["environment"]["set"]
    second = explained(shim("explain", "--format", "json", "--", "python", "mnist.py", env=after))
    assert values(second) == values(first)


def test_a_service_link_in_master_port_is_ignored_with_a_warning(shim):
    env = recorded("operator-1.7")["job-worker-0"] | {"MASTER_PORT": "tcp://10.0.0.1:80"}
    document = explained(shim("explain", "--format", "json", "--", "train.py", env=env))
    assert values(document)["master_port"] == "23456"
    assert any("MASTER_PORT" in json.dumps(warning) for warning in document["warnings"])


@pytest.mark.parametrize("reads, warned", [("--local_rank", True), ("--local_rank or LOCAL_RANK", False)])
def test_a_script_that_only_knows_local_rank_as_an_argument_is_warned_about(rankshim, tmp_path, reads, warned):
    (tmp_path / "train.py").write_text(f"# reads {reads}\n")
    done = run([rankshim, "explain", "--format", "json", "--", "train.py"], clean_environment(), cwd=tmp_path)
    assert any("--launcher" in warning for warning in explained(done)["warnings"]) == warned


@pytest.mark.parametrize("installed", ["python", "python3"])
def test_the_interpreter_is_whichever_the_image_has(rankshim, tmp_path, installed):
    (tmp_path / installed).symlink_to(sys.executable)
    here_only = ["env", f"PATH={tmp_path}", rankshim, "explain", "--format", "json", "--", "train.py"]
    done = run(here_only, clean_environment())
    assert pathlib.Path(explained(done)["command"][0]).name == installed


def test_the_interpreter_that_the_user_names_is_taken(shim):
    done = shim("explain", "--format", "json", "--python=/opt/conda/bin/python", "--", "-m", "pkg.train", "--lr", "1")
    document = explained(done)
    assert document["command"][0] == "/opt/conda/bin/python"
    assert launcher_flags(document["command"])[1][-2:] == ["--lr", "1"]
    assert "pkg.train" in document["command"]
    assert any("/opt/conda/bin/python" in warning for warning in document["warnings"]), "it is not there"
