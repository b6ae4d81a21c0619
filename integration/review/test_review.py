"""The command: kinds of input, formats, exit codes, and what a hostile file may do."""

import io
import json
import os
import pathlib
import re
import subprocess
import sys

import pytest
from rankshim_review.__main__ import main
from rankshim_review.command import expand, find, parse
from rankshim_review.shell import Shell
from rankshim_review.source import documents

HERE = pathlib.Path(__file__).resolve().parent
CASES = HERE / "cases"
REPOSITORY = HERE.parents[1]
PACKAGE = REPOSITORY / "review"

POD = """apiVersion: v1
kind: Pod
metadata: {name: mnist}
spec:
  containers:
    - name: main
      command: [rankshim, --, train.py]
"""


@pytest.fixture
def write(tmp_path):
    def make(text, name="manifest.yaml"):
        path = tmp_path / name
        path.write_text(text)
        return path

    return make


def review_text(review, path, *words):
    code, out, err = review(*words, path)
    return code, out.replace(f"{path}:", "FILE:"), err


def test_the_table_has_a_row_for_each_pod(review):
    code, out, err = review_text(review, REPOSITORY / "examples/kubeflow-v1/job.yaml")
    assert (code, err) == (0, "")
    assert [line.split() for line in out.splitlines()[:5]] == [
        ["FILE:4:", "PyTorchJob", "mnist,", "3", "pods,", "platform", "kubeflow-pytorchjob"],
        ["pod", "node", "rank", "nnodes", "workers", "master", "port", "launcher"],
        *(f"{pod} {rank} 3 8 mnist-master-0 23456 torchrun".split()
          for rank, pod in enumerate(["mnist-master-0", "mnist-worker-0", "mnist-worker-1"])),
    ]


def test_what_differs_is_marked(review, write):
    """Nodes of one job that are told of different ports; one of them has two more GPUs."""
    path = write("""services:
  one: &node
    entrypoint: [rankshim, --]
    command: train.py
    environment: &job {NNODES: "2", NODE_RANK: "0", MASTER_ADDR: one, MASTER_PORT: "1000"}
  two: {<<: *node, environment: {<<: *job, NODE_RANK: "1", MASTER_PORT: "2000"}}
""")
    code, out, _ = review_text(review, path)
    assert code == 78 and "the pods do not agree on port: 1000, 2000" in out
    assert re.search(r"^  two .* 2000 \(differs\)", out, re.M)


def test_stdin_and_a_list_of_kubectl_are_read(review, monkeypatch):
    pods = [{
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": f"job-worker-{index}", "labels": {"training.kubeflow.org/job-name": "job"},
                     "ownerReferences": [{"kind": "PyTorchJob", "name": "job"}]},
        "spec": {"containers": [{"name": "pytorch", "command": ["rankshim", "--", "train.py"], "env": [
            {"name": name, "value": value} for name, value in {
                "MASTER_ADDR": "job-master-0", "MASTER_PORT": "23456", "WORLD_SIZE": "2", "RANK": str(index)}.items()]}]},
        "status": {"phase": "Running"},
    } for index in range(2)]
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": pods})
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    code, out, _ = review("--format", "json", "-")
    (job,) = json.loads(out)["jobs"]
    assert (code, job["file"], job["kind"], job["name"]) == (0, "stdin", "Pods of", "job")
    assert [(pod["node_rank"], pod["nnodes"], pod["platform"]) for pod in job["pods"]] == [
        ("0", "2", "kubeflow-pytorchjob"), ("1", "2", "kubeflow-pytorchjob")]


def test_github_shows_a_finding_at_its_line(review):
    case = CASES / "shm.yaml"
    code, out, _ = review("--format", "github", case)
    assert code == 0
    assert re.fullmatch(rf"::warning file={case},line=11,title=rankshim-review::/dev/shm has 64 MiB.*\n", out)


