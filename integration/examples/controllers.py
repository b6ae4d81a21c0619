"""What each platform's controller makes of a manifest: the pods with the variables that it adds to them.

pods(DOCUMENT) are the Pods as `kubectl get pod -o json` would show them, in the order of their ranks.
"""

import copy


def pods(document, runtime=None):
    """The Pods of one manifest. `runtime` is the ClusterTrainingRuntime that a TrainJob names."""
    if document["kind"] == "TrainJob":
        return train_job(document, runtime)
    return MAKERS[document["apiVersion"].split("/")[0], document["kind"]](document)


def pod(template, name, *, variables=(), hostname=None, subdomain=None, annotations=None):
    """A Pod from a template. `variables` are {name: value or an entry's `valueFrom`}, after those of the template."""
    made = {
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name, "namespace": "default",
            "annotations": {**template.get("metadata", {}).get("annotations", {}), **(annotations or {})},
        },
        "spec": copy.deepcopy(template["spec"]),
    }
    if hostname:
        made["spec"].setdefault("hostname", hostname)
    if subdomain:
        made["spec"].setdefault("subdomain", subdomain)
    for container in made["spec"]["containers"]:
        container.setdefault("env", []).extend(
            {"name": key, "valueFrom": value} if isinstance(value, dict) else {"name": key, "value": value}
            for key, value in dict(variables).items()
        )
    return made


def field(path):
    """A variable's value by the downward API."""
    return {"fieldRef": {"fieldPath": path}}


COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"


def pytorch_job(document):
    """kubeflow/training-operator@v1.9.4:pkg/controller.v1/pytorch/{envvar,elastic,master}.go."""
    job, spec = document["metadata"]["name"], document["spec"]
    replicas = spec["pytorchReplicaSpecs"]
    total = sum(replica["replicas"] for replica in replicas.values())
    per_node = spec.get("nprocPerNode", "auto")
    world = total * int(per_node) if per_node.isdigit() else total
    elastic = spec.get("elasticPolicy")
    made = []
    for role, replica in sorted(replicas.items()):  # Master before Worker
        for index in range(replica["replicas"]):
            variables = {"PYTHONUNBUFFERED": "1"}
            if "Master" in replicas:
                rank = str(index + (role == "Worker"))
                variables |= {
                    "MASTER_PORT": "23456", "PET_MASTER_PORT": "23456", "MASTER_ADDR": f"{job}-master-0",
                    "PET_MASTER_ADDR": f"{job}-master-0", "WORLD_SIZE": str(world), "RANK": rank,
                    "PET_NODE_RANK": rank,
                }
            variables["PET_NPROC_PER_NODE"] = per_node
            if elastic:
                variables |= {
                    "PET_RDZV_ENDPOINT": f"{job}-worker-0:23456", "PET_RDZV_BACKEND": elastic["rdzvBackend"],
                    "PET_NNODES": f"{elastic['minReplicas']}:{elastic['maxReplicas']}",
                    "PET_MAX_RESTARTS": str(elastic["maxRestarts"]),
                }
            else:
                variables["PET_NNODES"] = str(total)
            made.append(pod(replica["template"], f"{job}-{role.lower()}-{index}", variables=variables))
    return made


def train_job(document, runtime):
    """kubeflow/trainer@v2.3.0:pkg/runtime/framework/plugins/{torch/torch.go,jobset/builder.go}."""
    job, trainer = document["metadata"]["name"], document["spec"]["trainer"]
    (replicated,) = runtime["spec"]["template"]["spec"]["replicatedJobs"]
    template = copy.deepcopy(replicated["template"]["spec"]["template"])
    container = next(each for each in template["spec"]["containers"] if each["name"] == "node")
    container |= {key: trainer[key] for key in ("image", "command", "args", "env") if key in trainer}
    variables = {
        "PET_NNODES": str(trainer["numNodes"]), "PET_NPROC_PER_NODE": str(trainer.get("numProcPerNode", "auto")),
        "PET_NODE_RANK": field(f"metadata.annotations['{COMPLETION_INDEX}']"),
        "PET_MASTER_ADDR": f"{job}-node-0-0.{job}", "PET_MASTER_PORT": "29500",
    }
    return indexed(template, trainer["numNodes"], f"{job}-node-0", subdomain=job, variables=variables)


