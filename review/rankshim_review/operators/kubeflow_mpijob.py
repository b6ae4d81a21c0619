"""MPIJob (v2), read by config/platforms/kubeflow-mpijob.toml, and the processes that its mpirun starts (open-mpi.toml).

Sources: kubeflow/mpi-operator@caa3c47:pkg/controller/mpi_job_controller.go newLauncherPodTemplate and newWorker (host names,
the subdomain, K_MPI_JOB_ROLE, the launcher's variables, /etc/mpi/hostfile), Open MPI documentation v5.0.x, "Environment
variables" (the processes').
"""

from __future__ import annotations

from ..command import Command, base_name, option
from ..pods import Cluster, Pod, Workload, make_pod, shown
from ..source import Field, whole_number

LAUNCHER = {
    "OpenMPI": {"OMPI_MCA_orte_keep_fqdn_hostnames": "true", "OMPI_MCA_orte_default_hostfile": "/etc/mpi/hostfile",
                "OMPI_MCA_plm_rsh_args": "-o ConnectionAttempts=10"},
    "Intel": {"I_MPI_HYDRA_HOST_FILE": "/etc/mpi/hostfile"},
    "MPICH": {"HYDRA_HOST_FILE": "/etc/mpi/hostfile"},
}


def workload(cluster: Cluster, document: Field) -> Workload:
    job, spec = document.get("metadata", "name").text("job"), document.get("spec")
    namespace = document.get("metadata", "namespace").text("default")
    replicas, slots = spec.get("mpiReplicaSpecs"), spec.get("slotsPerWorker").number(1)
    workers = replicas.get("Worker", "replicas").number(0)
    kind = spec.get("mpiImplementation").text("OpenMPI")
    hosts = [f"{job}-worker-{index}.{job}.{namespace}.svc" for index in range(workers)]
    lines = [f"{host} slots={slots}\n" if kind == "OpenMPI" else f"{host}:{slots}\n" for host in hosts]
    files = {"/etc/mpi/hostfile": "".join(lines)}
    variables = {"K_MPI_JOB_ROLE": "launcher", **LAUNCHER.get(kind, {})}
    if kind == "OpenMPI":
        variables["OMPI_MCA_orte_set_default_slots"] = str(slots)
    variables.update({"NVIDIA_VISIBLE_DEVICES": "", "NVIDIA_DRIVER_CAPABILITIES": ""})
    made = Workload("MPIJob", job, document, services={job}, restart=replicas.get("Launcher", "restartPolicy"),
                    restart_default="OnFailure", bounded=True)
    launcher = make_pod(cluster, replicas.get("Launcher", "template"), f"{job}-launcher", namespace=namespace, files=files,
                        hostname=f"{job}-launcher", subdomain=job, added=variables.items())
    starter = base_name(launcher.command.before[0]) if launcher.command.before else ""
    if not launcher.command.rankshim or starter not in ("mpirun", "mpiexec") or kind != "OpenMPI":
        made.pods, made.total = [launcher], 1 + workers
        return made
    size = whole_number(option(launcher.command.before, "-np", "-n", "--np", "-c")) or slots * workers
    used = min(workers, -(-size // slots))  # mpirun fills the slots of one host after another
    made.pods = [_process(cluster, replicas, launcher, index, workers, slots, size, namespace, job) for index in shown(used)]
    made.total = used
    if used < workers:
        made.notes.append((launcher.place, f"mpirun -np {size} fills the {slots} slots of one pod before it uses the next: all "
                           f"processes run on {used} of {workers} workers"))
    return made


def _process(cluster: Cluster, replicas: Field, launcher: Pod, index: int, workers: int, slots: int, size: int,
             namespace: str, job: str) -> Pod:
    """The first process of a worker. sshd passes on only its own variables."""
    pod = make_pod(cluster, replicas.get("Worker", "template"), f"{job}-worker-{index}", namespace=namespace,
                   hostname=f"{job}-worker-{index}", subdomain=job, added=[("K_MPI_JOB_ROLE", "worker")])
    local = max(1, min(slots, size - index * slots))
    named = [word.partition("=") for at, word in enumerate(launcher.command.before) if launcher.command.before[at - 1] == "-x"]
    handed_on = {name: value if equals else launcher.environment.get(name, "") for name, equals, value in named}
    pod.environment = {
        "K_MPI_JOB_ROLE": "worker", "OMPI_MCA_orte_default_hostfile": "/etc/mpi/hostfile",  # which only the launcher has
        "OMPI_MCA_orte_node_regex": f"{job}-launcher,{job}-worker-[1:0-{workers - 1}].{job}.{namespace}.svc@0({workers + 1})",
        "OMPI_COMM_WORLD_SIZE": str(size), "OMPI_COMM_WORLD_RANK": str(index * slots),
        "OMPI_COMM_WORLD_LOCAL_SIZE": str(local), "OMPI_COMM_WORLD_LOCAL_RANK": "0", "OMPI_COMM_WORLD_NODE_RANK": "0",
        "PMIX_HOSTNAME": f"{job}-worker-{index}", "PMIX_NAMESPACE": "1", **handed_on,
    }
    pod.command = Command([], launcher.command.after, {}, launcher.command.rankshim)
    pod.place, pod.bypasses = launcher.place, False
    return pod