def test_a_file_without_a_job_is_no_failure(review, write):
    code, out, err = review(write("apiVersion: v1\nkind: ConfigMap\ndata: {}\n"))
    assert (code, out) == (0, "") and err.startswith("rankshim-review: nothing to review")


@pytest.mark.parametrize("words", [[], ["--format", "xml", "a"], ["--no-such-option", "a"], ["/no/such/file"]])
def test_wrong_usage_is_64_in_one_line(review, words):
    code, out, err = review(*words)
    assert (code, out) == (64, "")
    assert re.fullmatch(r"rankshim-review: error: .+\n", err)


def test_a_binary_that_is_none_is_71(review):
    code, _, err = review("--rankshim", "/bin/true", CASES / "shm.yaml")
    assert (code, err.count("\n")) == (71, 1)


@pytest.mark.parametrize("words", [["trace"], ["collect"]])
def test_the_other_subcommands_are_named_in_the_help(review, words):
    assert f"rankshim-review {words[0]}" in review("--help")[1]


def test_the_containers_own_options_count(review, write):
    path = write(POD.replace("[rankshim, --,", "[rankshim, --nnodes, '3', --node-rank=1, --master-addr, $(WHERE), --,")
                 + "      env: [{name: WHERE, value: node-0}]\n")
    _, out, _ = review("--format", "json", path)
    (pod,) = json.loads(out)["jobs"][0]["pods"]
    assert (pod["nnodes"], pod["node_rank"], pod["master"]) == ("3", "1", "node-0")


def test_a_configuration_and_a_profile_come_from_config_maps(review, write):
    path = write(POD + """      volumeMounts: [{name: c, mountPath: /etc/rankshim.toml, subPath: rankshim.toml}]
  volumes: [{name: c, configMap: {name: rankshim}}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: rankshim}
data: {rankshim.toml: "nnodes = 2\\nnode-rank = 1\\nmaster-addr = 'a'\\n"}
""")
    _, out, _ = review("--format", "json", path)
    (pod,) = json.loads(out)["jobs"][0]["pods"]
    assert (pod["nnodes"], pod["node_rank"], pod["master"]) == ("2", "1", "a")


def test_a_service_named_master_does_not_hide_the_port(review, write):
    """Its service link is MASTER_PORT=tcp://…, which the binary warns of."""
    path = write(POD + "      env: [{name: NNODES, value: '2'}, {name: NODE_RANK, value: '1'}, {name: MASTER_ADDR, value: master}]\n"
                 "---\napiVersion: v1\nkind: Service\nmetadata: {name: master}\nspec: {ports: [{port: 80}]}\n")
    _, out, _ = review("--format", "json", path)
    assert any("service link" in finding["text"] for finding in json.loads(out)["findings"])


SHELL = {
    "exec rankshim -- train.py": (["--", "train.py"], {}),
    "pip install -r a.txt && rankshim --grace 5s train.py; echo done": (["--grace", "5s", "train.py"], {}),
    "export NNODES=3 # nodes\nNODE_RANK=1 rankshim -- train.py": (["--", "train.py"], {"NNODES": "3", "NODE_RANK": "1"}),
    "srun --container-image=a#b --bind /opt/rankshim \\\n  /opt/rankshim/rankshim -- rankshim": (["--", "rankshim"], {}),
    "rankshim --nnodes $N -- train.py": (["--nnodes", "4", "--", "train.py"], {}),
}


@pytest.mark.parametrize("text", SHELL)
def test_rankshim_is_found_in_a_shells_command(text):
    found = parse(["bash", "-ec", text], {"N": "4"})
    assert (found.after, found.environment) == SHELL[text]


