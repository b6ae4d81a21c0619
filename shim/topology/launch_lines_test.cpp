#include <catch2/catch.hpp>

#include "base/text.h"
#include "node/fake_host_for_test.h"
#include "topology/resolve_for_test.h"

/// How public repositories launch torch on two nodes, each line on both: they join, or they are refused with
/// an advice that joins.

namespace rankshim::topology {
namespace {

using Words = std::vector<std::string>;

/// A job of two nodes. In variables and words, %i is the node's number.
struct Line {
  const char* what;
  Words variables;
  const char* command;
  /// What the refusal advises, options and variables with the right values; nothing if the line joins as it
  /// is.
  Words advice = {};
};

std::string on_node(std::string text, int node) {
  for (std::size_t at = 0; (at = text.find("%i", at)) != std::string::npos;)
    text.replace(at, 2, std::to_string(node));
  return text;
}

Words on_node(Words words, int node) {
  for (std::string& word : words) word = on_node(std::move(word), node);
  return words;
}

Words split(std::string_view text) {
  Words words;
  for (std::string_view word = next_word(text); !word.empty(); word = next_word(text))
    words.emplace_back(word);
  return words;
}

Outcome<Topology> on_node(const Line& line, int node, const Words& advice) {
  Words variables = line.variables;
  Words options;
  for (const std::string& word : advice) (word.starts_with("--") ? options : variables).push_back(word);
  node::FakeHost fake(on_node(variables, node));
  fake.name = on_node("h%i", node);
  return resolve(fake, on_node(options, node), split(on_node(line.command, node)));
}

/// Both nodes have the job's size, the same master, and, unless they rank themselves, their own rank.
void check_joined(const Line& line, const Words& advice) {
  std::vector<Topology> nodes;
  for (const int node : {0, 1}) {
    auto outcome = on_node(line, node, advice);
    if (const auto* faults = std::get_if<Faults>(&outcome))
      FAIL_CHECK("node " << node << ": " << to_line(faults->front()));
    if (auto* topology = std::get_if<Topology>(&outcome)) nodes.push_back(std::move(*topology));
  }
  if (nodes.size() < 2) return;
  for (const Topology& topology : nodes) {
    CHECK_FALSE(topology.is_alone());
    const bool process = topology.is<CreatedProcess>();
    CHECK(min_and_max(topology.facts.text(process ? Fact::world_size : Fact::nnodes)).first == "2");
  }
  CHECK(nodes[0].facts.text(Fact::master_addr) == nodes[1].facts.text(Fact::master_addr));
  CHECK(nodes[0].facts.text(Fact::master_port) == nodes[1].facts.text(Fact::master_port));
  CHECK(nodes[0].facts.text(Fact::run_id) == nodes[1].facts.text(Fact::run_id));
  const auto rank = [](const Topology& topology) {
    const bool process = topology.is<CreatedProcess>();
    return topology.facts.text(process ? Fact::rank : Fact::node_rank);
  };
  if (!nodes[0].is<ElasticNode>()) CHECK((rank(nodes[0]) == "0" && rank(nodes[1]) == "1"));
}

/// Both nodes are refused, and each is told of that option or variable.
void check_refused(const Line& line, const Words& followed, const std::string& next) {
  for (const int node : {0, 1}) {
    INFO("node " << node << " must know of " << next);
    const auto outcome = on_node(line, node, followed);
    const auto* faults = std::get_if<Faults>(&outcome);
    CHECK((faults != nullptr && std::ranges::any_of(*faults, [&](const Fault& fault) {
             return fault.fix.find(next) != std::string::npos;
           })));
  }
}

/// What Slurm sets for `srun` with one task on each of two nodes.
const Words slurm = {"SLURM_JOB_ID=7",
                     "SLURM_JOB_NUM_NODES=2",
                     "SLURM_NNODES=2",
                     "SLURM_NTASKS=2",
                     "SLURM_STEP_ID=0",
                     "SLURM_STEP_NUM_NODES=2",
                     "SLURM_NODEID=%i",
                     "SLURM_PROCID=%i",
                     "SLURM_LOCALID=0",
                     "SLURM_STEP_NUM_TASKS=2",
                     "SLURM_STEP_TASKS_PER_NODE=1(x2)",
                     "SLURM_JOB_NODELIST=h[0-1]",
                     "SLURM_STEP_NODELIST=h[0-1]"};
/// And for a loop of `srun -N1 -n1 -w h%i`, a step for each node.
const Words slurm_loop = {"SLURM_JOB_ID=7",
                          "SLURM_JOB_NUM_NODES=2",
                          "SLURM_NNODES=1",
                          "SLURM_NTASKS=1",
                          "SLURM_STEP_ID=%i",
                          "SLURM_STEP_NUM_NODES=1",
                          "SLURM_NODEID=0",
                          "SLURM_PROCID=0",
                          "SLURM_LOCALID=0",
                          "SLURM_STEP_NUM_TASKS=1",
                          "SLURM_JOB_NODELIST=h[0-1]",
                          "SLURM_STEP_NODELIST=h%i"};
const Words kubeflow = {"MASTER_ADDR=h0", "MASTER_PORT=23456", "RANK=%i", "WORLD_SIZE=2"};

}  // namespace

TEST_CASE(
    "the launch lines of public repositories join on two nodes, or are refused with an advice that joins") {
  const std::vector<Line> lines = {
      {"by hand",
       {},
       "torchrun --nnodes=2 --node_rank=%i --nproc_per_node=8 --master_addr=h0 --master_port=29500 t.py"},
      {"by hand, the older launcher",
       {},
       "python -m torch.distributed.launch --nproc_per_node=8 --nnodes=2 --node_rank=%i --master_addr=h0 "
       "--master_port=1234 t.py"},
      {"by hand, c10d",
       {},
       "torchrun --nnodes=2 --nproc_per_node=8 --rdzv_id=7 --rdzv_backend=c10d --rdzv_endpoint=h0:29500 "
       "t.py"},
      {"by hand, a range",
       {},
       "torchrun --nnodes=2:2 --nproc_per_node=8 --rdzv_id=7 --rdzv_backend=c10d --rdzv_endpoint=h0:29500 "
       "t.py"},
      {"srun, one task per node", slurm, "t.py"},
      {"srun torchrun with c10d", slurm,
       "torchrun --nnodes 2 --nproc_per_node 8 --rdzv_id 7 --rdzv_backend c10d --rdzv_endpoint h0:29500 "
       "t.py"},
      {"srun torchrun with a rank", slurm,
       "torchrun --nnodes=2 --node_rank=%i --nproc_per_node=8 --master_addr=h0 --master_port=29500 t.py"},
      {"srun bash, and torchrun in it", slurm, "bash run.sh"},
      {"a loop of steps with flags", slurm_loop,
       "torchrun --nnodes 2 --node_rank %i --nproc_per_node 8 --master_addr h0 --master_port 29500 t.py"},
      {"a loop of steps with flags and no port", slurm_loop,
       "torchrun --nnodes 2 --node_rank %i --nproc_per_node 8 --master_addr h0 t.py"},
      {"a loop of steps with c10d", slurm_loop,
       "torchrun --nnodes 2 --nproc_per_node 8 --rdzv_id 7 --rdzv_backend c10d --rdzv_endpoint h0:29500 "
       "t.py"},
      {"a PyTorchJob in an image with a lone node's NNODES",
       {"MASTER_ADDR=h0", "MASTER_PORT=23456", "RANK=%i", "WORLD_SIZE=2", "NNODES=1"},
       "bash run.sh",
       {"--nnodes=2"}},
      {"srun python, which initialises by a file", slurm,
       "python t.py --dist-url file:///shared/x --world-size 2 --rank %i"},
      {"a PyTorchJob", kubeflow, "t.py"},
      {"a PyTorchJob, and what it says as flags", kubeflow,
       "torchrun --nnodes=2 --node_rank=%i --nproc_per_node=8 --master_addr=h0 --master_port=23456 t.py"},
      {"a PyTorchJob, c10d at the master", kubeflow,
       "torchrun --nnodes=2 --nproc_per_node=8 --rdzv_backend=c10d --rdzv_endpoint=h0:23456 t.py"},
      {"SkyPilot",
       {"SKYPILOT_NODE_RANK=%i", "SKYPILOT_NUM_NODES=2", "SKYPILOT_NODE_IPS=h0\nh1",
        "SKYPILOT_NUM_GPUS_PER_NODE=8"},
       "torchrun --nnodes=2 --nproc_per_node=8 --master_addr=h0 --node_rank=%i --master_port=8008 t.py"},
      {"Volcengine",
       {"MLP_ROLE=WORKER", "MLP_ROLE_INDEX=%i", "MLP_WORKER_NUM=2", "MLP_WORKER_0_HOST=h0",
        "MLP_WORKER_0_PORT=2222", "MLP_WORKER_GPU=8"},
       "torchrun --nnodes 2 --node_rank %i --nproc_per_node 8 --master_addr h0 --master_port 2222 t.py"},
      {"PALS, one process per node",
       {"PALS_RANKID=%i", "PALS_LOCAL_RANKID=0", "PALS_LOCAL_SIZE=1", "PMI_RANK=%i", "PMI_SIZE=2",
        "PMI_LOCAL_RANK=0", "PMI_LOCAL_SIZE=1"},
       "python t.py",
       {"--master-addr=h0"}},
      {"Hydra, PMI only",
       {"PMI_RANK=%i", "PMI_SIZE=2"},
       "python t.py",
       {"MPI_LOCALRANKID=0", "MASTER_ADDR=h0"}},
      {"Hydra, PMI only, with a master",
       {"PMI_RANK=%i", "PMI_SIZE=2", "MASTER_ADDR=h0"},
       "t.py",
       {"PMI_LOCAL_RANK=0"}},
      {"a PyTorchJob in an image with PET_NNODES of another job",
       {"MASTER_ADDR=h0", "MASTER_PORT=23456", "RANK=%i", "WORLD_SIZE=2", "PET_NNODES=4"},
       "bash run.sh",
       {"--nnodes=2"}},
      {"an elastic job of Kubeflow's",
       {"PET_NNODES=2:2", "PET_RDZV_BACKEND=c10d", "PET_RDZV_ENDPOINT=h0:23456", "PET_NPROC_PER_NODE=8"},
       "bash run.sh"},
      {"a JobSet, and the number of nodes by hand",
       {"JOB_COMPLETION_INDEX=%i", "JOBSET_NAME=js", "NNODES=2", "MASTER_ADDR=js-workers-0-0.js"},
       "torchrun --nnodes=2 --node_rank=%i --nproc_per_node=8 --master_addr=js-workers-0-0.js "
       "--master_port=3389 t.py"},
      {"Snowflake's launch.sh",
       {"SNOWFLAKE_JOB_INDEX=%i", "SNOWFLAKE_JOBS_COUNT=2", "MLRS_HEAD_IP=10.0.0.4",
        "MLRS_NODE_IPS=10.0.0.4,10.0.0.5", "MLRS_RDZV_PORT=29511"},
       "torchrun --nnodes=2 --nproc-per-node=8 --node-rank=%i --master-addr=10.0.0.4 --master-port=29511 "
       "t.py"},
      {"Backend.AI",
       {"BACKENDAI_CLUSTER_SIZE=2", "BACKENDAI_CLUSTER_HOSTS=h0,h1", "BACKENDAI_CLUSTER_HOST=h%i",
        "BACKENDAI_CLUSTER_LOCAL_RANK=%i", "MASTER_ADDR=h0", "MASTER_PORT=29500"},
       "torchrun --nnodes=2 --nproc_per_node=8 --node_rank=%i --master_addr=h0 --master_port=29500 t.py"},
      {"mpirun, one process per node",
       {"OMPI_COMM_WORLD_RANK=%i", "OMPI_COMM_WORLD_SIZE=2", "OMPI_COMM_WORLD_LOCAL_RANK=0",
        "OMPI_COMM_WORLD_LOCAL_SIZE=1", "MASTER_ADDR=h0"},
       "t.py"},
  };
  for (const Line& line : lines) {
    INFO(line.what);
    for (std::size_t done = 0; done < line.advice.size(); ++done) {
      const Words followed(line.advice.begin(), line.advice.begin() + static_cast<std::ptrdiff_t>(done));
      check_refused(line, followed, line.advice[done].substr(0, line.advice[done].find('=')));
    }
    check_joined(line, line.advice);
  }
}

}  // namespace rankshim::topology
