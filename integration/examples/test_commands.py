"""The examples that are not Kubernetes manifests: each starts rankshim, and rankshim finds the whole job."""

import json
import pathlib
import re
import shlex
import subprocess

import pytest
import yaml

from examples.test_install import TOOLS
from examples.test_manifests import EXAMPLES, INSTALL
from lib.documents import shell
from lib.explain import explained, values
from lib.mounts import over_tmp
from lib.requirements import cannot

COMPOSE = TOOLS.parent / "compose" / "docker-compose"
STEP = {
    "SLURM_JOB_ID": "814", "SLURM_JOB_NUM_NODES": "3", "SLURM_JOB_NODELIST": "n[1-3]", "SLURM_NNODES": "3",
    "SLURM_NTASKS": "3", "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_NODES": "3", "SLURM_STEP_NODELIST": "n[1-3]",
    "SLURM_STEP_NUM_TASKS": "3", "SLURM_LOCALID": "0",
}


def handed_over(tmp_path, script, program):
    """The arguments that a script gives to `program`, a stand-in for what is not on this machine."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / program).write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    (folder / program).chmod(0o755)
    done = subprocess.run(["bash", script], env={"PATH": f"{folder}:/usr/bin:/bin"}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def after_rankshim(words):
    at = next(i for i, word in enumerate(words) if pathlib.Path(word).name == "rankshim")
    return words[at + 1:]


def facts_of(shim, words, variables):
    document = explained(shim("explain", "--format", "json", *words, env=variables))
    return document["platform"], values(document)


def check_nodes(shim, tmp_path, words, platform, nodes, master, variables):
    """`variables(RANK)` are those of one node."""
    script = next(word for word in words if word.endswith(".py"))
    (tmp_path / script).touch()
    words = [str(tmp_path / script) if word == script else word for word in words]
    for rank in range(nodes):
        found, facts = facts_of(shim, words, variables(rank))
        assert found == platform
        assert (facts["nnodes"], facts["node_rank"], facts["master_addr"]) == (str(nodes), str(rank), master)


@pytest.mark.parametrize("name", ["job", "pyxis", "apptainer"])
def test_a_slurm_script_starts_rankshim_in_its_step(shim, tmp_path, name):
    words = handed_over(tmp_path, EXAMPLES / "slurm" / f"{name}.sbatch", "srun")
    check_nodes(shim, tmp_path, after_rankshim(words), "slurm", 3, "n1",
                lambda rank: {**STEP, "SLURM_PROCID": str(rank), "SLURM_NODEID": str(rank)})


def test_arena_hands_the_command_to_a_shell_that_becomes_rankshim(shim, tmp_path):
    words = handed_over(tmp_path, EXAMPLES / "arena" / "submit.sh", "arena")
    assert words[:2] == ["submit", "pytorch"]
    command = shlex.split(words[-1])
    assert command.pop(0) == "exec"
    check_nodes(shim, tmp_path, after_rankshim(command), "kubeflow-pytorchjob", 3, "mnist-master-0", lambda rank: {
        "RANK": str(rank), "WORLD_SIZE": "3", "MASTER_ADDR": "mnist-master-0", "MASTER_PORT": "23456",
        "PET_NNODES": "3", "PET_NODE_RANK": str(rank), "PET_MASTER_ADDR": "mnist-master-0", "PET_MASTER_PORT": "23456",
    })


def test_skypilots_run_block_becomes_rankshim(shim, tmp_path):
    task = yaml.safe_load((EXAMPLES / "skypilot" / "task.yaml").read_text())
    command = shlex.split(task["run"])
    assert command.pop(0) == "exec"
    check_nodes(shim, tmp_path, after_rankshim(command), "skypilot", task["num_nodes"], "10.0.0.4", lambda rank: {
        "SKYPILOT_NODE_RANK": str(rank), "SKYPILOT_NODE_IPS": "10.0.0.4\n10.0.0.5\n10.0.0.6", "SKYPILOT_NUM_NODES": "3",
    })


COMPOSED = {EXAMPLES / "docker-compose" / "compose.yaml": "node-0", INSTALL / "compose" / "compose.yaml": "node-0",
            EXAMPLES / "docker-compose" / "two-machines.yaml": "gpu-a"}


@pytest.mark.parametrize("path, master", [pytest.param(path, master, id=f"{path.parent.name}/{path.name}") for path, master in COMPOSED.items()])
def test_each_service_of_compose_is_a_node(shim, tmp_path, path, master):
    services = yaml.safe_load(path.read_text())["services"]
    nodes = [services[name] for name in sorted(services) if name.startswith("node-")]
    (words,) = {(*service["entrypoint"], *service["command"]) for service in nodes}
    check_nodes(shim, tmp_path, after_rankshim(words), "generic", 2, master, lambda rank: nodes[rank]["environment"])
    # A service is found by its name in a network of compose's own, and not at all on a machine's.
    assert {service.get("network_mode", service.get("hostname")) for service in nodes} in ({"node-0", "node-1"}, {"host"})


def test_the_command_for_each_of_two_machines_names_a_service_of_the_file(tmp_path):
    """Its images and GPUs are a user's: docker compose reads the file, and starts nothing."""
    if not COMPOSE.exists():
        cannot(f"missing: {COMPOSE} (scripts/setup puts it there)")
    (tmp_path / "docker").write_text(f'#!/bin/sh\n[ "$1" = compose ] && shift && exec "{COMPOSE}" "$@"\n')
    (tmp_path / "docker").chmod(0o755)
    command = shell("docs/compose.md", "Two machines").text
    assert command.endswith(" up node-0\n")
    for rank in range(2):
        script = command.replace(" up node-0", f" config --no-interpolate node-{rank}")
        done = subprocess.run(["bash", "-ec", script], env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, cwd=EXAMPLES.parent, capture_output=True,
                              text=True)
        assert done.returncode == 0, done.stderr
        node = yaml.safe_load(done.stdout)["services"][f"node-{rank}"]
        assert (node["network_mode"], node["environment"]["NODE_RANK"]) == ("host", str(rank))


