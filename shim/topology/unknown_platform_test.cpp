#include "topology/resolution.h"

#include <catch2/catch.hpp>

#include "node/fake_host_for_test.h"

namespace rankshim::topology {
namespace {

using Words = std::vector<std::string>;

/// On a node with the addresses 10.0.0.1 and fd00::1.
Words signs(Words entries) {
  node::FakeHost host(std::move(entries));
  host.own_addresses = {"127.0.0.1", "::1", "10.0.0.1", "fd00::1"};
  return signs_of_several_nodes(host);
}

}  // namespace

TEST_CASE("an index above 0 and a number above 1 are signs of several nodes") {
  for (const char* sign :
       {"FOO_REPLICA=1", "FOO_REPLICA_TOTAL=2", "ACME_NODE_RANK=3", "ACME_POD_RANK=1", "NODE_INDEX=1",
        "FOO_TASK_INDEX=7", "FOO_WORKER_INDEX=1", "FOO_NNODES=2", "NUM_NODES=4", "FOO_NODE_COUNT=2",
        "TOTAL_NODES=2", "FOO_NODES=2", "ACME_WORLD_SIZE=16", "FOO_NUM_MACHINES=2", "POD_INDEX=1",
        "MYJOB_TASK_COUNT=3", "SCORE_NODE_RANK=1", "WORKSHOP_NODE_RANK=1", "GEMINI_NODE_RANK=1",
        "RAY_NODE_RANK=1", "MONARCH_SERVICE_PROC_RANK=1", "FOO_NUM_PODS=2", "DET_CONTAINER_RANK=1",
        "ACME_INSTANCE_RANK=1", "ACME_SERVER_RANK=1", "ACME_PEER_RANK=1", "ACME_AGENT_RANK=1",
        "ACME_VM_RANK=1", "MY_RANK=1", "DIST_RANK=1", "MASTER_IP=10.0.0.9",
        // with the quotes of an env file
        "NODE_INDEX='1'", "ACME_NNODES=\"2\"", "HEAD_IP=\"10.0.0.9\"", "NODE_IPS='10.0.0.1,10.0.0.2'"}) {
    INFO(sign);
    CHECK(signs({"PATH=/bin", sign}) == std::vector<std::string>{sign});
  }
}

TEST_CASE("an index and a number of one prefix are a sign together, on node 0 too") {
  CHECK(signs({"ROCKET_INDEX=0", "ROCKET_SIZE=2"}) == std::vector<std::string>{"ROCKET_INDEX=0"});
  CHECK(signs({"ROCKET_INDEX='0'", "ROCKET_SIZE=\"2\""}) == std::vector<std::string>{"ROCKET_INDEX='0'"});
  CHECK(signs({"ROCKET_NUM=3", "ROCKET_ID=2"}) == std::vector<std::string>{"ROCKET_ID=2"});
  CHECK(signs({"ROCKET_INDEX=3"}).empty());
  CHECK(signs({"ROCKET_SIZE=2"}).empty());
  CHECK(signs({"ROCKET_INDEX=2", "ROCKET_SIZE=2"}).empty());
  CHECK(signs({"ROCKET_INDEX=0", "ROCKET_SIZE=1"}).empty());
  CHECK(signs({"ROCKET_INDEX=0", "OTHER_SIZE=2"}).empty());
}

TEST_CASE("an index beside a number with the plural is a sign, on node 0 too") {
  CHECK(signs({"SNOW_JOB_INDEX=0", "SNOW_JOBS_COUNT=2"}) == std::vector<std::string>{"SNOW_JOB_INDEX=0"});
  CHECK(signs({"JOB_INDEX=0", "JOBS_COUNT=2"}) == std::vector<std::string>{"JOB_INDEX=0"});
  CHECK(signs({"BPS_WORKER_ID=0", "BPS_NUM_WORKER=2"}) == std::vector<std::string>{"BPS_WORKER_ID=0"});
  CHECK(signs({"PROC_ID=0", "NUM_PROCS=2"}) == std::vector<std::string>{"PROC_ID=0"});
  CHECK(signs({"SNOW_JOB_INDEX=0", "SNOW_JOBS_COUNT=1"}).empty());
  CHECK(signs({"JOB_INDEX=0", "JOB_TOTAL=2"}).empty());
}

TEST_CASE("a place to meet and a list of addresses are signs of several nodes") {
  for (const char* sign :
       {"RDZV_ENDPOINT=etcd:2379", "ACME_RDZV_ENDPOINT=10.0.0.1", "MLRS_HEAD_IP=10.0.0.1", "HEAD_IP=fd00::1",
        "HEAD_IP=[fd00::1]:80", "WORKER_0_HOST=w0", "ROLE_INDEX=1", "ACME_LEADER_ADDRESS=a.b",
        "ENTRY_ADDRESS=a.b", "COORDINATOR_ADDRESS=10.0.0.9:1234", "ACME_MAIN_IP=10.0.0.9",
        "ACME_NODE_IPS=10.0.0.1,10.0.0.2", "NODE_IPS=10.0.0.1 10.0.0.2",
        R"(NODE_IPS=["10.0.0.1", "10.0.0.2"])", "ACME_PEERS=10.0.0.1,10.0.0.2",
        "ACME_HOSTS=10.0.0.1:80,10.0.0.2:80", "ACME_NODE_IPS=fd00::1,fd00::2"}) {
    INFO(sign);
    CHECK(signs({"PATH=/bin", sign}) == std::vector<std::string>{sign});
  }
  for (const char* other :
       {"RDZV_ENDPOINT=127.0.0.1:29400", "RDZV_ENDPOINT=localhost:0", "RDZV_ENDPOINT=", "HEAD_IP=::1",
        "HEAD_IP=", "CEPH_MON_HOSTS=10.9.0.1,10.9.0.2", "NODE_IPS=10.0.0.1", "NODE_IPS=10.0.0.1,10.0.0.1",
        "POD_IPS=10.0.0.1,fd00::1", "IPS=3", "NO_PROXY=10.0.0.1,10.0.0.2", "ALLOWED_HOSTS=10.0.0.1,10.0.0.2",
        "REDIS_NODES=10.0.0.1,10.0.0.2", "DNS_IPS=10.0.0.1,10.0.0.2", "ACME_HOSTS=*",
        "KUBERNETES_SERVICE_HOST=10.0.0.1"}) {
    INFO(other);
    CHECK(signs({other}).empty());
  }
}

TEST_CASE("what other programs have too is a sign only beside what belongs to a job of several nodes") {
  struct Row {
    Words beside;
    Words signs;  ///< those of `weak` that count beside it
  };
  const Words weak = {"NODE_ID=10",         "ZEEBE_BROKER_CLUSTER_NODEID=2",
                      "MACHINE_ID=3",       "REPMGR_NODE_ID=1001",
                      "A_REPLICA_ID=2",     "GALORE_RANK=128",
                      "DORA_RANK=16",       "ACME_RANK=1",
                      "QUANT_GROUP_SIZE=4", "NUM_PROCESSES=8",
                      "X_MEMBERS=3",        "CEPH_MON_HOSTS=10.9.0.1,10.9.0.2"};
  const Words ids(weak.begin(), weak.begin() + 5), groups(weak.begin() + 8, weak.begin() + 11);
  const auto with = [](Words words, const Words& more) {
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  const std::vector<Row> rows = {
      {{}, groups},  // beside the ids
      {{"MASTER_ADDR=m"}, with(ids, groups)},
      {{"RANK=0", "WORLD_SIZE=1", "MASTER_ADDR=localhost"}, groups},
      {{"B_HEAD_IP=10.0.0.9"}, with(ids, groups)},
      {{"B_NNODES=2"}, with(with(ids, groups), {weak.back()})},
      {{"ACME_WORLD_SIZE=2"}, with(with(with(ids, {"ACME_RANK=1"}), groups), {weak.back()})},
      {{"B_NODE_INDEX=0"}, with(groups, {weak.back()})},
  };
  for (const Row& row : rows) {
    Words all = weak;
    all.insert(all.end(), row.beside.begin(), row.beside.end());
    Words found = signs(all);
    std::erase_if(found, [&](const std::string& one) { return std::ranges::count(row.beside, one) != 0; });
    CAPTURE(row.beside);
    CHECK(found == row.signs);
  }
  for (const std::string& one : weak) {
    CAPTURE(one);
    CHECK(signs({one}).empty());
  }
  // what accelerate's names and a model's say of one node
  for (const Words& quiet :
       {Words{"NUM_PROCESSES=8", "NUM_MACHINES=1", "MACHINE_RANK=0"},
        Words{"ACCELERATE_NUM_PROCESSES=8", "ACCELERATE_NUM_MACHINES=1", "ACCELERATE_MACHINE_RANK=0"},
        Words{"NNODES=1", "GROUP_SIZE=128", "NODE_INDEX=0"}, Words{"GROUP_SIZE=64", "NODE_ID=0"}}) {
    CAPTURE(quiet);
    CHECK(signs(quiet).empty());
  }
  // WORLD_SIZE=1 is an image's, and another owner's number may count anything.
  CHECK(signs({"GROUP_SIZE=2", "WORKER_INDEX=0", "WORLD_SIZE=1"}) == Words{"GROUP_SIZE=2"});
  CHECK(signs({"GROUP_SIZE=2", "WORKER_INDEX=0", "ACME_REPLICA_COUNT=1"}) == Words{"GROUP_SIZE=2"});
  CHECK(signs({"GROUP_SIZE=2", "WORKER_INDEX=0"}) == Words{"GROUP_SIZE=2"});
  CHECK(signs({"NODE_IPS=10.0.0.8,10.0.0.9", "NODE_INDEX=0"}) == Words{"NODE_IPS=10.0.0.8,10.0.0.9"});
}

TEST_CASE("one node of one is no sign") {
  CHECK(signs({"FOO_REPLICA=0", "FOO_REPLICA_TOTAL=1", "ACME_NODE_RANK=0", "FOO_NNODES=1", "NODE_COUNT="})
            .empty());
}

TEST_CASE("what counts other things is no sign of several nodes") {
  for (const char* other :
       {// tasks that have nothing to do with each other
        "NOMAD_ALLOC_INDEX=2", "CLOUD_RUN_TASK_INDEX=3", "CLOUD_RUN_TASK_COUNT=10", "JOB_INDEX=4",
        "SGE_TASK_ID=7", "SLURM_ARRAY_TASK_ID=7", "SLURM_ARRAY_TASK_COUNT=9", "AWS_BATCH_JOB_ARRAY_INDEX=7",
        "BATCH_TASK_INDEX=3", "BATCH_TASK_COUNT=10", "PBS_ARRAY_INDEX=2", "LSB_JOBINDEX=3",
        "CF_INSTANCE_INDEX=1", "INSTANCE_INDEX=1", "NODE_APP_INSTANCE=1", "PARALLEL_SEQ=4",
        // CI systems and test runners
        "CI_NODE_INDEX=2", "CI_NODE_TOTAL=4", "HARNESS_NODE_INDEX=1", "HARNESS_NODE_TOTAL=3",
        "CIRCLE_NODE_INDEX=1", "CIRCLE_NODE_TOTAL=4", "BUILDKITE_PARALLEL_JOB=1",
        "BUILDKITE_PARALLEL_JOB_COUNT=5", "GITHUB_RUN_NUMBER=71", "TEST_SHARD_INDEX=1",
        "SEMAPHORE_JOB_INDEX=2", "SEMAPHORE_JOB_COUNT=4", "BITBUCKET_PARALLEL_STEP=1",
        // Kubernetes' links, servers, a web shop's
        "TASK_SERVICE_PORT=80", "REPLICA_SERVICE_PORT_HTTP=8080", "NODE_PORT=3000", "SHOP_REPLICA_COUNT=3",
        "WEB_REPLICAS_COUNT=3", "REDIS_REPLICA_COUNT=2", "KAFKA_NODE_ID=2", "KAFKA_CFG_NODE_ID=2",
        "AUTH_SERVICE_REPLICA_COUNT=3", "SKYPILOT_SERVE_REPLICA_ID=2", "MAX_NODES=8", "PAGE_RANK=3",
        "SEARCH_RANK=3", "ES_NODES=3", "NODE_APP_INSTANCE=1", "NODE_VERSION=18", "NODE_ENV=production",
        "NODE_MAJOR=20", "WEB_CONCURRENCY=4", "CART_ITEM_COUNT=3", "ORDER_INDEX=4",
        // one machine's
        "OMP_NUM_THREADS=8", "MKL_NUM_THREADS=8", "NUMBER_OF_PROCESSORS=16", "LOCAL_RANK=1",
        "LOCAL_WORLD_SIZE=8", "OMPI_COMM_WORLD_LOCAL_RANK=1", "GPU_COUNT=8", "NVIDIA_DEVICE_INDEX=3",
        "HOSTNAME=node-3", "RANDOM_INDEX=4", "SHLVL=2", "COLUMNS=120", "NUM_WORKERS=8", "UVICORN_WORKERS=4",
        // a model's
        "LORA_RANK=64", "QLORA_RANK=16", "GALORE_RANK=128", "GPTQ_GROUP_SIZE=128", "NUM_TASKS=4",
        "FOLD_INDEX=3", "VLLM_DP_RANK=1",
        // no number, and larger than one
        "FOO_NODE_ID=a1", "FOO_NODE_ID=4294967296", "FOO_NODE_RANK=-1", "FOO_NODES=a,b", "FOO_RANK=1.5"}) {
    INFO(other);
    CHECK(signs({other}).empty());
  }
  CHECK(signs({"CI_NODE_INDEX=2", "CI_NODE_COUNT=4", "SHARD_INDEX=0", "SHARD_COUNT=4", "SPLIT_ID=1",
               "SPLIT_TOTAL=2"})
            .empty());
}

}  // namespace rankshim::topology
