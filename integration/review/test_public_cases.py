"""The manifests of public repositories (cases/public-*) do what rankshim-review says of them, by the pods' own
commands: python, torchrun, srun, mpirun and Ray are real, and run on nodes with their own names.

In place of the training, which is in the manifest's image, is join.py: it joins the others and adds up a one of each. A GPU is
a process on a CPU. vLLM and SGLang need GPUs: what starts them is real, and their servers only tell what they see.
In every CI the programs are stand-ins, which tell what they are given.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest
from examples.schema import mistakes
from examples.test_manifests import documents
from lib.mounts import over_tmp
from lib.mpi import OPEN_MPI, ssh
from lib.process import PATH, clean_environment
from lib.requirements import cannot
from rankshim_review.pods import ENTRYPOINT
from review.running import CASES, EXAMPLES, INSTALL, node, pods, review, said, words, workloads
from slurm.conftest import HERE as SLURM
from slurm.conftest import Cluster
from slurm.conftest import slurm as slurm  # a fixture

JOIN = (pathlib.Path(__file__).parent / "join.py").read_text()
RAY = pathlib.Path(sys.prefix) / "share" / "ray" / "bin"
LONG = 200
BYPASS, ALONE = ("warning", "bypass"), ("error", "bypass")


def really(test):
    """With real PyTorch, which takes seconds for each process."""
    return pytest.mark.nightly(pytest.mark.torch(pytest.mark.usefixtures("torch")(test)))


def case(name):
    (path,) = CASES.glob(f"public-{name}.*")
    return path


def programs(folder, rankshim, **more):
    """The variable PATH with a folder of these programs before everything."""
    for name, program in {"rankshim": rankshim, **more}.items():
        (folder / name).symlink_to(program)
    return f"{folder}:{PATH}"


OPERATOR = "rank $RANK of $WORLD_SIZE at $MASTER_ADDR:$MASTER_PORT"
FLAGS = "node ${PET_NODE_RANK:-0} of ${PET_NNODES:-1} at ${PET_MASTER_ADDR:-nobody}"
# What is said; which variables the program reads; what it is told in each pod; and what happens in each pod by the real program.
OWN = {
    "operator-simple": (BYPASS, OPERATOR, [
        f"python3 /opt/mnist/src/mnist.py --epochs=1: rank {rank} of 2 at simple-master-0:23456" for rank in range(2)], "together"),
    "kueue-pytorchjob": (BYPASS, OPERATOR, [
        f"python3 mnist.py --epochs=1: rank {rank} of 2 at simple-master-0:23456" for rank in range(2)], "together"),
    "volcano-pytorch": (BYPASS, OPERATOR, [
        f"python3 /workspace/mnist.py: rank {rank} of 3 at pytorch-job-master-0.pytorch-job:23456" for rank in range(3)], "together"),
    "operator-deepspeed": (BYPASS, FLAGS, [
        f"torchrun /train_bert_ds.py --checkpoint_dir /root/checkpoints: node {rank} of 2 at deepspeed-master-0"
        for rank in range(2)], "together"),
    "operator-elastic": (BYPASS, "${PET_NNODES} nodes meet at $PET_RDZV_ENDPOINT", [
        "python -m torch.distributed.run --rdzv_backend=c10d ./echo.py: 1:2 nodes meet at echo-worker-0:23456"] * 2, "together"),
    "trainer-multi-node": (BYPASS, FLAGS, [
        f"torchrun train.py: node {rank} of 3 at multi-node-node-0-0.multi-node" for rank in range(3)], "together"),
    "jobset-mnist": (BYPASS, "no variable", [
        f"torchrun --nnodes=4 --master_addr=pytorch-workers-0-0.pytorch --node_rank={rank} a.py: no variable"
        for rank in range(4)], "together"),
    "jobset-resnet": (ALONE, FLAGS, [
        "torchrun --rdzv_id=1 --master_addr=pytorch-workers-0-0.pytorch --master_port=3389 resnet.py --backend=gloo: "
        "node 0 of 1 at nobody"] * 4, "alone"),
    "appwrapper": (BYPASS, OPERATOR, [
        f"python3 /opt/mnist.py --epochs=1: rank {rank} of 2 at sample-master-0:23456" for rank in range(2)], "together"),
    "operator-torchrun": (BYPASS, FLAGS, [f"torchrun demo.py: node {rank} of 2 at cpu-master-0" for rank in range(2)], "together"),
    "volcano-cronjob": (ALONE, FLAGS, ["torchrun --nnodes=1 train.py: node 0 of 1 at nobody"] * 2, "alone"),
    "argo-volcano": (ALONE, FLAGS, [
        "python prepare.py: node 0 of 1 at nobody\ntorchrun --nproc_per_node=1 train.py: node 0 of 1 at nobody"] * 2, "alone"),
    "volcano-shell": (BYPASS, "no variable", [
        f"torchrun --nnodes=2 --nproc_per_node=8 --node_rank={rank} --master_addr=dit-worker-0.dit --master_port=23456 train.py: "
        "no variable" for rank in range(2)], "together"),
    "statefulset": (BYPASS, "no variable", [
        f"torchrun --nnodes=2 --nproc_per_node=4 --node_rank={rank} --master_addr=llmtrain-0.llmtrain --master_port=29500 -m llmtrain run: "
        "no variable" for rank in range(2)], "together"),
    "lws-torchrun": (BYPASS, "no variable", [
        f"torchrun --nnodes=2 --node_rank={rank} --nproc_per_node=8 --master_addr=trainer-0.trainer.default --master_port=29500 "
        "train.py: no variable" for rank in range(2)], "together"),
    "lws-sglang": (BYPASS, "no variable", [
        f"python3 -m sglang.launch_server --dist-init-addr=sglang-0.sglang.default:20000 --nnodes=2 --node-rank={rank}: no variable"
        for rank in range(2)], "together"),
}


@pytest.mark.parametrize("name", OWN)
def test_the_program_of_a_public_manifest_is_told_what_the_review_says(name, network, rankshim, tmp_path):
    expected, reads, told, _ = OWN[name]
    assert expected in said(rankshim, case(name))
    for program in ("python", "python3", "torchrun"):
        (tmp_path / program).write_text(f'#!/bin/sh\necho "{program} $*: {reads}"\n')
        (tmp_path / program).chmod(0o755)
    environment = {"PATH": programs(tmp_path, rankshim)}
    processes = [node.start(words(workload, pod), {**pod.environment, **environment})
                 for workload, pod, node in pods(network, case(name), True)]
    assert [(process.wait(), process.stdout.strip()) for process in processes] == [(0, line) for line in told]


# In place of SGLang's server: its flags, and the group that it makes of them.
SGLANG = """import sys
import torch.distributed as dist
given = dict(word[2:].split("=") for word in sys.argv[1:])
dist.init_process_group("gloo", init_method="tcp://" + given["dist-init-addr"], world_size=int(given["nnodes"]),
                        rank=int(given["node-rank"]))
