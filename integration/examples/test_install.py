"""Each way in install/ to use an image without rankshim works with kubectl, Helm or a shell."""

import json
import pathlib
import shutil
import subprocess

import pytest
import yaml

from examples.controllers import pods
from examples.schema import mistakes
from examples.test_manifests import INSTALL, RUNTIME, documents, found_in
from lib.explain import values
from lib.requirements import cannot

TOOLS = pathlib.Path(__file__).resolve().parents[2] / ".venv" / "share" / "kubernetes"
INSTALLED = "/rankshim/rankshim"


def tool(name):
    """Runs kubectl or helm, which must succeed: tool("helm")(WORDS...) is its stdout."""
    path = TOOLS / name
    if not path.exists():
        cannot(f"missing: {path} (scripts/setup puts it there)")

    def call(*words, cwd=None):
        done = subprocess.run([path, *words], cwd=cwd, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return call


def kustomized(_folder=None):
    """The job of the Kustomize example."""
    return yaml.safe_load(tool("kubectl")("kustomize", str(INSTALL / "kustomize" / "example")))


def chart(folder, *options):
    """The job of the Helm example."""
    shutil.copytree(INSTALL / "helm", folder / "helm")
    helm = tool("helm")
    helm("dependency", "build", cwd=folder / "helm" / "example")
    return yaml.safe_load(helm("template", "mnist", ".", *options, cwd=folder / "helm" / "example"))


def merged_by_kyverno(folder, container, security):
    """A Pod of one container, with what the policy's two patches add. Kyverno itself is not run: its patches are applied by
    Kustomize, which has the same two kinds of them."""
    (policy,) = documents(INSTALL / "kyverno" / "policy.yaml")
    install, start = (rule["mutate"] for rule in policy["spec"]["rules"])
    merge = install["patchStrategicMerge"]
    (each,) = merge["spec"]["containers"]
    assert each.pop("(name)") == "*"
    each["name"] = "main"
    (loop,) = start["foreach"]
    patch = loop["patchesJson6902"].replace("{{ elementIndex }}", "0")
    (folder / "pod.yaml").write_text(json.dumps({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "mnist", "labels": {"rankshim": "install"}},
        "spec": {
            "securityContext": security,
            "containers": [{
                "name": "main", "image": "registry.example/mnist:v1", "command": ["python", "train.py"],
                "volumeMounts": [{"name": "data", "mountPath": "/data"}], **container,
            }],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
        },
    }))
    (folder / "kustomization.yaml").write_text(json.dumps({
        "resources": ["pod.yaml"],
        "patches": [
            {"patch": json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "mnist"}, **merge})},
            {"patch": patch, "target": {"kind": "Pod"}},
        ],
    }))
    return yaml.safe_load(tool("kubectl")("kustomize", str(folder)))


def check_installed(pod):
    """rankshim comes by an init container into the folder from which the command starts it."""
    spec = pod["spec"]
    (folder,) = [volume["name"] for volume in spec["volumes"] if volume == {"name": volume["name"], "emptyDir": {}}]
    (installer,) = spec["initContainers"]
    assert installer["args"] == ["install", "/target"]
    assert installer["volumeMounts"] == [{"name": folder, "mountPath": "/target"}]
    (container,) = spec["containers"]
    assert container["command"][0] == INSTALLED and "--" in container["command"][:3]
    assert {"name": folder, "mountPath": "/rankshim"} in container["volumeMounts"]


def check_job(rankshim, tmp_path, made, master):
    for rank, pod in enumerate(made):
        check_installed(pod)
        facts = values(found_in(rankshim, tmp_path, pod))
        assert (facts["nnodes"], facts["node_rank"], facts["master_addr"]) == (str(len(made)), str(rank), master)


def test_the_kustomize_component_leaves_the_job_as_it_is_and_adds_rankshim(rankshim, tmp_path):
    (job,) = documents(INSTALL / "kustomize" / "example" / "job.yaml")
    built = kustomized()
    assert mistakes(built) == []
    made = pods(built)
    check_job(rankshim, tmp_path, made, "mnist-master-0")
    for before, after in zip(pods(job), made, strict=True):
        (was,), (container,) = before["spec"]["containers"], after["spec"]["containers"]
        assert container["command"] == [INSTALLED, "--", *was["command"]]
        assert all(mount in container["volumeMounts"] for mount in was["volumeMounts"])
        assert all(volume in after["spec"]["volumes"] for volume in before["spec"]["volumes"])
    assert {pod["spec"]["initContainers"][0]["image"] for pod in made} == {"my-registry.example/rankshim:0.1.0"}


@pytest.mark.parametrize(("label", "role"), [("workers", "Worker"), ("master", "Master")])
def test_the_kustomize_component_adds_no_replica_that_a_job_does_not_have(tmp_path, label, role):
    shutil.copytree(INSTALL / "kustomize" / "component", tmp_path / "component")
    (job,) = documents(INSTALL / "kustomize" / "example" / "job.yaml")
    (tmp_path / "kustomization.yaml").write_text("resources: [job.yaml]\ncomponents: [component]\n")
    job["metadata"]["labels"] = {"rankshim/replicas": label}
    job["spec"]["pytorchReplicaSpecs"] = {role: job["spec"]["pytorchReplicaSpecs"][role]}
    (tmp_path / "job.yaml").write_text(json.dumps(job))
    built = yaml.safe_load(tool("kubectl")("kustomize", str(tmp_path)))
    assert list(built["spec"]["pytorchReplicaSpecs"]) == [role]
    for pod in pods(built):
        check_installed(pod)


