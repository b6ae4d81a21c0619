"""What the review reads in a script is what a shell makes of it: bash runs the script, and each launcher, which is a stand-in,
writes down its words. srun is one too: it starts the words behind its options once for each node."""

import os
import re
import subprocess

import pytest
from lib.process import PATH
from review.running import CASES, workloads

LAUNCHERS = ("torchrun", "python", "python3", "accelerate", "deepspeed", "composer", "fabric", "axolotl", "rankshim")
TELL = """#!/bin/bash
printf '%s\\n' "$(IFS=$'\\x1f'; echo "${SLURM_STEP_ID:+$SLURM_NODEID}:${0##*/}"$'\\x1f'"$*")" >>"$TOLD"
"""
SRUN = """#!/bin/bash
while [ $# -gt 0 ]; do
  case ${1##*/} in
    torchrun|python|python3|composer|accelerate|axolotl|rankshim|bash|sh|hostname|trl|run.sh|launch.sh) break ;;
    -J) shift ;;
    --nodes=[0-9]*) SLURM_NNODES=${1#--nodes=} ;;
    --ntasks=1) SLURM_NNODES=1 ;;
  esac
  shift
done
for node in $(seq 0 $((SLURM_NNODES - 1))); do
  SLURM_STEP_ID=0 SLURM_NODEID=$node SLURM_PROCID=$((node * PER_NODE)) "$@"
done
"""
OTHERS = {"scontrol": "seq -f node%.0f $SLURM_NNODES", "hostname": "echo node$((SLURM_NODEID + 1))", "dcgmi": ":", "nvidia-smi": ":",
          "ray": ":", "trl": ":", "getent": "echo 192.0.2.1", "pip": ":"}
# Their function starts its steps in another order than it is written; the grammar cannot read the last one's words.
UNLIKE = {"public-mpt", "public-template", "public-accelerate-cpu", "public-is-host"}
SCRIPTS = sorted(path for path in CASES.iterdir() if re.search(r"\.sbatch$|skypilot|dstack", path.name) and path.stem not in UNLIKE)


@pytest.fixture
def told(tmp_path):
    """Runs a script: told(TEXT, VARIABLES) are the words of each launcher that it starts, with the node of its step before them."""
    programs = {**dict.fromkeys(LAUNCHERS, TELL), "srun": SRUN,
                **{name: f"#!/bin/bash\n{text}\n" for name, text in OTHERS.items()}}
    (tmp_path / "bin").mkdir()
    for name, text in programs.items():
        (tmp_path / "bin" / name).write_text(text)
        (tmp_path / "bin" / name).chmod(0o755)

    def run(text, variables):
        log = tmp_path / "told"
        log.write_text("")
        text = text.replace("./venv/bin/", "").replace("/work", str(tmp_path)).replace(" && cd", ";")
        environment = {"PATH": f"{tmp_path}/bin:{PATH}", "TOLD": str(log), **variables}
        subprocess.run(["bash", "-c", text], env=environment, cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, timeout=60,
                       check=False)
        return [line.strip("\x1f").split("\x1f") for line in log.read_text().splitlines()]

    return run


def like(words):
    """A pattern for words of which a shell works some out."""
    return re.compile(r"\x1f?".join("[^\x1f]*(\x1f|$)" if word in ("$@", "$*") else
                                    r"\x1f?" + re.sub(r"(\\\$|`).*", "[^\x1f]*", re.escape(word)) for word in words) + r"\x1f?")


def script(path, workload):
    if path.suffix == ".sbatch":
        return path.read_text()
    return workload.field.get("run").text() or "\n".join(workload.field.get("commands").words())


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_bash_starts_the_words_that_the_review_reads(path, told):
    for workload in workloads(path):
        text = script(path, workload)
        for index, pod in enumerate(workload.pods):
            command = pod.command
            launch = ["rankshim", *command.after] if command.rankshim else [os.path.basename(command.launch[0]), *command.launch[1:]]
            per_node = int(pod.environment.get("SLURM_PROCID", 0)) // max(index, 1) or 1
            in_batch = {name: value for name, value in workload.pods[0].environment.items() if not name.startswith("SLURM_STEP")}
            if of_job := re.search(r"^#SBATCH.*(?:--nodes=|-N )(\d+)", text, re.M):  # a step can have fewer
                in_batch.update(SLURM_NNODES=of_job[1], SLURM_JOB_NUM_NODES=of_job[1])
            variables = {**in_batch, "PER_NODE": str(per_node)} if path.suffix == ".sbatch" else pod.environment
            found = told(text, {name: value for name, value in variables.items() if re.match("SLURM_|SKY|DSTACK|PER_NODE", name)})
            in_step = "SLURM_STEP_ID" in pod.environment
            started = ["\x1f".join([first.partition(":")[2], *rest]) for first, *rest in found
                       if not in_step or first.startswith(f"{index}:")]
            assert any(like(launch).fullmatch(words) for words in started) or not (started or command.is_certain), (launch, started)