""" + JOIN.replace('dist.init_process_group("gloo")\n', "")


def run(network, path, environment, folder, change=list):
    """Runs the pods of a manifest to their end by their own commands, with join.py as each script: what each one prints."""
    (folder / "join.py").write_text(JOIN)
    # There is no GPU here: one process in place of eight, and what only prepares has nothing to do.
    here = ((r"/rankshim/rankshim", "rankshim"), (r"python prepare\.py && ", ""), (r"(--nproc_per_node)=8", r"\1=1"),
            (r"[\w./]*\b\w+\.py\b", str(folder / "join.py")))
    processes = []
    for workload, pod, place in pods(network, path, True):
        command = words(workload, pod)
        for written, done in here:
            command = [re.sub(written, done, word) for word in command]
        variables = {**pod.environment, **environment, "OMP_NUM_THREADS": "1"}
        if variables.get("PET_NPROC_PER_NODE") == "auto":  # one for each CPU of this machine
            variables["PET_NPROC_PER_NODE"] = "1"
        processes.append(place.start(change(command), variables, cwd=folder))
    for process in processes:
        assert process.wait(LONG) == 0, process.transcript()
    return [sorted(line for line in process.stdout.splitlines() if line.startswith("rank ")) for process in processes]


def check(found, together):
    """Every node has one process; all are in one world, or each is alone in its own."""
    size = len(found)
    if together == "alone":
        assert found == [["rank 0 of 1, 1 together"]] * size
    else:  # torch's own rendezvous gives the ranks in any order
        assert sorted(line for lines in found for line in lines) == [f"rank {rank} of {size}, {size} together" for rank in range(size)]


ONE_PROCESS = {"operator-torchrun": {"PET_NPROC_PER_NODE": "1"}, "statefulset": {"GPUS_PER_NODE": "1"}}  # on each node


@really
@pytest.mark.parametrize("name", OWN)
def test_a_public_manifest_really_trains_as_the_review_says(name, network, rankshim, tmp_path):
    (tmp_path / "sglang").mkdir()
    (tmp_path / "sglang" / "launch_server.py").write_text(SGLANG)
    (tmp_path / "llmtrain.py").write_text(JOIN)
    environment = {"PATH": programs(tmp_path, rankshim), "PYTHONPATH": str(tmp_path), **ONE_PROCESS.get(name, {})}
    check(run(network, case(name), environment, tmp_path), OWN[name][3])


def test_a_jobsets_pods_with_rankshim_are_refused_as_the_review_says(network, rankshim, tmp_path):
    _, document = review(rankshim, case("jobset-resnet"))
    (finding,) = document["findings"]
    assert "put exec rankshim -- before torchrun (rankshim would then refuse this pod: JOB_COMPLETION_INDEX=0" in finding["text"]
    environment = {"PATH": programs(tmp_path, rankshim)}
    processes = [place.start(with_rankshim(words(workload, pod)), {**pod.environment, **environment})
                 for workload, pod, place in pods(network, case("jobset-resnet"), True)]
    assert [process.wait() for process in processes] == [78] * 4


def with_rankshim(command):
    """As the check `bypass` advises."""
    if command[0] == "bash":
        return [word.replace("torchrun ", "exec rankshim -- torchrun ") for word in command]
    return ["rankshim", "--", *command]


@really
def test_flags_that_no_shell_expands_end_torchrun_at_once(network, rankshim, tmp_path):
    assert said(rankshim, case("operator-megatron")) == {BYPASS}
    environment = {"PATH": programs(tmp_path, rankshim), "OMP_NUM_THREADS": "1"}
    processes = [place.start(words(workload, pod), {**pod.environment, **environment}, cwd=tmp_path)
                 for workload, pod, place in pods(network, case("operator-megatron"), True)]
    assert [(process.wait(LONG), "invalid int value: '$RANK'" in process.stderr) for process in processes] == [(2, True)] * 4


@really
def test_the_services_of_a_swarm_train_together_behind_the_images_entrypoint(network, rankshim, tmp_path):
    assert said(rankshim, case("compose-swarm")) == set()
    check(run(network, case("compose-swarm"), {"PATH": programs(tmp_path, rankshim)}, tmp_path,
              change=lambda command: ["rankshim", "--", *command[1:]]), "together")


@really
@pytest.mark.parametrize("name", ("operator-simple", "operator-deepspeed", "trainer-multi-node", "jobset-mnist", "jobset-resnet"))
def test_a_command_with_rankshim_trains_together(name, network, rankshim, tmp_path):
    environment = {"PATH": programs(tmp_path, rankshim), **({"NNODES": "4"} if name == "jobset-resnet" else {})}
    check(run(network, case(name), environment, tmp_path, change=with_rankshim), "together")


# The image's ENTRYPOINT is not in the manifest: the two that it may have.
@really
@pytest.mark.parametrize("entrypoint", ("python3 mnist.py", "rankshim -- mnist.py"))
def test_arguments_alone_are_those_of_the_images_entrypoint(entrypoint, network, rankshim, tmp_path):
    assert said(rankshim, case("operator-mnist")) == {("warning", "restarts"), ("warning", "shared_memory")}
    (tmp_path / "mnist.py").write_text(JOIN)
    check(run(network, case("operator-mnist"), {"PATH": programs(tmp_path, rankshim)}, tmp_path,
              change=lambda arguments: entrypoint.split() + arguments), "together")


TRAIN = [*(EXAMPLES / name for name in (
    "kubeflow-v1/job.yaml", "kubeflow-v1/elastic.yaml", "kubeflow-v2/trainjob.yaml", "kueue/job.yaml", "cube-studio/job.yaml",
    "restart/job.yaml", "modelarts-lite/job.yaml", "volcano/svc-env.yaml", "volcano/pytorch.yaml", "leaderworkerset/lws.yaml",
    "jobset/jobset.yaml", "indexed-job/job.yaml", "docker-compose/compose.yaml")),
         INSTALL / "compose/compose.yaml", INSTALL / "kustomize/example/job.yaml"]  # the last one is without rankshim


@really
@pytest.mark.parametrize("path", TRAIN, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_an_example_really_trains(path, network, rankshim, tmp_path):
    """One process on each node, where the example has a GPU for each of eight."""
    (tmp_path / "wget").write_text("#!/bin/sh\necho true >bootstrap.sh\n")  # of what comes before the start
    (tmp_path / "wget").chmod(0o755)
    environment = {"PATH": programs(tmp_path, rankshim), "RANKSHIM_NPROC_PER_NODE": "1"}
    check(run(network, path, environment, tmp_path), "together")


@really
def test_the_trainers_runtime_trains_with_its_processes(network, rankshim, tmp_path):
    found = run(network, case("trainer-runtime"), {"PATH": programs(tmp_path, rankshim)}, tmp_path)
    assert sorted(line for lines in found for line in lines) == [f"rank {rank} of 4, 4 together" for rank in range(4)]


@really
def test_torchruns_master_waits_for_the_node_that_is_refused(network, rankshim, tmp_path):
    (tmp_path / "train.py").write_text(JOIN)
    environment = {"PATH": programs(tmp_path, rankshim), "OMP_NUM_THREADS": "1", "RANKSHIM_WAIT_TIMEOUT": "5s"}
    master, worker = (node.start(words(workload, pod), {**pod.environment, **environment}, cwd=tmp_path)
                      for workload, pod, node in pods(network, case("compose-torchrun"), True))
    assert worker.wait() == 78
    assert master.wait() == 75 and "1 of 2 nodes did not join in time" in master.stderr


def test_the_api_server_refuses_a_template_that_is_not_filled_in(rankshim):
    assert said(rankshim, case("fsdp-template")) == {("error", "unreadable")}
    (document,) = documents(case("fsdp-template"))
    assert any("NUM_NODES" in mistake for mistake in mistakes(document))


@really
def test_a_template_that_is_filled_in_trains_together(network, rankshim, tmp_path):
    text = case("fsdp-template").read_text().replace("$NUM_NODES", "2").replace("$GPU_PER_NODE", "1")
    (tmp_path / "job.yaml").write_text(text.replace("/usr/local/bin/torchrun", "torchrun"))
    assert said(rankshim, tmp_path / "job.yaml") == {BYPASS}
    check(run(network, tmp_path / "job.yaml", {"PATH": programs(tmp_path, rankshim)}, tmp_path), "together")


def test_a_deployments_pod_starts_its_server_and_waits_for_nobody(network, rankshim, tmp_path):
    server = tmp_path / "vllm" / "entrypoints" / "openai" / "api_server.py"
    server.parent.mkdir(parents=True)
    server.write_text("import os, sys\nprint(sys.argv[1:], os.environ['NNODES'])\n")
    ((workload, pod, place),) = pods(network, case("deployment"), False)
    environment = {"PATH": programs(tmp_path, rankshim), "PYTHONPATH": str(tmp_path), **pod.environment}
    process = place.run(words(workload, pod), environment)
    assert (process.code, process.stdout) == (0, "[] 1\n"), process.transcript()


# The launch lines of other cases, by real torchruns without rankshim: what is said, and whether they train together.
LAUNCHED = {
    "standalone": (ALONE, "alone"),
    "ordinal-in-shell": (BYPASS, "together"),
    "public-jobset-gpu": (BYPASS, "together"),
}


@really
@pytest.mark.parametrize("name", LAUNCHED)
def test_a_launch_line_without_rankshim_trains_as_the_review_says(name, network, rankshim, tmp_path):
    expected, happens = LAUNCHED[name]
    assert expected in said(rankshim, CASES / f"{name}.yaml")
    environment = {"PATH": programs(tmp_path, rankshim)}
    check(run(network, CASES / f"{name}.yaml", environment, tmp_path,
              change=lambda command: [word.replace("--nproc_per_node=2", "") for word in command]), happens)


SOON = "--rdzv_conf=timeout=5,join_timeout=5,last_call_timeout=1"  # in place of torchrun's minutes


@really
@pytest.mark.parametrize(("name", "check"), [("both-rank-one", "agree"), ("localhost", "apart"), ("replicas-in-compose", "agree")])
def test_nodes_never_meet_where_the_review_says_so(name, check, network, rankshim, tmp_path):
    assert ("error", check) in said(rankshim, CASES / f"{name}.yaml")
    environment = {"PATH": programs(tmp_path, rankshim), "OMP_NUM_THREADS": "1"}
    (tmp_path / "train.py").write_text(JOIN)
    processes = []
    for workload, pod, place in pods(network, CASES / f"{name}.yaml", True):
        command = [word for word in words(workload, pod) if word not in ("", ENTRYPOINT)]  # an image without one
        processes.append(place.start([command[0], SOON, *command[1:]], {**pod.environment, **environment}, cwd=tmp_path))
    for process in processes:
        assert process.wait(LONG) == 1 and "together" not in process.stdout, process.transcript()


# An sbatch script of several real nodes: what is said, the number of nodes, and what its processes print, as it is and as advised.
PAIR, FOUR = ([f"rank {rank} of {size}, {size} together" for rank in range(size)] for size in (2, 4))
SBATCH = {
    "torchrun-in-srun": (ALONE, 4, ["rank 0 of 1, 1 together"] * 4, FOUR),
    "ddp": (BYPASS, 2, PAIR, PAIR),
    "tasks": (None, 2, FOUR, None),
    "task-shell": (BYPASS, 2, PAIR, PAIR),
    "fsdp": (BYPASS, 4, FOUR, FOUR),
}


@really
@pytest.mark.parametrize(("name", "advised"), [("torchrun-in-srun", False), ("torchrun-in-srun", True), ("ddp", False), ("ddp", True),
                                               ("tasks", False), ("task-shell", False),
                                               ("task-shell", True), ("fsdp", False)])
def test_a_public_batch_script_really_trains_as_the_review_says(name, advised, network, slurm, rankshim, tmp_path):
    expected, nodes, *happens = SBATCH[name]
    assert said(rankshim, case(name)) == ({expected} if expected else set())
    (tmp_path / "join.py").write_text(JOIN)
    if shutil.which("cc") is None or not pathlib.Path("/usr/include/slurm/spank.h").exists():
        cannot("missing: cc, slurm/spank.h (scripts/setup installs them)")
    plugin = tmp_path / "pyxis.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", plugin, SLURM / "pyxis.c"], check=True)
    machines = [network.node(f"node{number + 1}") for number in range(nodes)]
    cluster = Cluster(network.node("head"), tmp_path, machines=machines, plugins=f"required {plugin} registry.example nemo\n")
    script = re.sub(r"[\w./]*\b\w+\.py\b", str(tmp_path / "join.py"), case(name).read_text())
    # There is no GPU here; two tasks of eight, and one process of eight.
    for written, here in (("#SBATCH --gpus-per-node=8\n", ""), (" --gpus-per-node 2", ""), ("--ntasks-per-node=8", "--ntasks-per-node=2"),
                          ("--nproc-per-node gpu", "--nproc-per-node 1"), ("GPUS=8", "GPUS=1"), ("./venv/bin/", ""),
                          ("--nproc_per_node=8", "--nproc_per_node=1"), ("torchrun ", "rankshim -- torchrun " if advised else "torchrun ")):
        script = script.replace(written, here)
    code, lines = cluster.batch(script, environment={"PATH": programs(tmp_path, rankshim)}, nodes=nodes)
    assert code == 0, lines
    assert sorted(line.partition("rank ")[2] for line in lines if " together" in line) == [line[5:] for line in happens[advised]], lines


# In place of Horovod, which finds its processes by MPI; torch's need a master, and the first worker is one.
HOROVOD = """import os
os.environ.update(RANK=os.environ["OMPI_COMM_WORLD_RANK"], WORLD_SIZE=os.environ["OMPI_COMM_WORLD_SIZE"])
os.environ.update(MASTER_ADDR="FIRST", MASTER_PORT="29500")
""" + JOIN
PI = "#!/bin/sh\necho process $OMPI_COMM_WORLD_RANK of $OMPI_COMM_WORLD_SIZE on $(hostname)\n"
KEEP = {"OMPI_MCA_orte_keep_fqdn_hostnames": "true"}
MASTER_IS_UNKNOWN = 75
# The case; what is said; more variables of the launcher's; its exit code, and what the processes print.
MPI = {
    "horovod": ("public-mpi-horovod.yaml", set(), {}, 0, ["rank 0 of 2, 2 together", "rank 1 of 2, 2 together"]),
    "before-mpirun": ("public-mpi-rankshim-at-the-launcher.yaml", {("warning", "refused")}, {}, 0,
                      ["process 0 of 2 on pi-worker-0", "process 1 of 2 on pi-worker-1"]),
    "volcano": ("mpirun-in-volcano.yaml", {("warning", "note")}, {}, MASTER_IS_UNKNOWN, []),
    "volcano-whole-names": ("mpirun-in-volcano.yaml", {("warning", "note")}, KEEP, 0,
                            ["rank 0 of 2, 2 together", "rank 1 of 2, 2 together"]),
}


@really
@pytest.mark.parametrize("name", MPI)
def test_a_real_mpirun_does_what_the_review_says(name, network, rankshim, tmp_path):
    file, expected, more, code, happens = MPI[name]
    if (mpirun := shutil.which(OPEN_MPI[0], path=PATH)) is None:
        cannot(f"missing: {OPEN_MPI[0]} (scripts/setup installs it)")
    assert said(rankshim, CASES / file) == expected
    (workload,) = workloads(CASES / file)
    launcher, server = workload.pods[0], network.dns()
    first = node(network, launcher)
    hosts = {}
    for index in range(2):
        role = "worker" if workload.kind == "MPIJob" else "mpiworker"
        place = network.node(f"{workload.name}-{role}-{index}")
        full = f"{place.hostname}.{workload.name}.default.svc"
        place.hosts(f"127.0.0.1 localhost\n{place.address} {full}.cluster.local {place.hostname}\n")
        server.publish(f"{full}.cluster.local", place)
        hosts.update({place.hostname: place, f"{place.hostname}.{workload.name}": place, full: place})
    # The operator's /etc/mpi/hostfile; the launcher's root is this machine's.
    (tmp_path / "hostfile").write_text("".join(f"{host} slots=1\n" for host in hosts if host.endswith(".svc")))
    for script, text in (("mnist.py", HOROVOD), ("train.py", JOIN), ("pi", PI)):
        (tmp_path / script).write_text(text.replace("FIRST", next(iter(hosts.values())).address))
        (tmp_path / script).chmod(0o755)
    there = {"PATH": programs(tmp_path, rankshim, mpirun=mpirun), "OMP_NUM_THREADS": "1",
             "RANKSHIM_WAIT_TIMEOUT": "5s" if code else "10m"}
    environment = {**launcher.environment, **there, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                   "OMPI_MCA_plm_rsh_agent": ssh(tmp_path / "ssh", hosts, there), **more}
    environment.pop("OMPI_MCA_plm_rsh_args", None)  # those of the real ssh
    if workload.kind == "MPIJob":
        environment["OMPI_MCA_orte_default_hostfile"] = str(tmp_path / "hostfile")
    command = [re.sub(r"(/examples/|/home/mpiuser/|(?<= )(?=train\.py))", f"{tmp_path}/", word) for word in words(workload, launcher)]
    exact = [f"{variable}={value}" for variable, value in clean_environment(environment).items()]
    process = first.start_beside(["env", "-i", *exact, *command], name="launcher")
    assert process.wait(LONG) == code, process.transcript()
    assert sorted(line for line in process.stdout.splitlines() if line.startswith(("rank ", "process "))) == happens


SMALL = "--num-cpus=1 --object-store-memory=80000000"
# In place of vLLM's multi-node-serving.sh, which is in its image: the same two commands and the same question, asked more often.
SERVING = f"""case $1 in
leader)
  ray start --head --port=6379 {SMALL} --num-gpus=8 --include-dashboard=false
  until [ "$(python3 -c 'import ray; ray.init(); print(sum(node["Alive"] for node in ray.nodes()))')" = "${{2#*=}}" ]; do :; done ;;
