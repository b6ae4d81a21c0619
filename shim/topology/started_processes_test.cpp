#include <catch2/catch.hpp>

#include "base/text.h"
#include "node/fake_host_for_test.h"
#include "topology/resolve_for_test.h"

namespace rankshim::topology {

using node::FakeHost;

TEST_CASE("torch's variables made of Slurm's count processes, those of the first task too") {
  const FakeHost host({"MASTER_ADDR=n1", "MASTER_PORT=29500", "WORLD_SIZE=8", "RANK=0", "LOCAL_RANK=0",
                       "SLURM_PROCID=0", "SLURM_LOCALID=0", "SLURM_NTASKS=8"});
  const auto outcome = resolve(host);
  REQUIRE(std::holds_alternative<Topology>(outcome));
  CHECK(part_in_job(std::get<Topology>(outcome)) == "rank 0 of 8, master n1");
}

TEST_CASE("RANK, WORLD_SIZE and LOCAL_RANK together are a process that something has started") {
  struct Case {
    std::vector<std::string> variables;
    std::string part;
    std::string local_world_size;
  };
  const std::vector<std::string> task = {
      "SLURM_JOB_ID=1",         "SLURM_STEP_ID=0",        "SLURM_STEP_NUM_NODES=1",
      "SLURM_STEP_NUM_TASKS=1", "SLURM_STEP_NODELIST=n1", "SLURM_NODEID=0",
      "SLURM_PROCID=0",         "SLURM_LOCALID=0",        "SLURM_GPUS_ON_NODE=8"};
  const auto with = [](std::vector<std::string> all, const std::vector<std::string>& more) {
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  const std::vector<Case> cases = {
      // DeepSpeed's launcher (deepspeed/launcher/launch.py)
      {{"RANK=9", "LOCAL_RANK=1", "WORLD_SIZE=16", "LOCAL_SIZE=8", "CROSS_RANK=1", "CROSS_SIZE=2",
        "MASTER_ADDR=10.0.0.1", "MASTER_PORT=29500"},
       "rank 9 of 16, master 10.0.0.1",
       ""},
      {{"RANK=0", "LOCAL_RANK=0", "WORLD_SIZE=16", "MASTER_ADDR=m", "MASTER_PORT=1"},
       "rank 0 of 16, master m",
       ""},
      // Ray Train (ray/train/torch/config.py)
      {{"RANK=5", "LOCAL_RANK=1", "WORLD_SIZE=8", "LOCAL_WORLD_SIZE=4", "NODE_RANK=1", "MASTER_ADDR=10.0.0.1",
        "MASTER_PORT=1"},
       "rank 5 of 8, master 10.0.0.1",
       "4"},
      {{"RANK=8", "LOCAL_RANK=0", "WORLD_SIZE=12", "LOCAL_WORLD_SIZE=4", "NODE_RANK=1", "NNODES=2",
        "MASTER_ADDR=10.0.0.1", "MASTER_PORT=1"},
       "rank 8 of 12, master 10.0.0.1",
       "4"},
      // a worker of Spark's TorchDistributor (pyspark/ml/torch/distributor.py), without torchrun's own names
      {{"RANK=1", "LOCAL_RANK=0", "WORLD_SIZE=2", "LOCAL_WORLD_SIZE=1", "NODE_RANK=1", "MASTER_ADDR=a",
        "MASTER_PORT=1"},
       "rank 1 of 2, master a",
       "1"},
      // inside a platform's node, of whose accelerators it need not use all
      {{"DSTACK_NODES_NUM=2", "DSTACK_NODE_RANK=1", "DSTACK_MASTER_NODE_IP=10.0.0.1",
        "DSTACK_GPUS_PER_NODE=8", "RANK=5", "LOCAL_RANK=1", "WORLD_SIZE=8", "LOCAL_WORLD_SIZE=4",
        "MASTER_ADDR=head"},
       "rank 5 of 8, master head",
       "4"},
      {with(task, {"RANK=2", "LOCAL_RANK=2", "WORLD_SIZE=8"}), "rank 2 of 8, master n1", "8"},
      {with(task, {"RANK=0", "LOCAL_RANK=0", "WORLD_SIZE=8", "LOCAL_WORLD_SIZE=8"}), "rank 0 of 8, master n1",
       "8"},
      {{"SLURM_JOB_ID=1", "SLURM_JOB_NUM_NODES=1", "SLURM_JOB_NODELIST=n1", "RANK=2", "LOCAL_RANK=2",
        "WORLD_SIZE=8"},
       "rank 2 of 8, master n1",
       "8"},
      // as the platform has it: each node's one process is its launcher
      {with(task, {"RANK=0", "LOCAL_RANK=0", "WORLD_SIZE=1"}), "node 0 of 1, master n1", ""},
      {{"DSTACK_NODES_NUM=2", "DSTACK_NODE_RANK=1", "DSTACK_MASTER_NODE_IP=10.0.0.1", "RANK=1",
        "LOCAL_RANK=0", "WORLD_SIZE=2"},
       "node 1 of 2, master 10.0.0.1",
       ""},
      // a user who sets the node has a launcher there
      {{"RANK=9", "LOCAL_RANK=1", "WORLD_SIZE=16", "MASTER_ADDR=m", "RANKSHIM_NNODES=2",
        "RANKSHIM_NODE_RANK=1"},
       "node 1 of 2, master m",
       ""},
  };
  for (const Case& wanted : cases) {
    INFO(joined(wanted.variables, " "));
    const auto outcome = resolve(FakeHost(wanted.variables));
    if (const auto* faults = std::get_if<Faults>(&outcome)) FAIL(to_line(faults->front()));
    const auto& topology = std::get<Topology>(outcome);
    CHECK(part_in_job(topology) == wanted.part);
    CHECK(topology.facts.text(Fact::local_world_size) == wanted.local_world_size);
  }
}

TEST_CASE("MPI's one process of a node is the node's launcher") {
  struct Case {
    std::vector<std::string> variables;
    std::string part;
  };
  const std::vector<Case> cases = {
      {{"OMPI_COMM_WORLD_SIZE=2", "OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_LOCAL_SIZE=1",
        "OMPI_COMM_WORLD_LOCAL_RANK=0", "OMPI_COMM_WORLD_NODE_RANK=0", "PMIX_RANK=1", "MASTER_ADDR=m"},
       "node 1 of 2, master m"},
      {{"OMPI_COMM_WORLD_SIZE=1", "OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_LOCAL_SIZE=1",
        "OMPI_COMM_WORLD_LOCAL_RANK=0"},
       "node 0 of 1, master 127.0.0.1"},
      {{"PMI_RANK=1", "PMI_SIZE=2", "MPI_LOCALRANKID=0", "MPI_LOCALNRANKS=1", "MASTER_ADDR=m",
        "NPROC_PER_NODE=8"},
       "node 1 of 2, master m"},
      {{"MV2_COMM_WORLD_RANK=1", "MV2_COMM_WORLD_SIZE=2", "MV2_COMM_WORLD_LOCAL_RANK=0",
        "MV2_COMM_WORLD_LOCAL_SIZE=1", "MASTER_ADDR=m"},
       "node 1 of 2, master m"},
      {{"PALS_RANKID=1", "PALS_NODEID=1", "PALS_LOCAL_RANKID=0", "PALS_LOCAL_SIZE=1", "PMI_RANK=1",
        "PMI_SIZE=2", "MASTER_ADDR=m"},
       "node 1 of 2, master m"},
      {{"JSM_NAMESPACE_RANK=1", "JSM_NAMESPACE_SIZE=2", "JSM_NAMESPACE_LOCAL_RANK=0",
        "JSM_NAMESPACE_LOCAL_SIZE=1", "MASTER_ADDR=m"},
       "node 1 of 2, master m"},
      // what rankshim itself has written there
      {{"OMPI_COMM_WORLD_SIZE=2", "OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_LOCAL_SIZE=1",
        "OMPI_COMM_WORLD_LOCAL_RANK=0", "NNODES=2", "NODE_RANK=1", "NPROC_PER_NODE=1", "RANK=1",
        "WORLD_SIZE=2", "MASTER_ADDR=m", "MASTER_PORT=1"},
       "node 1 of 2, master m"},
      // three processes on two nodes, for each source of the number of nodes
      {{"OMPI_COMM_WORLD_SIZE=3", "OMPI_COMM_WORLD_RANK=2", "OMPI_COMM_WORLD_LOCAL_SIZE=1",
        "OMPI_COMM_WORLD_LOCAL_RANK=0", "NNODES=2", "MASTER_ADDR=m"},
       "rank 2 of 3, master m"},
      {{"OMPI_COMM_WORLD_SIZE=2", "OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_LOCAL_SIZE=1",
        "OMPI_COMM_WORLD_LOCAL_RANK=0", "RANKSHIM_RANK_UNIT=process", "MASTER_ADDR=m"},
       "rank 1 of 2, master m"},
      {{"SLURM_JOB_ID=7", "SLURM_STEP_ID=0", "SLURM_STEP_NUM_NODES=2", "SLURM_STEP_NUM_TASKS=3",
        "SLURM_STEP_NODELIST=n[1-2]", "SLURM_STEP_TASKS_PER_NODE=2,1", "SLURM_NODEID=1", "SLURM_PROCID=2",
        "SLURM_LOCALID=0"},
       "rank 2 of 3, master n1"},
      // torch's own name for a worker
      {{"TORCHELASTIC_RUN_ID=r", "RANK=1", "WORLD_SIZE=2", "LOCAL_RANK=0", "LOCAL_WORLD_SIZE=1",
        "GROUP_RANK=1", "GROUP_WORLD_SIZE=2", "MASTER_ADDR=m", "MASTER_PORT=1"},
       "rank 1 of 2, master m"},
  };
  for (const Case& wanted : cases) {
    INFO(joined(wanted.variables, " "));
    const auto outcome = resolve(FakeHost(wanted.variables));
    if (const auto* faults = std::get_if<Faults>(&outcome)) FAIL(to_line(faults->front()));
    CHECK(part_in_job(std::get<Topology>(outcome)) == wanted.part);
  }
}

TEST_CASE("every task of a Slurm step with the old names alone counts processes, and its rank is known") {
  for (int rank = 0; rank < 4; ++rank) {
    const std::string node = std::to_string(rank / 2);
    const auto outcome = resolve(
        FakeHost({"SLURM_JOBID=5", "SLURM_STEPID=0", "SLURM_NODELIST=n[1-2]", "SLURM_NNODES=2",
                  "SLURM_NPROCS=4", "SLURM_TASKS_PER_NODE=2(x2)", "SLURM_NODEID=" + node,
                  "SLURM_PROCID=" + std::to_string(rank), "SLURM_LOCALID=" + std::to_string(rank % 2)}));
    if (const auto* faults = std::get_if<Faults>(&outcome)) FAIL(to_line(faults->front()));
    CHECK(part_in_job(std::get<Topology>(outcome)) == "rank " + std::to_string(rank) + " of 4, master n1");
  }
}

TEST_CASE("other frameworks' launchers of one process, and single processes of any launcher, are alone") {
  for (std::vector<std::string> variables :
       std::vector<std::vector<std::string>>{{"HOROVOD_RANK=0", "HOROVOD_SIZE=1"},
                                             {"NUM_PROCESSES=1", "PROCESS_ID=0", "COORDINATOR_ADDRESS=j"},
                                             {"PADDLE_NNODES=1", "PADDLE_MASTER=p:1"},
                                             {R"(TF_CONFIG={"cluster":{"worker":["a:1"]}})"},
                                             {"MS_WORKER_NUM=1"},
                                             {"PMI_RANK=0"},
                                             {"PMI_SIZE=1"},
                                             {"SLURM_JOB_ID=7", "SLURM_NNODES=1", "SLURM_NTASKS=8"}}) {
    INFO(variables.front());
    const FakeHost host(std::move(variables));
    const auto outcome = resolve(host);
    REQUIRE(std::holds_alternative<Topology>(outcome));
    CHECK(std::get<Topology>(outcome).is_alone());
  }
}

}  // namespace rankshim::topology
