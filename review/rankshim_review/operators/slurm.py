"""An sbatch script: its #SBATCH lines and the srun that starts the training, read by config/platforms/slurm.toml and its like.

Source: SchedMD/slurm:doc/man/man1/{sbatch.1,srun.1}, "OUTPUT ENVIRONMENT VARIABLES" (an option on srun's line counts before
one of the job's), and a real cluster of 22.05: a batch script has no SLURM_STEP_*. The names of the nodes are not known
before the job runs; here they are node1, node2 and so on.
"""

from __future__ import annotations

import re
import shlex

from ..command import LAUNCHER, RANKSHIM, Command, TooLong, base_name, find, option
from ..pods import Pod, Workload, shown
from ..shell import Shell
from ..source import LARGEST_NUMBER, Field, Mistake, Unread

NODES, TASKS, PER_NODE = ("--nodes", "-N"), ("--ntasks", "-n"), ("--ntasks-per-node",)
# Options of srun that take no value after a blank: srun(1), and pyxis' container options.
WITHOUT_VALUE = re.compile(r"-[EHIOQVXZksluv]+|-K[01]?|--(contiguous|disable-status|exact|exclusive|external(-launcher)?|help|hold"
                           r"|immediate|kill-on-bad-exit|label|multi-prog|no-allocate|no-kill|overcommit|overlap|oversubscribe|preserve-env|pty|quiet"
                           r"|quit-on-interrupt|reboot|spread-job|unbuffered|use-min-nodes|usage|verbose|version|whole"
                           r"|(no-)?container-(mount-home|remap-root|entrypoint)|container-(writable|readonly))")
LARGEST_SCRIPT = 1 << 20  # slurm.conf(5), SchedulerParameters=max_script_size: 4 MiB