# What a shell starts, wherever in its script that is: the words, its launch line, and the line's number.
LAUNCHES = {
    "cd /work\ntorchrun train.py\n": (["torchrun", "train.py"], 2),
    "srun -N2 torchrun a.py; echo done": (["torchrun", "a.py"], 1),
    "torchrun --nnodes 2 a.py 2>&1 | tee log && echo ok || exit 3": (["torchrun", "--nnodes", "2", "a.py"], 1),
    "srun python train.py\nwait": (["python", "train.py"], 1),
    "export A=1; time numactl -N 0 torchrun a.py &\nwait": (["torchrun", "a.py"], 1),
    "python prepare.py\nfor i in 1 2; do accelerate launch b.py; done": (["accelerate", "launch", "b.py"], 2),
    "ARGS='--nnodes 2 --node_rank 1'\ntorchrun $ARGS a.py": (["torchrun", "--nnodes", "2", "--node_rank", "1", "a.py"], 2),
    "ARGS=(--nnodes $N)\nARGS+=(--x 'a b')\ntorchrun ${ARGS[@]} a.py": (["torchrun", "--nnodes", "4", "--x", "a b", "a.py"], 3),
    "CMD='torchrun a.py'\neval $CMD": (["torchrun", "a.py"], 2),
    "read -r -d '' cmd <<END\ntorchrun --nnodes $N a.py\nEND\nsrun bash -c \"${cmd}\"": (["torchrun", "--nnodes", "4", "a.py"], 4),
    "srun bash <<'END'\npip list\ntorchrun --node_rank ${HOSTNAME##*-} a.py\nEND\n": (["torchrun", "--node_rank", "7", "a.py"], 1),
    "bash -c \"bash -c 'deepspeed a.py'\"": (["deepspeed", "a.py"], 1),
    "bash -o pipefail -c 'torchrun a.py'": (["torchrun", "a.py"], 1),
    "bash -eu -o pipefail -O extglob --rcfile /dev/null -c 'torchrun a.py' x": (["torchrun", "a.py"], 1),
    "bash -euo pipefail -c 'torchrun a.py | tee log'": (["torchrun", "a.py"], 1),
    "bash +o errexit -ec -- 'torchrun a.py'": (["torchrun", "a.py"], 1),
    "module load deepspeed; conda activate composer\nsrun torchrun a.py": (["torchrun", "a.py"], 2),
    ": ${DATA:=/fsx/deepspeed}\ntorchrun a.py": (["torchrun", "a.py"], 2),
    "srun conda run -n deepspeed torchrun a.py": (["torchrun", "a.py"], 1),
    "conda run -p /envs/deepspeed python -u a.py": (["python", "-u", "a.py"], 1),
    "sudo -n torchrun a.py": (["torchrun", "a.py"], 1),
    "time -p torchrun a.py": (["torchrun", "a.py"], 1),
    "axolotl preprocess a.yaml && axolotl train a.yaml": (["axolotl", "train", "a.yaml"], 1),
    "if [ -f x ]; then torchrun one.py; fi\ntorchrun two.py": (["torchrun", "two.py"], 2),
    "python -m torch.distributed.run a.py": (["python", "-m", "torch.distributed.run", "a.py"], 1),
    "which torchrun\npip install deepspeed\necho torchrun a.py\n./tools/dist_train.sh cfg 8": (["./tools/dist_train.sh", "cfg", "8"], 4),
    "cat <<END >run.sh\ntorchrun a.py\nEND\npython ${SCRIPT:-b.py}": (["python", "b.py"], 4),
}


@pytest.mark.parametrize("text", LAUNCHES)
def test_a_launch_line_is_found_in_every_statement(text):
    found = find(text, Shell({"N": "4", "HOSTNAME": "job-7"}))
    assert (found.launch, found.line) == LAUNCHES[text]


