#include <catch2/catch.hpp>

#include "node/fake_host_for_test.h"
#include "topology/resolve_for_test.h"

namespace rankshim::topology {

TEST_CASE("names set by hand beside a platform say what it leaves open, and change nothing else") {
  const std::vector<std::string> modelarts = {
      "MA_NUM_HOSTS=2", "MA_VJ_NAME=ma-job", "MA_TASK_NAME=worker",
      "MA_NUM_GPUS=8",  "VC_TASK_INDEX=1",   "VC_WORKER_HOSTS=ma-job-worker-0.ma-job,ma-job-worker-1.ma-job",
      "VC_WORKER_NUM=2"};
  const std::vector<std::string> slurm_step = {
      "SLURM_JOB_ID=77", "SLURM_STEP_ID=0",        "SLURM_NODEID=1",         "SLURM_PROCID=1",
      "SLURM_LOCALID=0", "SLURM_STEP_NUM_NODES=2", "SLURM_STEP_NUM_TASKS=2", "SLURM_STEP_NODELIST=n[1-2]",
      "SLURM_NTASKS=2",  "SLURM_NNODES=2",         "SLURM_JOB_NUM_NODES=2"};
  struct Case {
    std::vector<std::string> platform;
    std::vector<std::string> by_hand;
    std::string part;
    std::string nproc;
    std::string hostname = "some-host";
  };
  const std::vector<Case> cases = {
      {modelarts, {"MASTER_PORT=6060", "WORLD_SIZE=2"}, "node 1 of 2, master ma-job-worker-0.ma-job", "8"},
      {modelarts,
       {"MASTER_ADDR=ma-job-worker-0.ma-job", "MASTER_PORT=6060", "WORLD_SIZE=2", "RANK=1"},
       "node 1 of 2, master ma-job-worker-0.ma-job",
       "8"},
      {{"VC_WORKER_HOSTS=j-worker-0.j,j-worker-1.j", "VC_WORKER_NUM=2", "VC_TASK_INDEX=1"},
       {"MASTER_PORT=29500", "WORLD_SIZE=2"},
       "node 1 of 2, master j-worker-0.j",
       "1",
       "j-worker-1"},
      {slurm_step, {"PET_NPROC_PER_NODE=4"}, "node 1 of 2, master n1", "4"},
      {slurm_step, {"PET_NNODES=2:2", "PET_NODE_RANK=01"}, "node 1 of 2, master n1", "1"},
      {{"JOB_COMPLETION_INDEX=1"},
       {"MASTER_ADDR=j-0.j", "MASTER_PORT=29500", "PET_NNODES=2", "PET_NPROC_PER_NODE=8"},
       "node 1 of 2, master j-0.j",
       "8"},
      {{"PET_NNODES=2", "PET_NPROC_PER_NODE=8", "PET_NODE_RANK=1", "PET_MASTER_ADDR=a-master-0",
        "PET_MASTER_PORT=23456", "MASTER_ADDR=a-master-0", "MASTER_PORT=23456", "RANK=1", "WORLD_SIZE=16"},
       {"RANKSHIM_NPROC_PER_NODE=4"},
       "node 1 of 2, master a-master-0",
       "4"},
      {{"ARNOLD_ROLE=executor", "ARNOLD_EXECUTOR_NUM=1", "ARNOLD_ID=0", "ARNOLD_EXECUTOR_GPU=8",
        "ARNOLD_EXECUTOR_0_HOST=10.3.0.7"},
       {},
       "node 0 of 1, master 10.3.0.7",
       "8"},
      {{"ARNOLD_ROLE=worker", "ARNOLD_WORKER_NUM=2", "ARNOLD_ID=1", "ARNOLD_WORKER_GPU=8",
        "ARNOLD_WORKER_0_HOST=10.3.0.7", "ARNOLD_WORKER_0_PORT=9000,9001"},
       {},
       "node 1 of 2, master 10.3.0.7",
       "8"},
      {{"MLP_WORKER_NUM=1", "MLP_WORKER_GPU=8", "MLP_ROLE_INDEX=0", "MLP_WORKER_0_HOST=a",
        "MLP_WORKER_0_PORT=29500"},
       {},
       "node 0 of 1, master a",
       "8"},
      // spread unevenly, so that the number is not this node's
      {{"SLURM_JOB_ID=7", "SLURM_STEP_ID=0", "SLURM_STEP_NUM_NODES=4", "SLURM_STEP_NUM_TASKS=7",
        "SLURM_STEP_NODELIST=n[1-4]", "SLURM_STEP_TASKS_PER_NODE=2(x3),1", "SLURM_NODEID=3", "SLURM_PROCID=6",
        "SLURM_LOCALID=0"},
       {"NPROC_PER_NODE=2", "NNODES=4"},
       "rank 6 of 7, master n1",
       "2"},
  };
  for (const Case& wanted : cases) {
    std::vector<std::string> variables = wanted.platform;
    variables.insert(variables.end(), wanted.by_hand.begin(), wanted.by_hand.end());
    INFO(wanted.platform.front() << " " << (wanted.by_hand.empty() ? "" : wanted.by_hand.front()));
    node::FakeHost host(std::move(variables));
    host.name = wanted.hostname;
    const auto outcome = resolve(host);
    if (const auto* faults = std::get_if<Faults>(&outcome)) INFO(to_line(faults->front()));
    REQUIRE(std::holds_alternative<Topology>(outcome));
    CHECK(part_in_job(std::get<Topology>(outcome)) == wanted.part);
    CHECK(std::get<Topology>(outcome).facts.text(Fact::nproc_per_node) == wanted.nproc);
  }
}

TEST_CASE("an attempt is part of the run id, and so of the port, unless the user sets the run id") {
  const auto port = [](std::vector<std::string> options, const char* attempt) {
    const node::FakeHost host({"AWS_BATCH_JOB_ID=j#1", "AWS_BATCH_JOB_NODE_INDEX=1",
                               "AWS_BATCH_JOB_NUM_NODES=2", "AWS_BATCH_JOB_MAIN_NODE_INDEX=0",
                               "AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS=10.0.0.1",
                               std::string("AWS_BATCH_JOB_ATTEMPT=") + attempt});
    const auto outcome = resolve(host, std::move(options));
    REQUIRE(std::holds_alternative<Topology>(outcome));
    const Facts& facts = std::get<Topology>(outcome).facts;
    return std::string(facts.text(Fact::run_id)) + " " + std::string(facts.text(Fact::master_port));
  };
  CHECK(port({}, "1") == "j " + std::to_string(default_port("j")));
  CHECK(port({}, "2") == "j.1 " + std::to_string(default_port("j.1")));
  CHECK(port({"--run-id=mine"}, "2") == "mine " + std::to_string(default_port("mine")));
}

}  // namespace rankshim::topology
