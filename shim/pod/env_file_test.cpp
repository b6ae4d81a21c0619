#include "pod/env_file.h"

#include <catch2/catch.hpp>

namespace rankshim {
namespace {

using Words = std::vector<std::string>;
using namespace std::string_literals;

Recorded read(std::string_view text, std::string_view container = {}) {
  auto read = read_env_file("pod", text, container);
  if (const auto* faults = std::get_if<Faults>(&read)) FAIL(to_line(faults->front()));
  return std::get<Recorded>(read);
}

std::string refusal(std::string_view text, std::string_view container = {}) {
  const auto read = read_env_file("pod", text, container);
  return std::holds_alternative<Faults>(read) ? std::get<Faults>(read).front().what : "none";
}

TEST_CASE("what env -0 printed is taken as it is") {
  const Recorded pod = read("A=1\n2\0HOSTNAME=job-worker-1\0B=x=y\0"s);
  CHECK(pod.environment.entries() == Words{"A=1\n2", "HOSTNAME=job-worker-1", "B=x=y"});
  CHECK(pod.host_name == "job-worker-1");
}

TEST_CASE("in what env printed, a line without a name goes on the value before it") {
  const Recorded pod =
      read("# seen in a pod\nKEY=-----BEGIN\nabc+/==\n\n-----END\r\nBASH_FUNC_m%%=() {  x=1\n}\nRANK=1\n");
  CHECK(pod.environment.entries() ==
        Words{"KEY=-----BEGIN\nabc+/==\n\n-----END", "BASH_FUNC_m%%=() {  x=1\n}", "RANK=1"});
}

constexpr std::string_view pod_yaml = R"(apiVersion: v1
kind: Pod
metadata:
  annotations:
    batch.kubernetes.io/job-completion-index: "2"
    note: |
      two
      lines: here
  name: job-node-0-2-x7k2p   # a comment
  namespace: team
spec:
  containers:
  - args: []
    env:
    - name: PET_NNODES
      value: "3"
    - name: PET_NODE_RANK
      valueFrom:
        fieldRef:
          apiVersion: v1
          fieldPath: metadata.annotations['batch.kubernetes.io/job-completion-index']
    - name: PET_MASTER_ADDR
      value: job-node-0-0.job
    - name: ENDPOINT
      value: $(PET_MASTER_ADDR):29500 $(NOBODY) $$(PET_NNODES)
    - name: LONG
      value: 'it''s folded
        over lines'
    - name: SECRET
      valueFrom:
        secretKeyRef:
          key: k
          name: n
    - name: CPUS
      valueFrom:
        resourceFieldRef:
          resource: limits.cpu
    - name: EMPTY
    image: x
    resources:
      limits:
        cpu: "4"
  - name: sidecar
    env:
    - name: OTHER
      value: "1"
  hostname: job-node-0-2
  subdomain: job
status:
  podIP: 10.1.2.3
)";

TEST_CASE("a Pod gives the first container's variables, with what they refer to, and its names") {
  const Recorded pod = read(pod_yaml);
  CHECK(pod.environment.entries() ==
        Words{"PET_NNODES=3", "PET_NODE_RANK=2", "PET_MASTER_ADDR=job-node-0-0.job",
              "ENDPOINT=job-node-0-0.job:29500 $(NOBODY) $(PET_NNODES)", "LONG=it's folded over lines",
              "CPUS=4", "EMPTY=", "HOSTNAME=job-node-0-2"});
  CHECK(pod.host_name == "job-node-0-2");
  CHECK(pod.address == "10.1.2.3");
  CHECK(pod.hosts == "10.1.2.3\tjob-node-0-2.job.team.svc.cluster.local\tjob-node-0-2\n");
  CHECK(pod.notes == Words{"of the Pod's containers, only the first is read; name another with --container",
                           "SECRET is left out, its value comes from secretKeyRef"});
}

TEST_CASE("the annotation that kubectl follows chooses the container") {
  std::string text(pod_yaml);
  text.replace(text.find("    note: |"), 0, "    kubectl.kubernetes.io/default-container: sidecar\n");
  CHECK(read(text).environment.get("OTHER") == "1");
}

constexpr std::string_view pod_json = R"json({
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"annotations": {"batch.kubernetes.io/job-completion-index": "2", "note": "two\nlines: here\n"},
                 "name": "job-node-0-2-x7k2p", "namespace": "team"},
    "spec": {
        "containers": [
            {"args": [], "env": [
                {"name": "PET_NNODES", "value": "3"},
                {"name": "PET_NODE_RANK", "valueFrom": {"fieldRef": {"apiVersion": "v1",
                    "fieldPath": "metadata.annotations['batch.kubernetes.io/job-completion-index']"}}},
                {"name": "PET_MASTER_ADDR", "value": "job-node-0-0.job"},
                {"name": "ENDPOINT", "value": "$(PET_MASTER_ADDR):29500 $(NOBODY) $$(PET_NNODES)"},
                {"name": "LONG", "value": "it's folded over lines"},
                {"name": "SECRET", "valueFrom": {"secretKeyRef": {"key": "k", "name": "n"}}},
                {"name": "CPUS", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
                {"name": "EMPTY"}],
             "image": "x", "resources": {"limits": {"cpu": 4}}, "stdin": true, "lifecycle": null},
            {"name": "sidecar", "env": [{"name": "OTHER", "value": "1"}]}],
        "hostname": "job-node-0-2", "subdomain": "job"},
    "status": {"podIP": "10.1.2.3"}
})json";