def indexed(template, completions, job, *, subdomain=None, variables=None, annotations=None):
    """The pods of an Indexed Job. Kubernetes documentation, "Jobs", "Completion mode"."""
    own_index = field(f"metadata.annotations['{COMPLETION_INDEX}']")
    return [
        pod(
            template, f"{job}-{index}-x7k2p", hostname=f"{job}-{index}", subdomain=subdomain,
            annotations={**(annotations or {}), COMPLETION_INDEX: str(index)},
            variables={**(variables or {}), "JOB_COMPLETION_INDEX": own_index},
        )
        for index in range(completions)
    ]


def indexed_job(document):
    assert document["spec"]["completionMode"] == "Indexed"
    return indexed(document["spec"]["template"], document["spec"]["completions"], document["metadata"]["name"])


def job_set(document):
    """kubernetes-sigs/jobset@08dfbdfd:pkg/controllers/jobset_controller.go labelAndAnnotateObject."""
    name = document["metadata"]["name"]
    return [
        each
        for replicated in document["spec"]["replicatedJobs"]
        for number in range(replicated["replicas"])
        for each in indexed(
            replicated["template"]["spec"]["template"], replicated["template"]["spec"]["completions"],
            f"{name}-{replicated['name']}-{number}", subdomain=name,
            annotations={"jobset.sigs.k8s.io/jobset-name": name, "jobset.sigs.k8s.io/restart-attempt": "0"},
        )
    ]


def leader_worker_set(document):
    """kubernetes-sigs/lws@060ab4d:pkg/utils/pod/pod_utils.go AddLWSVariables. The pods of the first group."""
    name, spec = document["metadata"]["name"], document["spec"]
    template, size = spec["leaderWorkerTemplate"]["workerTemplate"], spec["leaderWorkerTemplate"]["size"]
    return [
        pod(
            template, f"{name}-0" + (f"-{index}" if index else ""), subdomain=name,
            hostname=f"{name}-0" + (f"-{index}" if index else ""),
            variables={
                "LWS_LEADER_ADDRESS": f"{name}-0.{name}.default", "LWS_GROUP_SIZE": str(size),
                "LWS_WORKER_INDEX": str(index),
            },
        )
        for index in range(size)
    ]


def volcano_job(document):
    """volcano-sh/volcano@ed72c7c81:pkg/controllers/job/plugins/{env,svc,distributed-framework/pytorch}.

    A ConfigMap holds the svc plugin's lists; its keys' values are written out here.
    """
    job, spec = document["metadata"]["name"], document["spec"]
    plugins, made = spec["plugins"], []
    master = next((task["name"] for task in spec["tasks"] if task["name"] == "master"), None)
    total = sum(task["replicas"] for task in spec["tasks"])
    for task in spec["tasks"]:
        for index in range(task["replicas"]):
            variables = {}
            if "svc" in plugins or "pytorch" in plugins:  # the pytorch plugin wants the svc plugin's names, and adds it
                for each in spec["tasks"]:
                    key = each["name"].upper().replace("-", "_")
                    hosts = [f"{job}-{each['name']}-{number}.{job}" for number in range(each["replicas"])]
                    variables |= {f"VC_{key}_HOSTS": ",".join(hosts), f"VC_{key}_NUM": str(len(hosts))}
            if "env" in plugins:
                variables |= {"VK_TASK_INDEX": str(index), "VC_TASK_INDEX": str(index)}
            if "pytorch" in plugins:
                variables |= {
                    "MASTER_ADDR": f"{job}-{master}-0.{job}", "MASTER_PORT": "23456", "WORLD_SIZE": str(total),
                    "RANK": str(index + (task["name"] != master)),
                }
            name = f"{job}-{task['name']}-{index}"
            made.append(pod(
                task["template"], name, hostname=name, subdomain=job, variables=variables,
                annotations={"volcano.sh/job-name": job, "volcano.sh/task-spec": task["name"]},
            ))
    return made


MAKERS = {
    ("kubeflow.org", "PyTorchJob"): pytorch_job,
    ("batch.volcano.sh", "Job"): volcano_job,
    ("batch", "Job"): indexed_job,
    ("jobset.x-k8s.io", "JobSet"): job_set,
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): leader_worker_set,
}