def test_the_helm_library_gives_a_chart_its_parts(rankshim, tmp_path):
    job = chart(tmp_path)
    assert mistakes(job) == []
    check_job(rankshim, tmp_path, pods(job), "mnist-master-0")


def test_a_chart_changes_what_the_helm_library_adds_by_values(tmp_path):
    job = chart(tmp_path, "--set=rankshim.exitMap=", "--set=rankshim.resources.limits.memory=64Mi",
                "--set=rankshim.securityContext.runAsUser=1000870000", "--set=rankshim.shm.sizeLimit=8Gi")
    assert mistakes(job) == []
    for pod in pods(job):
        (installer,), (container,) = pod["spec"]["initContainers"], pod["spec"]["containers"]
        assert installer["resources"]["limits"] == {"cpu": "100m", "memory": "64Mi"}
        assert installer["securityContext"]["runAsUser"] == 1000870000
        assert {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "8Gi"}} in pod["spec"]["volumes"]
        assert container["command"] == [INSTALLED, "--", "train.py"]


def test_the_runtime_of_kubeflow_trainer_starts_what_the_job_names(rankshim, tmp_path):
    (runtime,) = documents(RUNTIME)
    job = {
        "kind": "TrainJob", "metadata": {"name": "mnist"},
        "spec": {"trainer": {"image": "registry.example/mnist", "args": ["train.py"], "numNodes": 3}},
    }
    check_job(rankshim, tmp_path, pods(job, runtime), "mnist-node-0-0.mnist")


def test_the_operator_is_configured_to_add_no_init_container(tmp_path):
    kustomization = yaml.safe_load((INSTALL / "kubeflow-operator" / "kustomization.yaml").read_text())
    # Instead of the operator's manifests, which would have to be downloaded.
    kustomization["resources"] = ["operator.yaml"]
    (tmp_path / "kustomization.yaml").write_text(json.dumps(kustomization))
    (tmp_path / "operator.yaml").write_text(json.dumps({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "training-operator"},
        "spec": {"template": {"spec": {"containers": [{"name": "training-operator", "command": ["/manager"]}]}}},
    }))
    (container,) = yaml.safe_load(tool("kubectl")("kustomize", str(tmp_path)))["spec"]["template"]["spec"]["containers"]
    assert container["args"] == ["--pytorch-init-container-template-file=/dev/null"]


def test_the_kyverno_policys_patches_make_a_pod_that_has_rankshim(tmp_path):
    pod = merged_by_kyverno(tmp_path, {}, {})
    assert mistakes(pod) == []
    check_installed(pod)
    (container,) = pod["spec"]["containers"]
    assert container["command"] == [INSTALLED, "--", "python", "train.py"]
    assert {"name": "data", "mountPath": "/data"} in container["volumeMounts"]


def test_the_enroot_hook_mounts_the_machines_rankshim(tmp_path):
    mounts = tmp_path / "mounts"
    hook = INSTALL / "enroot" / "50-rankshim.sh"
    subprocess.run([hook], check=True, env={"PATH": "/usr/bin:/bin", "ENROOT_MOUNTS": str(mounts)})
    source, target, kind, options = mounts.read_text().split()
    assert (source, target, kind) == ("/opt/rankshim/rankshim", "/usr/local/bin/rankshim", "none")
    assert {"bind", "ro", "x-create=file"} <= set(options.split(","))


# What NVIDIA's own entrypoint does with the scripts of its folder.
ENTRYPOINT = 'for part in "$FOLDER"/*.sh; do source "$part"; done; exec printf "%s\\n" "$@"'


@pytest.mark.parametrize(("command", "executed"), [
    (["torchrun", "train.py"], ["rankshim", "--", "torchrun", "train.py"]),
    (["bash", "run.sh"], ["rankshim", "--", "bash", "run.sh"]),
    (["rankshim", "--", "train.py"], ["rankshim", "--", "train.py"]),
    (["/usr/local/bin/rankshim", "explain"], ["/usr/local/bin/rankshim", "explain"]),
    (["/bin/bash"], ["/bin/bash"]),
])
def test_the_script_for_nvidias_entrypoint_puts_rankshim_before_a_command(command, executed):
    done = subprocess.run(["bash", "-ec", ENTRYPOINT, "entrypoint", *command], env={"FOLDER": str(INSTALL / "nvidia")},
                          capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == executed


def test_the_script_for_nvidias_entrypoint_leaves_an_image_without_a_command_alone():
    done = subprocess.run(["bash", "-c", f"{ENTRYPOINT.replace('exec', 'echo $# #')}", "entrypoint"],
                          env={"FOLDER": str(INSTALL / "nvidia")}, capture_output=True, text=True, check=True)
    assert done.stdout == "0\n"