worker) until ray start --address="${{2#*=}}:6379" --block {SMALL} --num-gpus=8; do :; done ;;
esac
"""
SEES = "import ray\nray.init()\nprint('sees', len(ray.nodes()), 'nodes', ray.cluster_resources().get('GPU', 0), 'GPUs')\n"
# Ray's sockets are in /tmp, and its store in /dev/shm, which are the pod's own.
POD = f"""{over_tmp("mount -t tmpfs tmpfs /tmp; mount -t tmpfs tmpfs /dev/shm")}
cat >/tmp/multi-node-serving.sh <<'END'
{SERVING}END
cat >/tmp/vllm.py <<'END'
{SEES}END
cd /tmp
exec "$@"
"""


@pytest.fixture
def ray(rankshim):
    """Starts a pod with Ray in its PATH: ray(POD, NODE, COMMAND)."""
    if not RAY.exists():
        cannot(f"missing: {RAY} (scripts/setup nightly makes it)")
    environment = {"PATH": f"{os.path.dirname(rankshim)}:{RAY}:{PATH}", "OMP_NUM_THREADS": "1", "RAY_USAGE_STATS_ENABLED": "0",
                   "HOME": "/tmp"}  # the pod's own: Ray leaves a token there

    def start(pod, place, command):
        return place.start(["bash", "-c", POD, "pod", *command], {**pod.environment, **environment})

    return start


@pytest.mark.nightly
@pytest.mark.parametrize("before", [[], ["rankshim", "--"]], ids=["as-it-is", "as-advised"])
def test_vllms_pods_really_join_one_ray(before, network, rankshim, ray):
    assert said(rankshim, case("lws-vllm")) == {BYPASS, ("warning", "shared_memory"), ("warning", "unread")}
    leader, worker = (ray(pod, place, [*before, *words(workload, pod)]) for workload, pod, place in pods(network, case("lws-vllm"), True))
    assert leader.wait(LONG) == 0, leader.transcript() + worker.transcript()
    assert "sees 2 nodes 16.0 GPUs" in leader.stdout.splitlines(), leader.transcript()


@pytest.mark.nightly
def test_a_worker_of_kuberays_gets_no_address_from_its_own_command_and_one_from_the_operators(network, rankshim, ray):
    """KubeRay replaces the command, unless the annotation says otherwise: then it is the manifest's own, which names no head."""
    assert said(rankshim, case("raycluster")) == {("warning", "note")}
    head, worker = network_of(network, "public-raycluster.yaml")
    own = ray(worker[1], worker[2], words(*worker[:2]))
    assert own.wait(LONG) == 1 and "is a required flag unless starting a head node" in own.stderr, own.transcript()
    started = ray(head[1], head[2], ["sh", "-c", f"{head[1].environment['KUBERAY_GEN_RAY_START_CMD']} {SMALL} --include-dashboard=false"])
    started.wait_line("Ray runtime started", LONG)
    joins = ray(worker[1], worker[2], ["sh", "-c", f"{worker[1].environment['KUBERAY_GEN_RAY_START_CMD']} {SMALL}"])
    joins.wait_line("Ray runtime started", LONG)


@pytest.mark.nightly
def test_a_raycluster_with_its_own_commands_starts_as_advised(network, rankshim, ray):
    assert said(rankshim, CASES / "raycluster-own-command.yaml") == set()
    for workload, pod, place in network_of(network, "raycluster-own-command.yaml"):
        command = [f"{word} --object-store-memory=80000000" if word.startswith("ray start") else word for word in words(workload, pod)]
        process = ray(pod, place, command)
        process.wait_line("Ray runtime started", LONG)
        assert "rankshim: starting sh" in process.stderr


def network_of(network, name):
    """The pods of a RayCluster, whose head has a Service."""
    server = network.dns()
    found = [(workload, pod, node(network, pod)) for workload in workloads(CASES / name) for pod in workload.pods]
    server.publish("ray-head-svc", found[0][2])
    return found