@pytest.mark.parametrize(("text", "launch"), [
    ("M=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1)\ntorchrun --master_addr $M a.py", "n1"),
    ("nodes=( $( scontrol show hostnames $SLURM_JOB_NODELIST ) )\ntorchrun --master_addr ${nodes[0]} a.py", "n1"),
    ("torchrun --master_addr $(hostname -s) a.py", "n1"),
    ("srun bash -c 'torchrun --master_addr $(hostname) a.py'", "$(hostname)"),
    ("srun bash -c 'torchrun --master_addr $SLURM_PROCID a.py'", "1"),
    ("srun torchrun --master_addr $SLURM_PROCID a.py", "0"),
    ("M=a\nif x; then M=b; fi\ntorchrun --master_addr $M a.py", "$M"),
])
def test_a_batch_scripts_words_are_worked_out_once_and_those_of_a_steps_shell_on_each_node(text, launch):
    shell = Shell({"SLURM_PROCID": "0", "SLURM_JOB_NODELIST": "n[1-2]"}, "n1", ("n1", "n2"))
    assert find(text, shell, {"SLURM_PROCID": "1"}).launch == ["torchrun", "--master_addr", launch, "a.py"]


@pytest.mark.parametrize("text", [
    "NODES - 1", "$NODES * (GPUS + 2)", "-7 / 2", "-7 % 2", "7 / -2", "((2)) - -3", "${NODES}0 + 4294967296 * 2",
])
def test_a_sum_is_worked_out_as_bash_does(text):
    variables = {"NODES": "4", "GPUS": "8"}
    done = subprocess.run(["bash", "-c", f"echo $(({text}))"], env=variables, capture_output=True, text=True)
    assert find(f"torchrun $(({text}))", Shell(variables)).launch == ["torchrun", done.stdout.strip()]


@pytest.mark.parametrize("text", [
    "RANDOM % 9", "NODES / 0", "NODES ** 99", "1 ? 2 : 3", "9223372036854775807 + 1", "LINE + 1", "010 + NODES", f"{'(' * 60}1{')' * 60}",
])
def test_what_only_a_shell_knows_of_a_sum_stays_as_it_is_written(text):
    assert find(f"torchrun $(({text}))", Shell({"NODES": "4", "LINE": "1 + 1"})).launch == ["torchrun", f"$(({text}))"]


@pytest.mark.parametrize("words", [
    "tini -- rankshim -- torchrun a.py",
    "apptainer exec --bind /opt/rankshim i /opt/rankshim/rankshim -- torchrun a.py",
])
def test_rankshim_is_found_behind_another_programs_dashes(words):
    assert parse(words.split(), {}).after == ["--", "torchrun", "a.py"]


@pytest.mark.parametrize(("command", "unread"), [
    ("[sleep, '100']", False), ("[sh, -c, 'echo a; sleep 1']", False), ("[bash, /work/train.sh]", True),
    ("[sh, -c, 'cd x && ./run.sh']", True), ("[/app/start]", True),
])
def test_what_a_command_hides_is_told_and_what_is_all_there_is_not(command, unread, review, write):
    path = write("apiVersion: batch/v1\nkind: Job\nmetadata: {name: j}\nspec:\n  completionMode: Indexed\n  completions: 2\n"
                 "  parallelism: 2\n"
                 f"  template: {{spec: {{containers: [{{name: a, image: a, command: {command}}}]}}}}\n")
    code, out, _ = review("--strict", path)
    assert (code, "not reviewed" in out) == ((1, True) if unread else (0, False))


@pytest.mark.parametrize("kinds", [
    "Service, v1", "ConfigMap, v1", "Queue, scheduling.volcano.sh/v1beta1", "Role, rbac.authorization.k8s.io/v1",
])
def test_an_object_without_pods_is_no_warning(kinds, review, write):
    kind, version = kinds.split(", ")
    assert review("--strict", write(f"apiVersion: {version}\nkind: {kind}\nmetadata: {{name: a}}\n"))[0] == 0


def test_variables_are_expanded_as_kubernetes_does():
    assert expand("$(A) $(B) $$(A) $A", {"A": "1"}) == "1 $(B) $(A) $A"


def chain(form, links):
    lines = ["a0: &a0 {k: v}"]
    return "\n".join(lines + [form % (at, at, *[at - 1] * 9) for at in range(1, links)]) + "\n"