def test_two_machines_on_their_own_networks_are_one_job(network, rankshim, tmp_path):
    """A container with `network_mode: host` has its machine's network and name, as these processes have."""
    (tmp_path / "rankshim").symlink_to(rankshim)
    (tmp_path / "train.py").write_text("import os, sys\nprint('node %(NODE_RANK)s of %(NNODES)s at %(MASTER_ADDR)s' % os.environ, sys.argv[1:])\n")
    services = yaml.safe_load((EXAMPLES / "docker-compose" / "two-machines.yaml").read_text())["services"]
    machines, dns = [network.node("gpu-a"), network.node("gpu-b")], network.dns()
    running = []
    for rank, machine in reversed(list(enumerate(machines))):  # the second one first: it waits
        service = services[f"node-{rank}"]
        environment = {**service["environment"], "RANKSHIM_LAUNCHER": "native", "PATH": f"{tmp_path}:/usr/bin:/bin"}
        running.append(machine.start([*service["entrypoint"], *service["command"]], environment, cwd=tmp_path))
    dns.publish("gpu-a", machines[0])
    for rank, process in enumerate(reversed(running)):
        assert process.wait(60) == 0, process.transcript()
        assert f"node {rank} of 2 at gpu-a ['--epochs', '10']" in process.stdout.splitlines()


