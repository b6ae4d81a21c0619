"""Files that cost minutes or gigabytes, or end with a traceback, where nothing bounds what they say."""

import json
import pathlib
import resource
import subprocess
import sys

import pytest

SECONDS, MEMORY = 60, 2 << 30  # of a processor, on a slow machine; bytes
PACKAGE = pathlib.Path(__file__).resolve().parents[2] / "review"

RUN = "command: [rankshim, --, a]"
LONG, ALL_LONG, MANY = "one value becomes longer than 128 KiB", "longer than 2 MiB", "this file says too much"
NOT_GIVEN = "no process can be given this text"


def pod(container=RUN, rest=""):
    return f"apiVersion: v1\nkind: Pod\nmetadata: {{name: mnist}}\nspec:\n  containers:\n    - {container}\n{rest}"


def shell(script):
    return pod(f"command: [sh, -c, {json.dumps(script)}]")


def with_variables(entries, command="[rankshim, --, a]"):
    return pod(f"env: [{', '.join(entries)}]\n      command: {command}")


def doubled(count):
    """Variables of which each has twice the letters of the one before it."""
    return [f"{{name: V0, value: {'x' * 64}}}", *(f"{{name: V{at}, value: $(V{at - 1})$(V{at - 1})}}" for at in range(1, count))]


def mounted(path):
    """A pod with a file of a ConfigMap in this folder."""
    return pod(f"{RUN}\n      volumeMounts: [{{name: c, mountPath: {path}}}]", "  volumes: [{name: c, configMap: {name: c}}]\n"
               "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {d: e}\n")


def probed(words):
    return pod(f"{RUN}\n      livenessProbe: {{exec: {{command: [{words}]}}}}")


def laughs(leaf="lol", form="[%s]"):
    """A billion of laughs, which *b29 ends."""
    return f"b0: &b0 {leaf}\n" + "".join(f"b{at}: &b{at} {form % ', '.join([f'*b{at - 1}'] * 9)}\n" for at in range(1, 30))


def replicas(value):
    return f"apiVersion: apps/v1\nkind: StatefulSet\nspec: {{replicas: {value}}}\n"


def train_job(*, trainer="{}", patch="{}"):
    replicated = f"[{{name: node, template: {{spec: {{template: {patch}}}}}}}]"
    return ("apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainJob\nspec:\n  runtimeRef: {name: torch-distributed}\n"
            f"  trainer: {trainer}\n"
            f"  runtimePatches: [{{trainingRuntimeSpec: {{template: {{spec: {{replicatedJobs: {replicated}}}}}}}}}]\n")


def volcano(tasks, count):
    task = "{name: t%d, replicas: %d, template: {spec: {containers: [{command: [rankshim, --, a]}]}}}"
    every = ", ".join(task % (at, count) for at in range(tasks))
    return f"apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nspec: {{plugins: {{svc: []}}, tasks: [{every}]}}\n"