void check_equal(const Recorded& a, const Recorded& b) {
  CHECK(a.environment.entries() == b.environment.entries());
  CHECK(a.host_name == b.host_name);
  CHECK(a.address == b.address);
  CHECK(a.hosts == b.hosts);
  CHECK(a.notes == b.notes);
}

TEST_CASE("a Pod as JSON, and a List of it, give what its YAML gives") {
  check_equal(read(pod_json), read(pod_yaml));
  const std::string pod(pod_json);
  check_equal(read("{\"items\": [" + pod + "], \"kind\": \"List\"}"), read(pod_yaml));
  check_equal(read("kind: List\nitems:\n- kind: Pod\n  metadata:\n    name: a\n"),
              read("kind: Pod\nmetadata:\n  name: a\n"));
  CHECK(refusal("{\"kind\": \"List\", \"items\": [" + pod + "," + pod + "]}") ==
        "pod: it is a List of several Pods, and one is read");
  CHECK(refusal("{\"kind\": \"List\", \"items\": []}") == "pod: its kind is missing, not Pod");
}

TEST_CASE("a container is chosen by its name, else because it runs rankshim") {
  constexpr std::string_view pod = R"(kind: Pod
spec:
  initContainers:
  - name: copy
    command: []
    args:
    - rankshim
    env:
    - name: WHO
      value: copy
  containers:
  - name: proxy
    args:
    - --cluster=rankshim
    env:
    - name: WHO
      value: proxy
  - name: trainer
    command:
    - sh
    - -c
    - |
      /opt/rankshim -- train.py
    env:
    - name: WHO
      value: trainer
)";
  CHECK(read(pod).environment.get("WHO") == "trainer");
  CHECK(read(pod).notes.empty());
  for (const char* name : {"copy", "proxy", "trainer"}) {
    CHECK(read(pod, name).environment.get("WHO") == name);
    CHECK(read(pod, name).notes.empty());
  }
  CHECK(refusal(pod, "sidecar") ==
        "the Pod has no container sidecar; its containers are proxy, trainer, copy");
  CHECK(refusal("A=1\n", "trainer") == "pod is not a Pod, so it has no containers");
  CHECK(refusal("A=1\0"s, "trainer") == "pod is not a Pod, so it has no containers");
  std::string both(pod);
  both.replace(both.find("--cluster="), 10, "/opt/");
  CHECK(read(both).environment.get("WHO") == "proxy");
  CHECK(read(both).notes == Words{"of the Pod's containers that run rankshim, only the first, proxy, is "
                                  "read; name another with --container"});
  both.replace(both.find("spec:"), 0,
               "metadata:\n  annotations:\n    kubectl.kubernetes.io/default-container: trainer\n");
  CHECK(read(both).environment.get("WHO") == "trainer");
  CHECK(read(both).notes.empty());
}

TEST_CASE("what is no pod is refused with its line") {
  CHECK(refusal("") == "pod: neither variables nor a Pod");
  CHECK(refusal("hello world\n") == "pod: neither variables nor a Pod");
  CHECK(refusal("{\"kind\": \"Job\"}\n") == "pod: its kind is Job, not Pod");
  CHECK_THAT(refusal("{\n\"kind\": Pod}\n"), Catch::StartsWith("pod:2: it is not JSON: "));
  std::string deep = "{\"a\":";
  for (int i = 0; i < 100; ++i) deep += '[';
  CHECK(refusal(deep + "1" + std::string(100, ']') + "}") == "pod:1: the document is too deep");
  CHECK(refusal("kind: Job\n") == "pod: its kind is Job, not Pod");
  CHECK(refusal("apiVersion: v1\n") == "pod: its kind is missing, not Pod");
  CHECK(refusal("kind: Pod\nx: \"open\n") ==
        "pod:3: it is not YAML: while scanning a quoted scalar from line 2, found unexpected end of stream");
  CHECK(refusal("kind: Pod\nword\n") ==
        "pod:3: it is not YAML: while scanning a simple key from line 2, could not find expected ':'");
}

}  // namespace
}  // namespace rankshim
