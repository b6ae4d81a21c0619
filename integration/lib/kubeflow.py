"""Kubeflow's environments: the recorded ones, and those of a job of the test's own."""

import pathlib

RECORDED = pathlib.Path(__file__).resolve().parent.parent / "kubeflow" / "environments"
PORT = "23456"


def read_env(path):
    """A .env file: NAME=VALUE lines, # comments."""
    variables = {}
    for line in pathlib.Path(path).read_text().splitlines():
        if line and not line.startswith("#"):
            name, _, value = line.partition("=")
            variables[name] = value
    return variables


def recorded(job):
    """The pods of a recorded job: {pod name: variables}, the master first."""
    return {path.stem: read_env(path) for path in sorted((RECORDED / job).glob("*.env"))}


def operator_1_5(rank, nodes, master):
    """What training-operator 1.4 to 1.6 gives a pod: RANK and WORLD_SIZE count pods."""
    return {
        "PYTHONUNBUFFERED": "0", "MASTER_PORT": PORT, "MASTER_ADDR": master,
        "WORLD_SIZE": str(nodes), "RANK": str(rank),
    }


def start_job(pods, master, command):
    """Starts the command on all pods, with what operator 1.5 gives them."""
    return [pod.start(command, operator_1_5(rank, len(pods), master) | {"OMP_NUM_THREADS": "1"})
            for rank, pod in enumerate(pods)]


def operator_1_9(rank, nodes, master, workers_per_node):
    """What training-operator 1.7 and later gives a pod: PET_*, and WORLD_SIZE counts workers."""
    return {
        "PYTHONUNBUFFERED": "1", "MASTER_PORT": PORT, "PET_MASTER_PORT": PORT, "MASTER_ADDR": master,
        "PET_MASTER_ADDR": master, "WORLD_SIZE": str(nodes * workers_per_node), "RANK": str(rank),
        "PET_NODE_RANK": str(rank), "PET_NPROC_PER_NODE": str(workers_per_node), "PET_NNODES": str(nodes),
    }


def operator_elastic(nodes, endpoint_host):
    """What training-operator 1.7 and later gives every pod of an elastic job without a master.

    The empty PET_STANDALONE is the operator's own; torchrun dies of it.
    """
    return {
        "PYTHONUNBUFFERED": "1", "PET_RDZV_ENDPOINT": f"{endpoint_host}:{PORT}", "PET_RDZV_BACKEND": "c10d",
        "PET_NNODES": nodes, "PET_MAX_RESTARTS": "0", "PET_NPROC_PER_NODE": "1", "PET_STANDALONE": "",
    }