# A file, what is said of it, and the exit code.
COSTLY = {
    "aliases in a message": (laughs() + replicas("*b29"), "a text is expected", 78),
    "aliases as a kind": (laughs() + "apiVersion: *b29\nkind: *b29\n", "", 0),
    "aliases in an omap": (laughs("!!omap [a: b]", "!!omap [a: [%s]]") + replicas("*b29"), "a text is expected", 78),
    "aliases in a patch": (laughs() + train_job(patch="{spec: *b29}"), MANY, 78),
    "aliases of a pod": ("kind: List\nitems:\n- &p {apiVersion: v1, kind: Pod, spec: {containers: [{command: [rankshim, --, a], env: [" +
                         ", ".join(f"{{name: V{at}, value: a}}" for at in range(10000)) + "]}]}}\n" + "- *p\n" * 900, MANY, 78),
    "variables that double": (with_variables(doubled(40)), LONG, 78),
    "an argument that doubles": (with_variables(doubled(11), f"[rankshim, --, {'$(V10)' * 9}]"), LONG, 78),
    "many long variables": (with_variables(doubled(11) + [f"{{name: W{at}, value: $(V10)}}" for at in range(100)]), ALL_LONG, 78),
    "many ConfigMaps": (
        with_variables(f"{{name: V{at}, valueFrom: {{configMapKeyRef: {{name: c{at}, key: k}}}}}}" for at in range(10000)) +
        "".join(f"---\nkind: ConfigMap\nmetadata: {{name: c{at}}}\ndata: {{k: v}}\n" for at in range(10000)), "", 0),
    "a shell's variables that double": (
        shell(f"A0={'x' * 64}\n" + "".join(f"A{at}=$A{at - 1}${{A{at - 1}}}\n" for at in range(1, 40)) + "rankshim -- $A39"), LONG, 78),
    "a shell's many variables": (
        shell(f"A={'x' * 60000}\n" + "".join(f"B{at}=$A\n" for at in range(5000)) + "rankshim -- a"), ALL_LONG, 78),
    "a shell's variable many times": (shell(f"A={'x' * 60000}\n" + "B=$A\n" * 5000 + "rankshim -- a"), ALL_LONG, 78),
    "a shell's many statements": (shell("".join(f"a{at}=1\n" for at in range(12000)) + "rankshim -- a"), "", 0),
    "a shell's long name without its beginning": (shell(f"A={'a-' * 60000}\nrankshim -- ${{A##*-}}"), "", 0),
    "shells in shells": (shell("sh -c '" * 50 + "rankshim -- a"), "", 0),
    "many shells in a shell": (shell(f"A={'x' * 30000}\n" + "bash -c \"$A $A $A rankshim\"\n" * 3000), ALL_LONG, 78),
    "a deep script": (shell("if x; then (" * 8000 + "rankshim -- a"), "", 0),
    "aliases in a workflow's manifest": (
        "apiVersion: argoproj.io/v1alpha1\nkind: Workflow\nspec:\n  templates:\n  - &t\n    resource:\n      manifest: |\n" +
        "".join(f"        {line}\n" for line in (laughs() + replicas("*b29")).splitlines()) + "  - *t\n" * 300, "a text is expected", 78),
    "a shell's option": (pod(f"command: [sh, -{'c' * 130000}X, rankshim -- a]"), "", 0),
    "a long script": ("#!/bin/sh\n#SBATCH -N2\n" + "a=1\n" * 500000 + "srun rankshim -- a\n", "more than 1 MiB", 78),
    "a template": (replicas(f"'{'<' * 500000}'"), "a whole number is expected", 78),
    "a broken template": ("\n" * 1000000 + "a: [", "not YAML", 78),
    "a probe": (probed("rankshim" * 50000), "", 0),
    "a probe that exec refuses": (probed(f"rankshim, status, {'a' * 200000}"), "Argument list too long", 0),
    "a time": (pod(f"command: [rankshim, --grace={'1' * 100000}x, --, a]"), "grace", 78),
    "a number in base 60": (f"a: 1{':1' * 1000000}\n", "a number of 2000001 letters", 78),
    "a hexadecimal number": (replicas(f"0x{'f' * 5000}"), "a number of 5002 letters", 78),
    "a number that is none": ("a: !!int ''\n", "not YAML", 78),
    "a truth that is none": ("a: !!bool maybe\n", "not YAML", 78),
    "a billion pods": (replicas("1000000000"), "more than 10000 is not read", 78),
    "processors": (train_job(trainer=f"{{resourcesPerNode: {{limits: {{cpu: '{'9' * 400}'}}}}}}"), "", 0),
    "a square as a number": (
        "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nspec:\n  nprocPerNode: ²\n  pytorchReplicaSpecs:\n    Master:\n"
        "      template: {spec: {containers: [{name: pytorch, command: [rankshim, --, a]}]}}\n", "²", 78),
    "many hosts": (volcano(1000, 10000), "more than 10000 pods are not read", 78),
    "many tasks": (volcano(8000, 1), MANY, 78),
    "NUL in an argument": (pod('command: [rankshim, --, "a\\0b"]'), NOT_GIVEN, 78),
    "NUL in a variable": (with_variables(['{name: A, value: "a\\0b"}']), NOT_GIVEN, 78),
    "NUL in a host name": (pod(rest='  hostname: "a\\0b"\n'), NOT_GIVEN, 78),
    "NUL in a mount path": (mounted('"/a\\0b"'), NOT_GIVEN, 78),
    "NUL in a name": (pod(rest='---\napiVersion: v1\nkind: ConfigMap\ndata: {"a\\0b": c}\n'), "no process can be given this name", 78),
    "NUL in a script": ("#!/bin/sh\n#SBATCH -N2\nsrun rankshim -- a\0b\n", "NUL", 78),
    "a deep mount path": (mounted("/a" * 1500), "folders deep", 78),
    "a long mount path": (mounted("/" + "a" * 5000), "cannot be a file of the pod: File name too long", 78),
    "a mount over a file": (mounted("/etc/hosts"), "cannot be a file of the pod", 78),
}

SLOWEST = ("aliases of a pod", "aliases in a patch", "many ConfigMaps")  # seconds each; "many tasks" remains by day


@pytest.mark.parametrize("name", [
    pytest.param(name, marks=pytest.mark.nightly if name in SLOWEST else []) for name in COSTLY
])
def test_a_hostile_file_costs_seconds_and_no_traceback(name, binary, rankshim, tmp_path):
    text, said, code = COSTLY[name]
    file = tmp_path / "manifest.yaml"
    file.write_text(text)

    def limit():
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))

    done = subprocess.run([sys.executable, "-m", "rankshim_review", "--rankshim", rankshim, "--format", "github", file],
                          cwd=PACKAGE, capture_output=True, text=True, preexec_fn=limit)
    assert "Traceback" not in done.stderr, done.stderr[-2000:]
    assert done.returncode == code, (done.returncode, done.stdout[-2000:], done.stderr[-2000:])
    assert said in done.stdout, done.stdout[-2000:]
