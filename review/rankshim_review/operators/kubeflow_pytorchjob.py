"""PyTorchJob (v1), read by config/platforms/kubeflow-pytorchjob.toml.

Sources: kubeflow/trainer@v1.9.4:pkg/controller.v1/pytorch/{envvar,master,elastic}.go (the variables, to every container),
pkg/apis/kubeflow.org/v1/pytorch_defaults.go (nprocPerNode, elasticPolicy, the port, restartPolicy OnFailure) and
pkg/controller.v1/common/service.go (a headless Service for each pod, of the pod's name),
pkg/webhooks/pytorch/pytorchjob_webhook.go (the container's name). 1.7 to 1.9 do the same; before
1.7 there is no PET_NODE_RANK, and RANK and WORLD_SIZE count the same pods.
"""

from __future__ import annotations

from ..pods import Cluster, Workload, make_pod, shown
from ..source import Field, whole_number

CONTAINER = "pytorch"
ROLES = ("Master", "Worker")


def workload(cluster: Cluster, document: Field) -> Workload:
    job, spec = document.get("metadata", "name").text("job"), document.get("spec")
    namespace = document.get("metadata", "namespace").text("default")
    replicas = {key.capitalize(): value for key, value in spec.get("pytorchReplicaSpecs").items()}
    counts = {role: replicas[role].get("replicas").number(1) for role in ROLES if role in replicas}
    total = sum(counts.values())
    policy = spec.get("elasticPolicy")
    made = Workload("PyTorchJob", job, document, total=total, nodes=total, restart_default="OnFailure",
                    bounded=bool(spec.get("runPolicy", "backoffLimit")))
    for role, count in counts.items():
        boxes = replicas[role].get("template", "spec", "containers")
        if boxes and CONTAINER not in [box.get("name").value for box in boxes.entries()]:
            made.faults.append((boxes, f"the operator refuses this job: no container is named {CONTAINER}"))
        policy_of_role = replicas[role].get("restartPolicy")
        if made.restart is None or policy_of_role.text("OnFailure") != "Never":
            made.restart = policy_of_role
        made.services |= {f"{job}-{role.lower()}-{index}" for index in range(count)}
        for index in shown(count):
            variables = {"PYTHONUNBUFFERED": "1"}
            per_node = spec.get("nprocPerNode").text("" if policy.get("nProcPerNode") else "auto")
            if "Master" in replicas:
                port, rank = _port(replicas["Master"]), str(index + (role == "Worker"))
                per = whole_number(per_node)
                world = total * (1 if per is None else per)
                variables.update({
                    "MASTER_PORT": port, "PET_MASTER_PORT": port, "MASTER_ADDR": f"{job}-master-0",
                    "PET_MASTER_ADDR": f"{job}-master-0", "WORLD_SIZE": str(world), "RANK": rank, "PET_NODE_RANK": rank,
                })
            if per_node:
                variables["PET_NPROC_PER_NODE"] = per_node
            variables.update(_elastic(job, policy, replicas) if policy else {"PET_NNODES": str(total)})
            made.pods.append(make_pod(cluster, replicas[role].get("template"), f"{job}-{role.lower()}-{index}",
                                      namespace=namespace, added=variables.items(), container=CONTAINER))
    return made


def _port(replica: Field) -> str:
    for container in replica.get("template", "spec", "containers").entries():
        for port in container.get("ports").entries() if container.get("name").value == CONTAINER else []:
            if port.get("name").value == "pytorchjob-port":
                return port.get("containerPort").text()
    return "23456"


def _elastic(job: str, policy: Field, replicas: dict[str, Field]) -> dict[str, str]:
    if "Worker" not in replicas:
        raise policy.mistake("the operator wants Worker replicas for an elastic job")
    workers = replicas["Worker"].get("replicas").number(1)
    least, most = policy.get("minReplicas"), policy.get("maxReplicas")
    least_number = least.number(most.number(workers))
    port = policy.get("rdzvPort").text(_port(replicas["Worker"]))
    found = {
        "PET_RDZV_ENDPOINT": f"{policy.get('rdzvHost').text(f'{job}-worker-0')}:{port}",
        "PET_RDZV_BACKEND": policy.get("rdzvBackend").text("c10d"),
        "PET_NNODES": f"{least_number}:{most.number(least_number)}",
    }
    for name, key in (("PET_MAX_RESTARTS", "maxRestarts"), ("PET_NPROC_PER_NODE", "nProcPerNode"), ("PET_RDZV_ID", "rdzvId")):
        if policy.get(key):
            found[name] = policy.get(key).text()
    if policy.get("rdzvConf"):
        found["PET_RDZV_CONF"] = ",".join(f"{entry.get('key').text()}={entry.get('value').text()}"
                                          for entry in policy.get("rdzvConf").entries())
    if policy.get("standalone").flag():
        found["PET_STANDALONE"] = ""
    return found