HOSTILE = {
    "deep": ("[" * 5000, "nested more than 100 deep"),
    "deep-block": ("\n".join("  " * at + "a:" for at in range(200)), "nested more than 100 deep"),
    "merges": (chain("a%d: &a%d {<<: [*a%d, *a%d, *a%d, *a%d, *a%d, *a%d, *a%d, *a%d, *a%d]}", 12), "copies more than"),
    "itself": ("a: &a [*a]\nkind: Pod\napiVersion: v1\nspec: *a\n", "found unconstructable recursive node"),
    "replicas": ("apiVersion: apps/v1\nkind: StatefulSet\nspec: {replicas: 99999999999}\n", "more than 10000 is not read"),
    "digits": (f"a: {'9' * 5000}\n", "a number of 5000 letters"),
    "negative": ("apiVersion: apps/v1\nkind: StatefulSet\nspec: {replicas: -1}\n", "a whole number is expected"),
    "list-for-mapping": ("apiVersion: batch/v1\nkind: Job\nspec: [1]\n", "spec is [1]: a mapping is expected"),
    "text-for-list": ("apiVersion: v1\nkind: Pod\nspec: {containers: many}\n", "spec.containers is 'many': a list is expected"),
    "number-for-name": ("apiVersion: v1\nkind: Pod\nspec: {containers: [{command: [{a: b}]}]}\n", "a text is expected"),
    "control": ("a: \x01\n", "not YAML"),
    "template": ("a: 1\n{{- if .Values.x }}\n", "helm template"),
    "latin": ("a: [\n", "not YAML"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_or_broken_file_is_one_line_with_its_place(name, review, write):
    text, said = HOSTILE[name]
    path = write(text)
    code, out, err = review_text(review, path)
    lines = [line for line in out.splitlines() if "error: " in line]
    assert code == 78 and len(lines) == 1 and re.match(r"FILE:\d+: error: ", lines[0]), out
    assert said in lines[0] and "Traceback" not in out + err


def test_aliases_cost_nothing():
    """A billion of laughs: the list is shared, and nothing counts its ends."""
    text = "a0: &a0 [lol]\n" + "".join(f"a{at}: &a{at} [{', '.join([f'*a{at - 1}'] * 9)}]\n" for at in range(1, 30))
    (document,) = documents("bomb", text)
    assert set(document.value) == {f"a{at}" for at in range(30)}


def test_a_documents_mistake_does_not_hide_the_others(review, write):
    path = write(POD + "---\napiVersion: apps/v1\nkind: StatefulSet\nspec: {replicas: many}\n")
    code, out, _ = review("--format", "json", path)
    assert code == 78 and len(json.loads(out)["jobs"]) == 1


def test_thousands_of_pods_are_looked_at_by_their_first_and_last(review, write):
    path = write("""apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: big}
spec:
  pytorchReplicaSpecs:
    Master: &pods {template: {spec: {containers: [{name: pytorch, command: [rankshim, --, train.py]}]}}}
    Worker: {<<: *pods, replicas: 9999}
""")
    _, out, _ = review("--format", "json", path)
    (job,) = json.loads(out)["jobs"]
    assert job["pods_in_all"] == 10000 and [pod["node_rank"] for pod in job["pods"]] == ["0", "1", "2", "3", "4", "9998", "9999"]


def test_more_pods_than_are_looked_at_are_an_error_and_not_hours(review, write):
    many = "".join(f"---\napiVersion: v1\nkind: Pod\nmetadata: {{name: p{at}, labels: {{job-name: j}}}}\n"
                   "spec: {containers: [{command: [rankshim, --, a]}]}\n" for at in range(1001))
    code, out, _ = review("--format", "json", write(many))
    (finding,) = json.loads(out)["findings"]
    assert code == 78 and "more than 1000 pods" in finding["text"]


def test_names_cannot_draw_on_the_terminal_or_leave_the_pods_root(review, write, tmp_path):
    path = write('''apiVersion: v1
kind: Pod
metadata: {name: "a\\e[2Jb"}
spec:
  containers:
    - command: [rankshim, --, train.py]
      volumeMounts: [{name: c, mountPath: /../../../../..TMP/out}]
  volumes: [{name: c, configMap: {name: c}}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: c}
data: {"../escaped": text}
'''.replace("TMP", str(tmp_path)))
    _, out, err = review(path)
    assert "\x1b" not in out + err and "\\x1b[2J" in out
    assert not list(tmp_path.rglob("*escaped"))


def test_the_module_is_a_command(rankshim, binary):
    done = subprocess.run([sys.executable, "-m", "rankshim_review", "--rankshim", rankshim, CASES / "alone.yaml"],
                          cwd=PACKAGE, capture_output=True, text=True)
    assert done.returncode == 78 and "would train alone" in done.stdout and done.stderr == ""


def test_a_folder_is_refused_with_what_to_name_instead(review):
    assert review(f"{CASES}/") == (64, "", f"rankshim-review: error: {CASES} is a folder; name the files in it: "
                                          f"rankshim-review {CASES}/*.yaml\n")


def test_pods_that_are_no_nodes_of_one_job_do_not_differ(review):
    assert "(differs)" not in review(CASES / "public-raycluster.yaml")[1]
    assert "(differs)" in review(CASES / "alone.yaml")[1]


def test_the_index_of_a_job_is_known_in_a_shells_words(review):
    (job,) = json.loads(review("--format", "json", CASES / "public-jobset-mnist.yaml")[1])["jobs"]
    assert [(pod["node_rank"], pod["nnodes"]) for pod in job["pods"]] == [(str(rank), "4") for rank in range(4)]


@pytest.mark.parametrize("service", ["", "---\napiVersion: v1\nkind: Service\nmetadata: {name: etcd}\nspec: {ports: [{port: 2379}]}\n"])
def test_etcd_is_a_service_and_no_pod(service, review, write):
    text = (CASES / "public-operator-elastic.yaml").read_text()
    text = text.replace("rdzvBackend: c10d", "rdzvBackend: etcd, rdzvHost: etcd, rdzvPort: 2379").replace("--rdzv_backend=c10d, ", "")
    code, out, _ = review(write(text + service))
    assert code == 0 and ("no Service in these files is named etcd, at which torchrun looks for etcd" in out) == (not service)


@pytest.mark.parametrize("place", ["pod", "cluster"])
def test_kuberay_keeps_a_command_by_an_annotation_of_the_pod_too(place, review, write):
    text = (CASES / "public-raycluster.yaml").read_text()
    annotation = '{annotations: {ray.io/overwrite-container-cmd: "true"}'
    text = text.replace("metadata: {name: ray}", f"metadata: {annotation}, name: ray}}") if place == "cluster" else \
        text.replace("      template:\n        spec:\n          containers:\n            - name: worker",
                     f"      template:\n        metadata: {annotation}}}\n        spec:\n          containers:\n            - name: worker")
    assert "KubeRay" not in review(write(text))[1]


@pytest.mark.parametrize(("options", "advice"), [("", True), ("--mca orte_keep_fqdn_hostnames true ", False)])
def test_an_mpirun_in_volcano_is_told_to_keep_the_hosts_names(options, advice, review, write):
    path = write((CASES / "mpirun-in-volcano.yaml").read_text().replace("mpirun --host", f"mpirun {options}--host"))
    assert ("--mca orte_keep_fqdn_hostnames true" in review("--format", "github", path)[1]) == advice


@pytest.fixture
def without_namespaces(rankshim, binary):
    """Runs rankshim-review as in a container without CAP_SYS_ADMIN, whose user may have no user namespace."""
    if os.geteuid() != 0:
        pytest.skip("needs root to take namespaces away")
    limited = 'echo 0 >/proc/sys/user/max_user_namespaces && exec setpriv --bounding-set=-sys_admin,-sys_chroot "$@"'

    def start(*files):
        done = subprocess.run(["unshare", "--user", "--map-root-user", "sh", "-c", limited, "sh", sys.executable, "-m", "rankshim_review",
                               "--rankshim", rankshim, "--format", "json", *files], cwd=PACKAGE, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout), done.stdout

    return start


def test_a_machine_without_namespaces_says_what_it_cannot_review(without_namespaces):
    examples = ("kubeflow-v1/job.yaml", "indexed-job/job.yaml", "leaderworkerset/lws.yaml")
    document, _ = without_namespaces(*(REPOSITORY / "examples" / name for name in examples))
    kubeflow, indexed, leaders = document["jobs"]
    assert [pod["node_rank"] for pod in kubeflow["pods"]] == ["0", "1", "2"]
    assert {(pod["nnodes"], pod["workers"]) for pod in leaders["pods"]} == {("3", "8")}
    assert [pod["node_rank"] for pod in indexed["pods"]] == ["not known"] * 3
    (unseen,) = [each for each in document["findings"] if each["check"] == "unseen"]
    assert "command:" in pathlib.Path(unseen["file"]).read_text().splitlines()[unseen["line"] - 1]
    assert "this machine lets only root give those to a process" in unseen["text"]


def test_a_binary_that_is_not_static_is_what_keeps_a_pod_from_its_review(rankshim, tmp_path):
    """A script needs its shell, as a dynamic binary needs its loader."""
    script = tmp_path / "rankshim"
    script.write_text(f'#!/bin/sh\nexec "{rankshim}" "$@"\n')
    script.chmod(0o755)
    done = subprocess.run([sys.executable, "-m", "rankshim_review", "--rankshim", script, "--format", "json",
                           REPOSITORY / "examples/indexed-job/job.yaml"], cwd=PACKAGE, capture_output=True, text=True)
    (unseen,) = [each for each in json.loads(done.stdout)["findings"] if each["check"] == "unseen"]
    assert "this binary starts only where its libraries or its interpreter are" in unseen["text"]


@pytest.mark.parametrize("names", [
    "PBS_JOBID: '1', PBS_NODEFILE: SECRET", "RANKSHIM_CONFIG: SECRET", "RANKSHIM_PROFILE: SECRET",
    "RANK_TABLE_FILE: SECRET, RANK_ID: '0', RANK_SIZE: '2'",
])
def test_a_manifest_cannot_have_a_file_of_the_machine_shown(names, without_namespaces, write, tmp_path):
    (tmp_path / "secret").write_text("hunter2\nhunter3\n")
    path = write("services: {a: {entrypoint: [rankshim, --], command: [train.py], environment: {NAMES}}}\n"
                 .replace("NAMES", names.replace("SECRET", str(tmp_path / "secret"))))
    assert "hunter" not in without_namespaces(path)[1]


def test_a_probe_can_start_nothing(review, without_namespaces, write, tmp_path):
    path = write(POD + "      livenessProbe: {exec: {command: [sh, -c, rankshim status, rankshim, --, /bin/touch, "
                 f"{tmp_path / 'made'}]}}}}\n")
    review(path)
    without_namespaces(path)
    assert not (tmp_path / "made").exists()


def test_a_reader_that_has_gone_is_no_traceback(rankshim, binary):
    done = subprocess.run(["sh", "-c", f"'{sys.executable}' -m rankshim_review --rankshim '{rankshim}' '{CASES}/alone.yaml' >/dev/full"],
                          cwd=PACKAGE, capture_output=True, text=True)
    assert done.returncode == 71 and "Traceback" not in done.stderr


def test_a_python_that_is_too_old_is_named(monkeypatch, capsys):
    monkeypatch.setattr(sys, "version_info", (3, 8, 18, "final", 0))
    assert main() == 71
    assert capsys.readouterr().err.endswith("; 3.9 or later is needed\n")
