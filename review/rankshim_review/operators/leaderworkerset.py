"""LeaderWorkerSet, each of whose groups is a job, read by config/platforms/leaderworkerset.toml.

Sources: kubernetes-sigs/lws@060ab4d:pkg/utils/pod/pod_utils.go AddLWSVariables (the variables, before those of the template,
of which it drops its own names), pkg/webhooks/pod_webhook.go and pkg/controllers/pod_controller.go (names, the subdomain),
pkg/utils/controller/controller_utils.go (the headless Service).
"""

from __future__ import annotations

from ..pods import Cluster, Workload, make_pod, shown
from ..source import Field


def workload(cluster: Cluster, document: Field) -> Workload:
    name, spec = document.get("metadata", "name").text("lws"), document.get("spec")
    namespace = document.get("metadata", "namespace").text("default")
    groups, inside = spec.get("replicas").number(1), spec.get("leaderWorkerTemplate")
    size, workers = inside.get("size").number(1), inside.get("workerTemplate")
    leader = inside.get("leaderTemplate") or workers
    unique = spec.get("networkConfig", "subdomainPolicy").value == "UniquePerReplica"
    made = Workload("LeaderWorkerSet", name, document, total=groups * size, nodes=size, restart_default="Always",
                    restart=workers.get("spec", "restartPolicy"))
    # The groups differ only in their number, so one is shown.
    group = f"{name}-0"
    subdomain = group if unique else name
    made.services = {subdomain}
    variables = {"LWS_LEADER_ADDRESS": f"{group}.{subdomain}.{namespace}", "LWS_GROUP_SIZE": str(size)}
    for index in shown(size):
        own = f"{group}-{index}" if index else group
        made.pods.append(make_pod(
            cluster, workers if index else leader, own, namespace=namespace, hostname=own, subdomain=subdomain, first=True,
            added={**variables, "LWS_WORKER_INDEX": str(index)}.items(),
            labels={"leaderworkerset.sigs.k8s.io/name": name, "leaderworkerset.sigs.k8s.io/group-index": "0",
                    "leaderworkerset.sigs.k8s.io/worker-index": str(index)},
            annotations={"leaderworkerset.sigs.k8s.io/size": str(size)}))
    return made