def workload(file: str, text: str) -> Workload:
    if len(text) > LARGEST_SCRIPT:
        raise Mistake(file, 1, f"a script of more than {LARGEST_SCRIPT >> 20} MiB is not read")
    if "\0" in text:
        raise Mistake(file, 1, "this is not a script: it has NUL in it")
    options, first = _options(file, text)
    name = option(options, "--job-name", "-J") or "job"
    if "hetjob" in options or "packjob" in options:
        raise Unread(file, first, f"not reviewed: Slurm job {name} is heterogeneous (#SBATCH hetjob): its components have different nodes")

    def asked(on_srun: list[str], *names: str, default: int) -> int:
        found = option(on_srun, *names)
        found = option(options, *names) if not found or "$" in found else found
        found = found.rpartition("-")[2] or found  # --nodes=MIN-MAX
        if not found:
            return default
        if not re.fullmatch("[0-9]{1,9}", found) or not 0 < int(found) <= LARGEST_NUMBER:
            hint = ", and sbatch expands no variables in these lines" if "$" in found else ""
            raise Mistake(file, first, f"{names[0]}={found}: a number from 1 to {LARGEST_NUMBER} is expected{hint}")
        return int(found)

    def environment(on_srun: list[str]) -> tuple[dict[str, str], int, int, int]:
        """The variables of the batch script (or, `on_srun`, of its step), the nodes, the tasks, and those of each node."""
        nodes = asked(on_srun, *NODES, default=1)
        per_node = asked(on_srun, *PER_NODE, default=0)
        tasks = asked(on_srun, *TASKS, default=nodes * (per_node or 1))
        per_node = per_node or max(1, -(-tasks // nodes))
        hosts = "node1" if nodes == 1 else f"node[1-{nodes}]"
        made = {
            "SLURM_JOB_ID": "1", "SLURM_JOBID": "1", "SLURM_JOB_NAME": name, "SLURM_JOB_NUM_NODES": str(nodes),
            "SLURM_JOB_NODELIST": hosts, "SLURM_NODELIST": hosts, "SLURM_NNODES": str(nodes),
            "SLURM_PROCID": "0", "SLURM_NODEID": "0", "SLURM_LOCALID": "0",
        }
        if gpus := _gpus(on_srun, nodes, per_node) or _gpus(options, nodes, per_node):
            made["SLURM_GPUS_ON_NODE"] = str(gpus)
        if option(options, *TASKS, *PER_NODE):
            made["SLURM_NTASKS"] = made["SLURM_NPROCS"] = str(tasks)
        return made, nodes, tasks, per_node

    def command(variables: dict[str, str], nodes: int, step: dict[str, str]) -> Command:
        hosts = tuple(f"node{index + 1}" for index in range(nodes))
        try:
            return find(text, Shell(variables, hosts[0], hosts), step)
        except TooLong as error:
            raise Mistake(file, 1, f"this script: {error}") from None

    batch, of_job, *_ = environment([])
    found = command(batch, of_job, {})
    in_step = any(base_name(word) == "srun" for word in found.before)
    on_srun = _of_srun(found.before)
    variables, nodes, tasks, per_node = environment(on_srun)
    place, hosts = Field(None, file, found.line), variables["SLURM_JOB_NODELIST"]
    made = Workload("Slurm job", name, Field(None, file, first), total=nodes, nodes=nodes, services={"*"}, bounded=True)
    made.keeps_others = _keeps_others(options) and (not in_step or _keeps_others(on_srun))
    if in_step and found.told >= LAUNCHER and "$" in (hidden := option(on_srun, *NODES)):
        made.notes.append((place, f"only the shell knows this srun's --nodes={hidden}; all {nodes} nodes of the job are taken for its own"))
    if in_step and nodes < of_job and found.told >= LAUNCHER:
        made.notes.append((place, f"this srun starts {nodes} of the job's {of_job} nodes; what starts the others is not reviewed"))
    made.restart_default = "Never"  # a job is requeued by an administrator, or after a node failure
    for index in shown(nodes) if in_step else [0]:
        own = {**variables, "SLURM_PROCID": str(index * per_node), "SLURM_NODEID": str(index)}
        if in_step:
            own.update({
                "SLURM_NTASKS": str(tasks), "SLURM_NPROCS": str(tasks), "SLURM_STEP_ID": "0", "SLURM_STEPID": "0",
                "SLURM_STEP_NUM_NODES": str(nodes), "SLURM_STEP_NUM_TASKS": str(tasks), "SLURM_STEP_NODELIST": hosts,
                "SLURM_STEP_TASKS_PER_NODE": f"{per_node}(x{nodes})", "SLURM_TASKS_PER_NODE": f"{per_node}(x{nodes})",
            })
        found = command(batch, of_job, own)
        gpus = int(variables.get("SLURM_GPUS_ON_NODE", 0))
        made.pods.append(Pod(f"node{index + 1}", f"node{index + 1}", "", {**own, **found.environment}, found, place, place, place,
                             devices={"nvidia": gpus} if gpus else {}, has_devices=bool(gpus), bypasses=found.told != RANKSHIM))
    inside = found.after if found.told == RANKSHIM else found.launch
    if in_step and per_node > 1 and (found.told == LAUNCHER or base_name(inside[0] if inside else "") == "torchrun"):
        made.faults.append((place, f"srun starts {per_node} launchers on each node, each of which starts all of the node's workers: set "
                            "--ntasks-per-node=1"))
    return made


def _options(file: str, text: str) -> tuple[list[str], int]:
    """The options of the #SBATCH lines, and the number of the first such line."""
    options: list[str] = []
    first = 1
    for number, written in enumerate(text.splitlines(), 1):
        if written.startswith("#SBATCH"):
            first = first if options else number
            try:
                options += shlex.split(written[len("#SBATCH"):], comments=True)
            except ValueError as error:
                raise Mistake(file, number, f"this #SBATCH line cannot be read: {error}") from None
    return options, first


def started(words: list[str]) -> list[str]:
    """What the srun in these words starts; without srun, all of them."""
    start = next((at + 1 for at, word in enumerate(words) if base_name(word) == "srun"), 0)
    return words[start + len(_of_srun(words)):]


def _of_srun(words: list[str]) -> list[str]:
    """The options of the srun in these words; what it starts has its own options, such as `conda run -n NAME`."""
    start = next((at + 1 for at, word in enumerate(words) if base_name(word) == "srun"), len(words))
    end = start
    while end < len(words) and words[end].startswith("-") and words[end] != "--":
        has_value = "=" not in words[end] and not WITHOUT_VALUE.fullmatch(words[end]) and (
            words[end].startswith("--") or len(words[end]) == 2)
        end += 2 if has_value else 1
    return words[start:end]


def _keeps_others(options: list[str]) -> bool:
    """Whether --no-kill[=off] or -k is on."""
    return any(re.fullmatch("--no-kill|-k", word) for word in options)


def _gpus(options: list[str], nodes: int, per_node: int) -> int:
    """The GPUs per node; --gpus counts the job's, and --gpus-per-task each task's."""
    for names, times, parts in (("--gpus-per-node", "--gres"), 1, 1), (("--gpus-per-task",), per_node, 1), (("--gpus", "-G"), 1, nodes):
        if found := re.search(r"(?:^|:)([0-9]{1,4})$", option(options, *names)):
            return -(-int(found[1]) * times // parts)
    return 0