@pytest.mark.parametrize("path", COMPOSED, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_docker_compose_takes_the_file(path):
    if not COMPOSE.exists():
        cannot(f"missing: {COMPOSE} (scripts/setup puts it there)")
    done = subprocess.run([COMPOSE, "--file", path, "config", "--quiet"], env={"PATH": "/usr/bin:/bin"}, capture_output=True, text=True)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@pytest.mark.parametrize("path", [EXAMPLES / "docker-compose", INSTALL / "compose"], ids=lambda path: path.name)
def test_no_two_services_of_compose_have_the_same_gpu(path):
    services = yaml.safe_load((path / "compose.yaml").read_text())["services"]
    devices = [service["deploy"]["resources"]["reservations"]["devices"] for service in services.values() if "deploy" in service]
    used = [gpu for (device,) in devices for gpu in device["device_ids"]]
    assert len(devices) == 2 and len(set(used)) == len(used) == 4
    assert all(device["capabilities"] == ["gpu"] for (device,) in devices)


def test_the_compose_file_of_install_brings_rankshim_first():
    services = yaml.safe_load((INSTALL / "compose" / "compose.yaml").read_text())["services"]
    assert services["rankshim"]["command"] == ["install", "/target"]
    (volume,) = (mount.split(":")[0] for mount in services["rankshim"]["volumes"])
    for name in ("node-0", "node-1"):
        assert services[name]["depends_on"] == {"rankshim": {"condition": "service_completed_successfully"}}
        assert services[name]["volumes"] == [f"{volume}:/rankshim:ro"]


def test_each_process_of_mpirun_is_a_worker(shim, tmp_path):
    job = yaml.safe_load((EXAMPLES / "mpi" / "mpijob.yaml").read_text())["spec"]["mpiReplicaSpecs"]
    (launcher,) = job["Launcher"]["template"]["spec"]["containers"]
    assert launcher["command"][0] == "mpirun"
    (tmp_path / "train.py").touch()
    words = [word.replace("train.py", str(tmp_path / "train.py")) for word in after_rankshim(launcher["command"])]
    platform, facts = facts_of(shim, words, {
        "OMPI_COMM_WORLD_SIZE": "24", "OMPI_COMM_WORLD_RANK": "9", "OMPI_COMM_WORLD_LOCAL_RANK": "1",
        "OMPI_COMM_WORLD_LOCAL_SIZE": "8", "MASTER_ADDR": "mnist-worker-0.mnist", "MASTER_PORT": "29500",
    })
    assert platform == "open-mpi"
    assert (facts["world_size"], facts["rank"], facts["local_rank"]) == ("24", "9", "1")


def test_sagemakers_image_finds_the_job_in_the_file(shim, rankshim, tmp_path):
    dockerfile = (EXAMPLES / "sagemaker" / "Dockerfile").read_text()
    words = json.loads(re.search(r"^ENTRYPOINT (.*)$", dockerfile, re.M)[1])
    assert words[0] == "rankshim"
    config = {"current_host": "algo-2", "hosts": ["algo-1", "algo-2", "algo-3"]}
    inside = (
        "mount -t tmpfs none /opt && mkdir -p /opt/ml/input/config && "
        'printf "%s" "$0" >/opt/ml/input/config/resourceconfig.json && cd "$1" && shift && exec "$@"'
    )
    (tmp_path / "train.py").touch()
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", inside, json.dumps(config), tmp_path,
         rankshim, "explain", "--format", "json", *words[1:], "train"],
        env={"PATH": "/usr/bin:/bin", "TRAINING_JOB_NAME": "mnist-1"}, capture_output=True, text=True,
    )
    if "unshare failed" in done.stderr or "permission denied" in done.stderr:
        cannot(f"no mount namespace: {done.stderr}")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    facts = values(document)
    assert document["platform"] == "sagemaker"
    assert (facts["nnodes"], facts["node_rank"], facts["master_addr"]) == ("3", "1", "algo-1")
    assert document["command"][-2:] == ["train.py", "train"]


def test_a_node_of_ray_is_run_as_it_is_beneath_rankshim(shim, tmp_path):
    """A stand-in for rankshim shows how the script calls it."""
    words = handed_over(tmp_path, EXAMPLES / "ray" / "node.sh", "rankshim")
    document = explained(shim("explain", "--format", "json", *words, env={"RANK": "1", "WORLD_SIZE": "2"}))
    assert document["command"][:3] == ["ray", "start", "--block"]
    assert document["topology"]["nnodes"]["value"] == "1"


def test_the_hook_of_modelarts_lite_changes_rank_and_master_before_they_are_read(rankshim, tmp_path):
    job = yaml.safe_load((EXAMPLES / "modelarts-lite" / "job.yaml").read_text())["spec"]["tasks"][0]["template"]
    (container,) = job["spec"]["containers"]
    *words, script = after_rankshim(container["command"])
    assert script == "train.py"
    (tmp_path / "bin").mkdir()
    # What the route planner's script leaves.
    (tmp_path / "bin" / "wget").write_text(
        "#!/bin/sh\necho 'echo 2 >/tmp/RANK_AFTER_ACC; echo 3 >/tmp/MASTER_INDEX' >bootstrap.sh\n"
    )
    (tmp_path / "bin" / "wget").chmod(0o755)
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-ec", over_tmp('mount --bind "$0" /tmp') + 'cd /tmp; exec "$@"', tmp_path,
         rankshim, "--wait", "none", *words, "sh", "-c", "echo $NODE_RANK of $NNODES, $MASTER_ADDR"],
        env={
            "PATH": "/tmp/bin:/usr/bin:/bin", "MA_NUM_HOSTS": "6", "MA_NUM_GPUS": "8", "MA_VJ_NAME": "llm",
            "MA_TASK_NAME": "worker", "VC_TASK_INDEX": "4", "OPEN_SCRIPT_ADDRESS": "https://example.invalid",
        },
        capture_output=True, text=True,
    )
    if "unshare failed" in done.stderr or "permission denied" in done.stderr:
        cannot(f"no mount namespace: {done.stderr}")
    assert (done.returncode, done.stdout) == (0, "2 of 6, llm-worker-3.llm\n"), done.stderr
