"""An sbatch script: its #SBATCH lines and the srun that starts rankshim, read by config/platforms/slurm.toml and its like.

Source: SchedMD/slurm:doc/man/man1/{sbatch.1,srun.1}, "OUTPUT ENVIRONMENT VARIABLES" (an option on srun's line counts before
one of the job's), and a real cluster of 22.05: a batch script has no SLURM_STEP_*. The names of the nodes are not known
before the job runs; here they are node1, node2 and so on.
"""

from __future__ import annotations

import re
import shlex

from ..command import Command, TooLong, base_name, option, script
from ..pods import Pod, Workload, shown
from ..source import LARGEST_NUMBER, Field, Mistake

NODES, TASKS, PER_NODE = ("--nodes", "-N"), ("--ntasks", "-n"), ("--ntasks-per-node",)
GPUS_PER_NODE = ("--gpus-per-node", "--gres")
LARGEST_SCRIPT = 1 << 20  # slurm.conf(5), SchedulerParameters=max_script_size: 4 MiB


def workload(file: str, text: str) -> Workload:
    options: list[str] = []
    first = line = 1
    for number, written in enumerate(text.splitlines(), 1):
        if written.startswith("#SBATCH"):
            first = first if options else number
            try:
                options += shlex.split(written[len("#SBATCH"):], comments=True)
            except ValueError as error:
                raise Mistake(file, number, f"this #SBATCH line cannot be read: {error}") from None
        elif not written.startswith("#") and (found := re.search(r"(?:^|[\s/])(rankshim|srun)(?:\s|$)", written)):
            line = number if found[1] == "rankshim" or line == 1 else line
    place = Field(None, file, line)
    if len(text) > LARGEST_SCRIPT:
        raise Mistake(file, 1, f"a script of more than {LARGEST_SCRIPT >> 20} MiB is not read")
    if "\0" in text:
        raise Mistake(file, 1, "this is not a script: it has NUL in it")
    try:
        command = script("\n".join(each for each in text.splitlines() if not each.startswith("#")), {})
    except TooLong as error:
        raise Mistake(file, line, f"this script: {error}") from None
    in_step = any(base_name(word) == "srun" for word in command.before)
    on_srun = command.before if in_step else []
    name = option(options, "--job-name", "-J") or "job"

    def asked(*names: str, default: int) -> int:
        found = option(on_srun, *names)
        found = option(options, *names) if not found or "$" in found else found
        found = found.rpartition("-")[2] or found  # --nodes=MIN-MAX
        if not found:
            return default
        if not re.fullmatch("[0-9]{1,9}", found) or not 0 < int(found) <= LARGEST_NUMBER:
            raise Mistake(file, first, f"{names[0]}={found}: a number from 1 to {LARGEST_NUMBER} is expected")
        return int(found)

    nodes = asked(*NODES, default=1)
    per_node = asked(*PER_NODE, default=0)
    tasks = asked(*TASKS, default=nodes * (per_node or 1))
    per_node = per_node or max(1, -(-tasks // nodes))
    gpus = option(on_srun, *GPUS_PER_NODE) or option(options, *GPUS_PER_NODE)
    found = re.search(r"(?:^|:)([0-9]{1,3})$", gpus)
    hosts = "node1" if nodes == 1 else f"node[1-{nodes}]"
    variables = {
        "SLURM_JOB_ID": "1", "SLURM_JOBID": "1", "SLURM_JOB_NAME": name, "SLURM_JOB_NUM_NODES": str(nodes),
        "SLURM_JOB_NODELIST": hosts, "SLURM_NODELIST": hosts, "SLURM_NNODES": str(nodes),
    }
    if found:
        variables["SLURM_GPUS_ON_NODE"] = found[1]
    made = Workload("Slurm job", name, Field(None, file, first), total=nodes, nodes=nodes, services={"*"}, bounded=True)
    made.restart_default = "Never"  # a job is requeued by an administrator, or after a node's failure
    for index in shown(nodes) if in_step else [0]:
        own = {**variables, "SLURM_PROCID": str(index * per_node), "SLURM_NODEID": str(index), "SLURM_LOCALID": "0"}
        if in_step:
            own.update({
                "SLURM_NTASKS": str(tasks), "SLURM_NPROCS": str(tasks), "SLURM_STEP_ID": "0", "SLURM_STEPID": "0",
                "SLURM_STEP_NUM_NODES": str(nodes), "SLURM_STEP_NUM_TASKS": str(tasks), "SLURM_STEP_NODELIST": hosts,
                "SLURM_STEP_TASKS_PER_NODE": f"{per_node}(x{nodes})", "SLURM_TASKS_PER_NODE": f"{per_node}(x{nodes})",
            })
        own.update(command.environment)
        made.pods.append(Pod(
            f"node{index + 1}", f"node{index + 1}", "", own, Command([], command.after, {}, command.rankshim), place, place, place,
            devices={"nvidia": int(found[1])} if found else {}, has_devices=bool(found), bypasses=not command.rankshim))
    if made.pods and not command.rankshim:
        for pod in made.pods:
            pod.command = Command(command.before)
    return made
