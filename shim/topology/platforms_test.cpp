#include <catch2/catch.hpp>

#include "platform/recording.h"
#include "topology/resolve_for_test.h"

/// What profiles and topology promise together: nobody trains alone in silence, and nothing is guessed.

namespace rankshim {
namespace {

/// What two nodes of one job must not be told differently, as one text.
std::string place(const Topology& topology) {
  const Facts& facts = topology.facts;
  const bool process = topology.granularity == platform::Granularity::process;
  std::string text = process ? "rank " : "node ";
  // Elastic nodes rank themselves.
  if (!topology.elastic) text.append(facts.text(process ? Fact::rank : Fact::node_rank));
  text.append(" of ");
  text.append(facts.text(process ? Fact::world_size : Fact::nnodes)).append(", master ");
  return text.append(facts.text(Fact::master_addr));
}

/// Whether the faults name it, or variables of its kind (VC_*_HOSTS).
bool names(const Faults& faults, std::string_view name) {
  return std::any_of(faults.begin(), faults.end(), [&](const Fault& fault) {
    return std::any_of(fault.names.begin(), fault.names.end(),
                       [&](const std::string& one) { return platform::fits(name, one); });
  });
}

/// A platform's one sign cannot be named where it is lost; an error it has to be all the same.
bool is_the_only_sign(std::string_view variable) {
  return variable == "TORCHELASTIC_RUN_ID" || variable == "MINDX_TASK_ID" || variable == "TORCHX_JOB_ID";
}

/// Nothing else says that this part of the job does not train.
bool is_the_only_sign_of_the_role(std::string_view variable) {
  return variable == "K_MPI_JOB_ROLE" || variable == "NODE_TYPE";
}

/// Without it nothing is left that tells of other nodes: an Indexed Job's or TensorFlow's one variable, a
/// rank table at its usual place, what is set by hand.
bool is_all_there_is(std::string_view missing) {
  return missing == "JOB_COMPLETION_INDEX" || missing == "TF_CONFIG" ||
         missing == "/user/config/jobstart_hccl.json" || missing == "NNODES" || missing.starts_with("AFO_") ||
         missing == "BATCH_HOSTS_FILE" || missing == "/valohai/config/distributed.json";
}

void check_without(const std::string& missing, const Node& node, const std::string& expected) {
  INFO("without " << missing);
  const auto outcome = resolve(node);
  if (const auto* topology = std::get_if<Topology>(&outcome))
    if (topology->platform == "single-node" && is_all_there_is(missing)) return;
  if (expected.empty()) {  // a role that does not train: it must not begin to
    const auto* topology = std::get_if<Topology>(&outcome);
    CHECK((topology == nullptr || !topology->idle_role.empty() || is_the_only_sign_of_the_role(missing)));
  } else if (const auto* topology = std::get_if<Topology>(&outcome)) {
    // A file can be the platform's only sign; without it there is none.
    if (missing.starts_with('/') && topology->platform == "single-node") return;
    if (!topology->idle_role.empty()) return;          // a script is refused there
    const bool host = topology->host.value_or(false);  // which may be told its own name or localhost
    // Where each node has one process, its number is the node's.
    const auto number = [&](const std::string& text) {
      return text.substr(5, host ? text.find(',') - 5 : std::string::npos);
    };
    CHECK(number(place(*topology)) == number(expected));
  } else {
    const auto& faults = std::get<Faults>(outcome);
    INFO(to_line(faults.front()));
    CHECK((names(faults, missing) || is_the_only_sign(missing)));
  }
}

/// Calls check(NAME, NODE) with each of the recording's variables and files missing.
template <class Check>
void without_each(const platform::Recording& recording, Check check) {
  for (std::size_t i = 0; i < recording.variables.size(); ++i) {
    auto variables = recording.variables;
    variables.erase(variables.begin() + static_cast<std::ptrdiff_t>(i));
    FakeNode node(variables);
    recording.apply(node);
    check(std::string(entry_name(recording.variables[i])), node);
  }
  for (const auto& [path, content] : recording.files) {
    FakeNode node(recording.variables);
    recording.apply(node);
    const bool mounted = path.starts_with("/etc/");  // a ConfigMap's files come and go together
    std::erase_if(node.files, [&](const auto& file) {
      return file.first == path || (mounted && file.first.starts_with("/etc/"));
    });
    check(path, node);
  }
}

struct Row {
  std::vector<std::string> variables;
  std::vector<std::string> names;
  std::string hostname = "some-host";
};

}  // namespace

TEST_CASE(
    "with one variable or file of a recorded environment missing the place is the same, or it is named") {
  for (const platform::Recording& recording : platform::recordings()) {
    INFO(recording.path.string());
    FakeNode whole(recording.variables);
    recording.apply(whole);
    const auto outcome = resolve(whole);
    const auto* topology = std::get_if<Topology>(&outcome);
    if (topology == nullptr || topology->alone) continue;
    const std::string expected = topology->idle_role.empty() ? place(*topology) : std::string();
    without_each(recording, [&](const std::string& missing, const Node& node) {
      check_without(missing, node, expected);
    });
  }
}

TEST_CASE("a recorded environment of one node is no suspected job of several") {
  for (const platform::Recording& recording : platform::recordings()) {
    if (recording.path.parent_path().filename() != "single-node") continue;
    INFO(recording.path.string());
    FakeNode node(recording.variables);
    recording.apply(node);
    CHECK(std::holds_alternative<Topology>(resolve(node, {"--strict"})));
  }
}

TEST_CASE("what is refused does not train alone because a variable or file is missing too") {
  for (const platform::Recording& recording : platform::recordings()) {
    FakeNode whole(recording.variables);
    recording.apply(whole);
    if (!std::holds_alternative<Faults>(resolve(whole))) continue;
    INFO(recording.path.string());
    without_each(recording, [&](const std::string& missing, const Node& node) {
      INFO("without " << missing);
      const auto outcome = resolve(node);
      const auto* topology = std::get_if<Topology>(&outcome);
      CHECK((topology == nullptr || !topology->alone || !topology->idle_role.empty() ||
             is_all_there_is(missing)));
    });
  }
}

TEST_CASE("what contradicts itself or can mean two things is refused, and both variables are named") {
  const std::vector<Row> rows = {
      // RANK and WORLD_SIZE in nodes or in processes
      {{"RANK=1", "WORLD_SIZE=16", "LOCAL_WORLD_SIZE=8", "MASTER_ADDR=m"},
       {"WORLD_SIZE", "LOCAL_WORLD_SIZE"}},
      {{"NNODES=2", "WORLD_SIZE=3", "RANK=0", "MASTER_ADDR=m"}, {"NNODES", "WORLD_SIZE"}},
      {{"NNODES=2", "NODE_RANK=0", "WORLD_SIZE=2", "RANK=1", "MASTER_ADDR=m"}, {"NODE_RANK", "RANK"}},
      {{"PET_NNODES=2", "PET_NPROC_PER_NODE=8", "PET_NODE_RANK=1", "PET_MASTER_ADDR=a-master-0",
        "PET_MASTER_PORT=23456", "MASTER_ADDR=a-master-0", "MASTER_PORT=23456", "RANK=1", "WORLD_SIZE=3"},
       {"PET_NNODES", "WORLD_SIZE"}},
      {{"PET_NNODES=2", "PET_NPROC_PER_NODE=8", "PET_NODE_RANK=1", "PET_MASTER_ADDR=a-master-0",
        "PET_MASTER_PORT=23456", "MASTER_ADDR=a-master-0", "MASTER_PORT=23456", "RANK=0", "WORLD_SIZE=16"},
       {"PET_NODE_RANK", "RANK"}},
      {{"NODE_RANK=1", "LOCAL_WORLD_SIZE=8", "WORLD_SIZE=12", "MASTER_ADDR=m", "MASTER_PORT=1"},
       {"WORLD_SIZE", "LOCAL_WORLD_SIZE"}},
      // a platform's own words against RANK, WORLD_SIZE and the generic names
      {{"DSTACK_NODES_NUM=2", "DSTACK_NODE_RANK=1", "DSTACK_MASTER_NODE_IP=10.0.0.1", "WORLD_SIZE=3"},
       {"DSTACK_NODES_NUM", "WORLD_SIZE"}},
      {{"DSTACK_NODES_NUM=2", "DSTACK_NODE_RANK=1", "DSTACK_MASTER_NODE_IP=10.0.0.1", "RANK=0",
        "WORLD_SIZE=2"},
       {"DSTACK_NODE_RANK", "RANK"}},
      {{"DSTACK_NODES_NUM=2", "DSTACK_NODE_RANK=1", "DSTACK_MASTER_NODE_IP=10.0.0.1", "NODE_RANK=0"},
       {"DSTACK_NODE_RANK", "NODE_RANK"}},
      {{"SKYPILOT_NODE_RANK=1", "SKYPILOT_NODE_IPS=a\nb", "SKYPILOT_NUM_NODES=2", "NNODES=3"},
       {"SKYPILOT_NUM_NODES", "NNODES"}},
      {{R"(CLUSTER_SPEC={"cluster":{"workerpool0":["a:1"],"workerpool1":["b:1","c:1"]},"task":{"type":"workerpool1","index":1}})",
        "RANK=1", "WORLD_SIZE=3"},
       {"CLUSTER_SPEC", "RANK"}},
      {{"MASTER_ADDR=m-0.m", "MASTER_PORT=1", "RANK=1", "WORLD_SIZE=5", "VC_TASK_INDEX=0",
        "VC_MASTER_HOSTS=m-master-0.m", "VC_WORKER_HOSTS=m-worker-0.m,m-worker-1.m"},
       {"WORLD_SIZE", "VC_MASTER_HOSTS"},
       "m-worker-0"},
      // LOCAL_RANK, a list on Ascend
      {{"MINDX_TASK_ID=u", "LOCAL_RANK=0,1,2", "LOCAL_WORLD_SIZE=4", "WORLD_SIZE=8", "RANK=0",
        "MASTER_ADDR=m"},
       {"LOCAL_RANK", "LOCAL_WORLD_SIZE"}},
      {{"MINDX_TASK_ID=u", "LOCAL_RANK=0,1,2,3", "LOCAL_WORLD_SIZE=4", "WORLD_SIZE=10", "RANK=0",
        "MASTER_ADDR=m"},
       {"WORLD_SIZE", "LOCAL_WORLD_SIZE"}},
      // GPU_NUM, of the pod or of the job; NODE_NUM, nodes or GPUs
      {{"NODE_LIST=a:8,b:8", "INDEX=1", "GPU_NUM=8", "GPU_NUM_PER_NODE=8", "RANK=1", "WORLD_SIZE=2",
        "MASTER_ADDR=a"},
       {"GPU_NUM", "GPU_NUM_PER_NODE"}},
      {{"GPU_NUM=8", "NPROC_PER_NODE=2", "RANK=1", "WORLD_SIZE=2", "MASTER_ADDR=a-master-0",
        "MASTER_PORT=23456"},
       {"GPU_NUM", "NPROC_PER_NODE"}},
      {{"HOST_NUM=2", "HOST_GPU_NUM=8", "NODE_NUM=2", "INDEX=1", "CHIEF_IP=10.0.0.1"},
       {"NODE_NUM", "HOST_GPU_NUM"}},
      {{"NODE_LIST=a:8,b:8,c:8", "INDEX=1", "GPU_NUM_PER_NODE=8", "HOST_NUM=2", "CHIEF_IP=10.0.0.1"},
       {"NODE_LIST", "HOST_NUM"}},
      // the rank within the node, taken for the node's number
      {{"OMPI_COMM_WORLD_SIZE=4", "OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_LOCAL_SIZE=2",
        "OMPI_COMM_WORLD_LOCAL_RANK=1", "OMPI_COMM_WORLD_NODE_RANK=1", "NODE_RANK=1", "MASTER_ADDR=m"},
       {"NODE_RANK", "OMPI_COMM_WORLD_NODE_RANK"}},
      {{"OMPI_COMM_WORLD_SIZE=2", "OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_LOCAL_SIZE=1",
        "OMPI_COMM_WORLD_LOCAL_RANK=0", "OMPI_COMM_WORLD_NODE_RANK=0", "NODE_RANK=0", "MASTER_ADDR=m"},
       {"NODE_RANK", "OMPI_COMM_WORLD_NODE_RANK"}},
      // left over from an outer platform
      {{"OMPI_COMM_WORLD_SIZE=4", "OMPI_COMM_WORLD_RANK=3", "OMPI_COMM_WORLD_LOCAL_SIZE=2",
        "OMPI_COMM_WORLD_LOCAL_RANK=1", "RANK=1", "WORLD_SIZE=4", "MASTER_ADDR=m"},
       {"OMPI_COMM_WORLD_RANK", "RANK"}},
      {{"OMPI_COMM_WORLD_SIZE=2", "OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_LOCAL_SIZE=2",
        "OMPI_COMM_WORLD_LOCAL_RANK=1", "LWS_GROUP_SIZE=2", "LWS_WORKER_INDEX=1", "LWS_LEADER_ADDRESS=l"},
       {"OMPI_COMM_WORLD_SIZE", "LWS_GROUP_SIZE"}},
      {{"PMI_RANK=3", "PMI_SIZE=4", "MPI_LOCALRANKID=1", "MPI_LOCALNRANKS=2", "MASTER_ADDR=m",
        "WORLD_SIZE=2"},
       {"PMI_SIZE", "WORLD_SIZE"}},
      // a process of another node than the platform's
      {{"DSTACK_NODES_NUM=2", "DSTACK_NODE_RANK=0", "DSTACK_MASTER_NODE_IP=10.0.0.1", "RANK=9",
        "LOCAL_RANK=1", "WORLD_SIZE=16"},
       {"DSTACK_NODE_RANK", "RANK"}},
      {{"NNODES=2", "NODE_RANK=0", "RANK=9", "LOCAL_RANK=1", "WORLD_SIZE=16", "MASTER_ADDR=m"},
       {"NODE_RANK", "RANK"}},
      {{"SLURM_JOB_ID=1", "SLURM_STEP_ID=0", "SLURM_STEP_NUM_NODES=1", "SLURM_STEP_NUM_TASKS=1",
        "SLURM_STEP_NODELIST=n1", "SLURM_NODEID=0", "SLURM_PROCID=0", "SLURM_LOCALID=0", "RANK=9",
        "LOCAL_RANK=1", "WORLD_SIZE=16"},
       {"SLURM_NODEID", "RANK"}},
      // inside torchrun already
      {{"TORCHELASTIC_RUN_ID=r", "RANK=9", "WORLD_SIZE=8", "LOCAL_RANK=1", "LOCAL_WORLD_SIZE=8",
        "GROUP_RANK=1", "GROUP_WORLD_SIZE=2", "MASTER_ADDR=m", "MASTER_PORT=1"},
       {"RANK", "WORLD_SIZE"}},
      // two platforms that disagree
      {{"DSTACK_NODES_NUM=2", "DSTACK_NODE_RANK=1", "DSTACK_MASTER_NODE_IP=10.0.0.1", "SKYPILOT_NODE_RANK=0",
        "SKYPILOT_NUM_NODES=2", "SKYPILOT_NODE_IPS=10.0.0.1\n10.0.0.2"},
       {"DSTACK_NODE_RANK", "SKYPILOT_NODE_RANK"}},
      {{"SLURM_JOB_ID=1", "SLURM_STEP_ID=0", "SLURM_NODEID=1", "SLURM_STEP_NUM_NODES=4", "SLURM_NTASKS=4",
        "SLURM_STEP_NODELIST=n[1-4]", "LEPTON_JOB_WORKER_INDEX=1", "LEPTON_JOB_TOTAL_WORKERS=2"},
       {"SLURM_STEP_NUM_NODES", "LEPTON_JOB_TOTAL_WORKERS"}},
      {{"SM_HOSTS=[\"algo-1\",\"algo-2\"]", "SM_CURRENT_HOST=algo-2", "OMPI_COMM_WORLD_SIZE=2",
        "OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_LOCAL_SIZE=2", "OMPI_COMM_WORLD_LOCAL_RANK=1"},
       {"SM_HOSTS", "OMPI_COMM_WORLD_SIZE"}},
      {{"SKYPILOT_NODE_RANK=0", "SKYPILOT_NUM_NODES=2", "SKYPILOT_NODE_IPS=a\nb",
        "SKYPILOT_NUM_GPUS_PER_NODE=8", "RANK=1", "WORLD_SIZE=2"},
       {"SKYPILOT_NODE_RANK", "RANK"}},
      {{"PET_NNODES=2", "PET_NPROC_PER_NODE=8", "PET_NODE_RANK=0", "PET_MASTER_ADDR=a-master-0",
        "PET_MASTER_PORT=23456", "MASTER_ADDR=a-master-0", "MASTER_PORT=23456", "RANK=1", "WORLD_SIZE=16"},
       {"PET_NODE_RANK", "RANK"}},
      {{"NODE_LIST=a:8,b:8", "INDEX=0", "GPU_NUM_PER_NODE=8", "RANK=1", "WORLD_SIZE=2", "MASTER_ADDR=a"},
       {"INDEX", "RANK"}},
      // two of a platform's own words
      {{"SKYPILOT_NODE_RANK=0", "SKYPILOT_NUM_NODES=3", "SKYPILOT_NODE_IPS=a\nb"},
       {"SKYPILOT_NUM_NODES", "SKYPILOT_NODE_IPS"}},
      {{"DSTACK_NODES_NUM=3", "DSTACK_NODE_RANK=1", "DSTACK_MASTER_NODE_IP=a", "DSTACK_NODES_IPS=a\nb"},
       {"DSTACK_NODES_NUM", "DSTACK_NODES_IPS"}},
      {{"AWS_BATCH_JOB_NODE_INDEX=5", "AWS_BATCH_JOB_NUM_NODES=4", "AWS_BATCH_JOB_MAIN_NODE_INDEX=1",
        "AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS=10.0.0.1"},
       {"AWS_BATCH_JOB_NODE_INDEX", "AWS_BATCH_JOB_NUM_NODES"}},
      {{"SM_HOSTS=[\"algo-1\",\"algo-2\"]", "SM_CURRENT_HOST=algo-3"}, {"SM_CURRENT_HOST", "SM_HOSTS"}},
      {{"CLUSTER_SPEC={\"cluster\":", "CLOUD_ML_JOB_ID=1", "WORLD_SIZE=2", "RANK=1", "MASTER_ADDR=a"},
       {"CLUSTER_SPEC"}},
      {{"AZUREML_RUN_ID=r", "AZUREML_NODE_COUNT=2", "NODE_RANK=1", "AZUREML_CR_NODE_RANK=0", "MASTER_ADDR=a"},
       {"NODE_RANK", "AZUREML_CR_NODE_RANK"}},
      {{"VC_TASK_INDEX=0", "VC_WORKER_NUM=3", "VC_WORKER_HOSTS=j-worker-0.j,j-worker-1.j"},
       {"VC_WORKER_NUM", "VC_WORKER_HOSTS"},
       "j-worker-0"},
      {{"LWS_LEADER_ADDRESS=l-0.l", "LWS_GROUP_SIZE=3", "LWS_WORKER_INDEX=2"},
       {"LWS_WORKER_INDEX", "LWS_LEADER_ADDRESS"},
       "l-0-1"},
      {{"OMPI_COMM_WORLD_SIZE=4", "OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_LOCAL_SIZE=2",
        "OMPI_COMM_WORLD_LOCAL_RANK=1", "PMIX_RANK=3", "MASTER_ADDR=m"},
       {"OMPI_COMM_WORLD_RANK", "PMIX_RANK"}},
      // what may be another of a job's parts
      {{"JOB_COMPLETION_INDEX=0", "NNODES=2", "MASTER_ADDR=js-workers-0-0.sub"},
       {"JOB_COMPLETION_INDEX", "NNODES"},
       "js-workers-1-0"},
      {{"SLURM_JOB_ID=99", "SLURM_HET_SIZE=2", "SLURM_NNODES=1", "SLURM_NTASKS=1", "SLURM_STEP_ID=0",
        "SLURM_STEP_NUM_NODES=1", "SLURM_STEP_NUM_TASKS=1", "SLURM_STEP_NODELIST=n1", "SLURM_NODEID=0",
        "SLURM_PROCID=0", "SLURM_LOCALID=0"},
       {"SLURM_STEP_ID", "SLURM_HET_SIZE"}},
      {{"MLP_ROLE_INDEX=0", "MLP_WORKER_NUM=2", "MLP_SERVER_NUM=1", "MLP_WORKER_0_HOST=a",
        "MLP_WORKER_0_PORT=1"},
       {"MLP_ROLE"}},
      {{"PAI_JOB_NAME=j", "PAI_CURRENT_TASK_ROLE_NAME=ps", "PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX=0",
        "PAI_TASK_ROLE_TASK_COUNT_worker=2", "PAI_TASK_ROLE_TASK_COUNT_ps=1", "PAI_HOST_IP_ps_0=10.0.0.9"},
       {"PAI_TASK_ROLE_LIST"}},
      {{"VC_TASK_INDEX=0", "VC_HEAD_HOSTS=j-head-0.j", "VC_HEAD_NUM=1", "VC_NODE_NUM=2"},
       {"VC_NODE_HOSTS"},
       "j-node-0"},
      {{"MASTER_ADDR=j-master-0.j", "MASTER_PORT=23456", "WORLD_SIZE=3", "VC_MASTER_HOSTS=j-master-0.j",
        "VC_WORKER_HOSTS=j-worker-0.j,j-worker-1.j"},
       {"RANK"},
       "gpu-3"},
      // nodes or processes, with what says so lost
      {{"MASTER_ADDR=p-master-0", "MASTER_PORT=23456", "RANK=1", "WORLD_SIZE=16", "GPU_NUM=8",
        "PET_NODE_RANK=1", "PET_NPROC_PER_NODE=8", "PET_MASTER_ADDR=p-master-0", "PET_MASTER_PORT=23456"},
       {"PET_NNODES"}},
      {{"AZUREML_RUN_ID=r", "AZUREML_NODE_COUNT=2", "NODE_RANK=0", "RANK=0", "LOCAL_RANK=0", "MASTER_ADDR=a",
        "MASTER_PORT=6105"},
       {"LOCAL_RANK", "WORLD_SIZE"}},
      {{"PET_RDZV_ENDPOINT=etcd.default:2379", "PET_NNODES=1:3", "PET_RDZV_ID=x"}, {"PET_RDZV_BACKEND"}},
      // an elastic job that does not say where it meets; the master's name is not that
      {{"PET_NNODES=1:3", "PET_RDZV_BACKEND=c10d", "PET_MAX_RESTARTS=3", "MASTER_ADDR=e-master-0",
        "MASTER_PORT=23456", "RANK=1", "WORLD_SIZE=3"},
       {"PET_RDZV_BACKEND", "PET_RDZV_ENDPOINT"}},
      // on the host network the host name is the node's, and its number is none of the job's
      {{"LWS_LEADER_ADDRESS=vllm-1.vllm.default", "LWS_GROUP_SIZE=4"}, {"LWS_WORKER_INDEX"}, "gpu-node-3"},
      {{"TORCHX_JOB_ID=j", "VC_TASK_INDEX=0", "VC_T_0_HOSTS=a-t-0-0.a", "VC_T_0_NUM=1",
        "VC_T_1_HOSTS=a-t-1-0.a", "VC_T_1_NUM=1"},
       {"VC_*_HOSTS"},
       "gpu-node-1-0"},
      // an existing process of several, with what says so lost
      {{"DSTACK_NODES_NUM=2", "DSTACK_NODE_RANK=1", "DSTACK_MASTER_NODE_IP=10.0.0.1", "RANK=9",
        "WORLD_SIZE=16"},
       {"DSTACK_NODE_RANK", "RANK"}},
      {{"SLURM_JOB_ID=1", "SLURM_JOB_NUM_NODES=1", "SLURM_JOB_NODELIST=n1", "RANK=1", "WORLD_SIZE=4"},
       {"SLURM_JOB_NUM_NODES", "RANK"}},
      {{"SKYPILOT_NUM_NODES=1", "RANK=1", "WORLD_SIZE=4"}, {"SKYPILOT_NUM_NODES", "RANK"}},
      {{"LEPTON_JOB_TOTAL_WORKERS=1", "RANK=1", "WORLD_SIZE=4"}, {"LEPTON_JOB_TOTAL_WORKERS", "RANK"}},
      // the one process of a node that is told another number
      {{"OMPI_COMM_WORLD_SIZE=2", "OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_LOCAL_SIZE=1",
        "OMPI_COMM_WORLD_LOCAL_RANK=0", "NODE_RANK=0", "MASTER_ADDR=m"},
       {"NODE_RANK", "OMPI_COMM_WORLD_RANK"}},
      // this node itself is not the master of another
      {{"NNODES=2", "NODE_RANK=1", "MASTER_ADDR=0.0.0.0"}, {"MASTER_ADDR"}},
      // Slurm's variables handed on to a container by name, and not enough of them
      {{"SLURM_NNODES=4", "SLURM_NODEID=3", "SLURM_PROCID=3", "SLURM_NTASKS=4"},
       {"SLURM_NNODES", "SLURM_JOB_NODELIST"}},
      {{"SLURM_NODEID=1", "SLURM_NNODES=2", "SLURM_PROCID=1"}, {"SLURM_NNODES", "SLURM_JOB_NODELIST"}},
      {{"SLURM_PROCID=1", "SLURM_NNODES=2", "SLURMD_NODENAME=n2"}, {"SLURM_NODEID"}},
      {{"SLURM_NTASKS=4", "SLURM_PROCID=3"}, {"SLURM_NNODES"}},
      {{"SLURM_PROCID=5", "SLURM_NTASKS=8", "SLURM_LOCALID=1", "SLURM_NODELIST=n[1-2]"},
       {"SLURM_NTASKS", "SLURM_STEP_NODELIST"}},
      {{"SLURM_JOB_ID=9", "SLURM_NODEID=3", "SLURM_PROCID=3"}, {"SLURM_NODEID", "SLURM_NNODES"}},
      {{"SLURM_JOB_ID=9", "SLURM_PROCID=3"}, {"SLURM_NNODES"}},
      {{"SLURM_JOB_ID=9", "SLURM_PROCID=3", "SLURM_NTASKS=4", "SLURM_JOB_NUM_NODES=1",
        "SLURM_JOB_NODELIST=n1"},
       {"SLURM_LOCALID"}},
      {{"SLURM_JOB_ID=9", "SLURM_STEP_ID=0", "SLURM_NODEID=0", "SLURM_NTASKS=4", "SLURM_NNODES=1"},
       {"SLURM_PROCID", "SLURM_LOCALID"}},
      {{"SLURM_JOB_ID=7", "SLURM_NTASKS=8", "SLURM_NODEID=0", "SLURM_NNODES=1", "SLURM_PROCID=0",
        "SLURM_LOCALID=0"},
       {"SLURM_STEP_ID"}},
      {{"SLURM_JOB_ID=9", "SLURM_NNODES=2", "SLURM_NTASKS=8", "MASTER_ADDR=n1", "SLURM_LOCALID=0"},
       {"SLURM_PROCID"}},
      // torchrun's names beside a platform
      {{"SKYPILOT_NODE_RANK=1", "SKYPILOT_NODE_IPS=a\nb", "SKYPILOT_NUM_NODES=2",
        "SKYPILOT_NUM_GPUS_PER_NODE=8", "PET_NPROC_PER_NODE=1"},
       {"SKYPILOT_NUM_GPUS_PER_NODE", "PET_NPROC_PER_NODE"}},
      {{"PET_NNODES=2", "PET_NODE_RANK=1", "PET_MASTER_ADDR=n1", "PET_MASTER_PORT=29500", "SLURM_JOB_ID=1",
        "SLURM_JOB_NUM_NODES=1", "SLURM_JOB_NODELIST=n2", "SLURM_NODEID=0", "SLURM_PROCID=0"},
       {"SLURM_JOB_NUM_NODES", "PET_NNODES"}},
      {{"DSTACK_NODES_NUM=2", "DSTACK_NODE_RANK=1", "DSTACK_MASTER_NODE_IP=10.0.0.1", "PET_NNODES=4",
        "PET_NODE_RANK=3", "PET_MASTER_ADDR=q"},
       {"DSTACK_NODES_NUM", "PET_NNODES"}},
      // another node than the platform's only one, by hand
      {{"MASTER_ADDR=n1", "MASTER_PORT=29500", "WORLD_SIZE=2", "RANK=1", "SLURM_JOB_ID=1",
        "SLURM_JOB_NUM_NODES=1", "SLURM_JOB_NODELIST=n2", "SLURM_NODEID=0", "SLURM_PROCID=0"},
       {"SLURM_NODEID", "RANK"}},
      {{"MASTER_ADDR=n1", "MASTER_PORT=29500", "WORLD_SIZE=2", "RANK=1", "LSB_JOBID=1",
        "LSB_MCPU_HOSTS=n2 8"},
       {"LSB_MCPU_HOSTS", "RANK"},
       "n2"},
      {{"MASTER_ADDR=n1", "MASTER_PORT=29500", "WORLD_SIZE=2", "RANK=1", "SKYPILOT_NODE_RANK=0",
        "SKYPILOT_NODE_IPS=n1", "SKYPILOT_NUM_NODES=1"},
       {"SKYPILOT_NODE_RANK", "RANK"}},
      {{"MASTER_ADDR=n1", "MASTER_PORT=29500", "WORLD_SIZE=2", "RANK=1", "MA_NUM_HOSTS=1", "MA_VJ_NAME=a",
        "MA_TASK_NAME=worker"},
       {"MA_NUM_HOSTS", "RANK"}},
      // processes that exist: their node, and how many there are on it
      {{"AZUREML_RUN_ID=p", "AZUREML_NODE_COUNT=2", "NODE_RANK=2", "RANK=6", "LOCAL_RANK=2", "WORLD_SIZE=8",
        "MASTER_ADDR=10.0.0.4", "MASTER_PORT=6105"},
       {"NODE_RANK", "AZUREML_NODE_COUNT"}},
      {{"TORCHELASTIC_RUN_ID=a", "LOCAL_RANK=1", "RANK=9", "WORLD_SIZE=16", "LOCAL_WORLD_SIZE=8",
        "GROUP_RANK=2", "GROUP_WORLD_SIZE=2", "MASTER_ADDR=n1", "MASTER_PORT=29500"},
       {"GROUP_RANK", "GROUP_WORLD_SIZE"}},
      {{"SLURM_JOB_ID=1", "SLURM_STEP_ID=0", "SLURM_STEP_NUM_NODES=1", "SLURM_STEP_NUM_TASKS=2",
        "SLURM_STEP_NODELIST=n[1-2]", "SLURM_NODEID=1", "SLURM_PROCID=1", "SLURM_LOCALID=0"},
       {"SLURM_STEP_NUM_NODES", "SLURM_STEP_NODELIST"}},
      {{"OMPI_COMM_WORLD_SIZE=16", "OMPI_COMM_WORLD_RANK=9", "OMPI_COMM_WORLD_LOCAL_SIZE=8",
        "OMPI_COMM_WORLD_LOCAL_RANK=1", "MASTER_ADDR=n1", "NODE_RANK=2", "NNODES=2"},
       {"NODE_RANK", "NNODES"}},
      {{"OMPI_COMM_WORLD_SIZE=16", "OMPI_COMM_WORLD_RANK=9", "OMPI_COMM_WORLD_LOCAL_SIZE=8",
        "OMPI_COMM_WORLD_LOCAL_RANK=1", "MASTER_ADDR=n1", "NNODES=1"},
       {"OMPI_COMM_WORLD_LOCAL_SIZE", "NNODES"}},
      {{"OMPI_COMM_WORLD_SIZE=16", "OMPI_COMM_WORLD_RANK=9", "OMPI_COMM_WORLD_LOCAL_SIZE=8",
        "OMPI_COMM_WORLD_LOCAL_RANK=1", "MASTER_ADDR=n1", "NPROC_PER_NODE=4"},
       {"OMPI_COMM_WORLD_LOCAL_SIZE", "NPROC_PER_NODE"}},
      // process launchers with what says so lost
      {{"PALS_RANKID=5"}, {"PMI_SIZE", "PALS_LOCAL_RANKID"}},
      {{"PALS_LOCAL_RANKID=1"}, {"PALS_RANKID", "PMI_SIZE"}},
      {{"PMIX_RANK=1"}, {"WORLD_SIZE", "LOCAL_RANK"}},
      {{"PMI_RANK=3"}, {"PMI_SIZE"}},
      {{"PMI_SIZE=4"}, {"PMI_RANK"}},
      {{"PMI_SIZE=4", "PMI_LOCAL_RANK=1", "PMI_LOCAL_SIZE=2"}, {"PMI_RANK"}},
      {{"MPI_LOCALRANKID=1", "MPI_LOCALNRANKS=4"}, {"PMI_RANK", "PMI_SIZE"}},
      {{"MVP_COMM_WORLD_LOCAL_RANK=1"}, {"MVP_COMM_WORLD_RANK", "MVP_COMM_WORLD_SIZE"}},
      {{"MV2_COMM_WORLD_LOCAL_RANK=1"}, {"MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"}},
      // a heterogeneous cluster of SageMaker
      {{"SM_CURRENT_HOST=algo-2", "SM_HOSTS=[\"algo-1\",\"algo-2\"]", "SM_IS_HETERO=true"},
       {"SM_IS_HETERO", "SM_CURRENT_INSTANCE_GROUP_HOSTS"}},
      {{"SM_CURRENT_HOST=algo-2", "SM_HOSTS=[\"algo-1\",\"algo-2\"]", "SM_INSTANCE_GROUPS=[\"a\",\"b\"]",
        "SM_CURRENT_INSTANCE_GROUP=b", "SM_CURRENT_INSTANCE_GROUP_HOSTS=[\"algo-2\"]",
        "SM_DISTRIBUTION_INSTANCE_GROUPS=[]"},
       {"SM_INSTANCE_GROUPS", "SM_DISTRIBUTION_INSTANCE_GROUPS"}},
      // what a replica is told as JSON, damaged
      {{"CLUSTER_SPEC={\"cluster\":{\"workerpool0\":[\"a:1\"],\"workerpool1\":[\"b:1\"]}}"},
       {"CLUSTER_SPEC"}},
      {{"CLUSTER_SPEC={\"cluster\":{\"workerpool0\":[\"a:1\"],\"workerpool1\":[\"b:1\"],\"task\":{\"ty"},
       {"CLUSTER_SPEC"}},
      {{"CLUSTER_SPEC={\"task\":{\"type\":\"workerpool0\",\"index\":0},\"cluster\":{\"workerpool0\":[\"a:1\"]"
        ",\"work"},
       {"CLUSTER_SPEC"}},
      {{"CLUSTER_SPEC={cluster:{workerpool0:[a:1],workerpool1:[b:1]},task:{type:workerpool1,index:0}}"},
       {"CLUSTER_SPEC"}},
      {{"CLUSTER_SPEC={\\\"cluster\\\":{\\\"workerpool0\\\":[\\\"a:1\\\"],\\\"workerpool1\\\":[\\\"b:1\\\"]},"
        "\\\"task\\\":{\\\"type\\\":\\\"workerpool1\\\",\\\"index\\\":0}}"},
       {"CLUSTER_SPEC"}},
      // one number by two names
      {{"DLTS_JOB_ID=j", "DLTS_NUM_WORKER=2", "DLWS_NUM_WORKER=3", "DLTS_ROLE_NAME=worker", "DLTS_ROLE_IDX=1",
        "DLTS_SD_worker0_IP=10.0.0.1"},
       {"DLTS_NUM_WORKER", "DLWS_NUM_WORKER"}},
      {{"ELASTIC_JOB_NAME=j", "DLROVER_MASTER_ADDR=d:50001", "NODE_TYPE=worker", "MASTER_ADDR=m",
        "NODE_NUM=2", "NODE_RANK=1", "WORKER_NUM=3"},
       {"NODE_NUM", "WORKER_NUM"}},
      {{"ELASTIC_JOB_NAME=j", "DLROVER_MASTER_ADDR=d:50001", "NODE_TYPE=worker", "MASTER_ADDR=m",
        "NODE_NUM=2", "NODE_RANK=1", "WORKER_RANK=0"},
       {"NODE_RANK", "WORKER_RANK"}},
      {{"ELASTIC_JOB_NAME=j", "DLROVER_MASTER_ADDR=d:50001", "NODE_TYPE=worker", "MASTER_ADDR=m",
        "NODE_NUM=2", "NODE_RANK=1", "WORLD_SIZE=4"},
       {"NODE_NUM", "WORLD_SIZE"}},
      {{"ELASTIC_JOB_NAME=j", "DLROVER_MASTER_ADDR=d:50001", "NODE_TYPE=worker", "MASTER_ADDR=m",
        "NODE_NUM=2", "NODE_RANK=1", "RANK=0", "WORLD_SIZE=2"},
       {"NODE_RANK", "RANK"}},
      {{"MA_NUM_HOSTS=3", "MA_VJ_NAME=v", "MA_TASK_NAME=worker", "VC_TASK_INDEX=1",
        "VC_WORKER_HOSTS=v-worker-0.v,v-worker-1.v"},
       {"MA_NUM_HOSTS", "VC_WORKER_HOSTS"},
       "v-worker-1"},
      {{"MA_NUM_HOSTS=3", "MA_VJ_NAME=v", "MA_TASK_NAME=worker", "VC_TASK_INDEX=1", "VC_WORKER_NUM=2"},
       {"MA_NUM_HOSTS", "VC_WORKER_NUM"},
       "v-worker-1"},
      {{"DLTS_JOB_ID=j", "DLTS_NUM_WORKER=2", "DLTS_ROLE_NAME=worker", "DLTS_ROLE_IDX=1", "DLWS_ROLE_IDX=0",
        "DLTS_SD_worker0_IP=10.0.0.1"},
       {"DLTS_ROLE_IDX", "DLWS_ROLE_IDX"}},
      {{"DLTS_JOB_ID=j", "DLTS_NUM_WORKER=2", "DLTS_ROLE_NAME=worker", "DLTS_ROLE_IDX=1",
        "DLTS_NUM_GPU_PER_WORKER=4", "DLWS_NUM_GPU_PER_WORKER=8", "DLTS_SD_worker0_IP=10.0.0.1"},
       {"DLTS_NUM_GPU_PER_WORKER", "DLWS_NUM_GPU_PER_WORKER"}},
      {{"PALS_RANKID=5", "PMI_RANK=4", "PMI_SIZE=8", "PALS_LOCAL_RANKID=1", "PALS_LOCAL_SIZE=4",
        "MASTER_ADDR=m"},
       {"PALS_RANKID", "PMI_RANK"}},
      {{"AZ_BATCH_HOST_LIST=10.9.9.9,10.9.9.4", "AZ_BATCH_MASTER_NODE=10.9.9.9:6000",
        "AZ_BATCH_IS_CURRENT_NODE_MASTER=false"},
       {"AZ_BATCH_IS_CURRENT_NODE_MASTER", "AZ_BATCH_MASTER_NODE"}},
      // other nodes or roles, and which this one is is not said
      {{"AZ_BATCH_HOST_LIST=10.0.0.4,10.0.0.5", "AZ_BATCH_MASTER_NODE=10.0.0.4:6000",
        "AZ_BATCH_IS_CURRENT_NODE_MASTER=false", "AZ_BATCH_NODE_ID=tvm-2", "AZ_BATCH_JOB_ID=j",
        "AZ_BATCH_TASK_ID=t"},
       {"AZ_BATCH_HOST_LIST"}},
      {{"ARNOLD_WORKER_NUM=2", "ARNOLD_SERVER_NUM=1", "ARNOLD_ID=0", "METIS_WORKER_0_HOST=a"},
       {"ARNOLD_ROLE"}},
      {{"MLP_ROLE_INDEX=0", "MLP_WORKER_NUM=2", "MLP_WORKER_0_HOST=a", "MLP_WORKER_0_PORT=1"}, {"MLP_ROLE"}},
      {{"VC_WORKER_HOSTS=same.rec", "VC_WORKER_NUM=1", "VC_PS_HOSTS=rec-ps-0.rec", "VC_PS_NUM=1"},
       {"VC_TASK_INDEX", "VC_WORKER_HOSTS"},
       "same"},
      {{"CM_RANK=1", "CM_WORKER_SIZE=16", "CM_LOCAL_WORKER=8", "CM_CHIEF_IP=10.0.0.1"}, {"WORLD_SIZE"}},
      {{"BEAKER_REPLICA_RANK=0", "BEAKER_REPLICA_COUNT=2"}, {"BEAKER_LEADER_REPLICA_HOSTNAME"}},
      // other frameworks' launchers
      {{"HOROVOD_RANK=0", "HOROVOD_SIZE=8"}, {"HOROVOD_SIZE"}},
      {{"HOROVOD_RANK=3"}, {"HOROVOD_RANK"}},
      {{"NUM_PROCESSES=2", "PROCESS_ID=0", "COORDINATOR_ADDRESS=j-worker-0", "COORDINATOR_PORT=6666"},
       {"NUM_PROCESSES"}},
      {{"PROCESS_ID=1", "COORDINATOR_ADDRESS=j-worker-0"}, {"NUM_PROCESSES"}},
      {{"PADDLE_NNODES=2", "PADDLE_MASTER=p-worker-0:36543"}, {"PADDLE_NNODES"}},
      {{"PADDLE_TRAINERS_NUM=4", "PADDLE_TRAINER_ID=0"}, {"PADDLE_TRAINERS_NUM"}},
      {{"PADDLE_TRAINER_ID=0", "PADDLE_TRAINER_ENDPOINTS=a:6070,b:6070"}, {"PADDLE_TRAINER_ENDPOINTS"}},
      {{"PADDLE_TRAINER_ID=1"}, {"PADDLE_TRAINER_ID"}},
      {{"TF_CONFIG={\"cluster\":{\"worker\":[\"a:1\",\"b:1\"]},\"task\":{\"type\":\"worker\",\"index\":0}}"},
       {"TF_CONFIG"}},
      {{R"(TF_CONFIG={"cluster":{"chief":["a:1"],"worker":["b:1"]},"task":{"type":"worker","index":0}})"},
       {"TF_CONFIG"}},
      {{"MS_WORKER_NUM=8", "MS_ROLE=MS_WORKER", "MS_SCHED_HOST=a"}, {"MS_WORKER_NUM"}},
      // which of a job's parts train together
      {{"TORCHX_JOB_ID=j", "VC_TASK_INDEX=0", "VC_T_0_HOSTS=a-t-0-0.a", "VC_T_0_NUM=1",
        "VC_R_0_HOSTS=a-r-0-0.a", "VC_R_0_NUM=1"},
       {"VC_*_0_HOSTS"},
       "a-t-0-0"},
      {{"PAI_JOB_NAME=j", "PAI_TASK_ROLE_LIST=ps,worker", "PAI_CURRENT_TASK_ROLE_NAME=worker",
        "PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX=0", "PAI_TASK_ROLE_TASK_COUNT_worker=2",
        "PAI_HOST_IP_worker_0=a"},
       {"PAI_TASK_ROLE_LIST", "PAI_CURRENT_TASK_ROLE_NAME"}},
  };
  for (const Row& row : rows) {
    std::string all;
    for (const std::string& variable : row.variables) all += variable + " ";
    INFO(all);
    FakeNode node(row.variables);
    node.name = row.hostname;
    const auto outcome = resolve(node);
    REQUIRE(std::holds_alternative<Faults>(outcome));
    const auto& faults = std::get<Faults>(outcome);
    INFO(to_line(faults.front()));
    for (const std::string& name : row.names) {
      INFO(name);
      CHECK(names(faults, name));
    }
    CHECK(to_line(faults.front()).find("RANKSHIM_") != std::string::npos);  // what settles it
  }
}

TEST_CASE("torch's variables made of Slurm's count processes, those of the first task too") {
  const FakeNode node({"MASTER_ADDR=n1", "MASTER_PORT=29500", "WORLD_SIZE=8", "RANK=0", "LOCAL_RANK=0",
                       "SLURM_PROCID=0", "SLURM_LOCALID=0", "SLURM_NTASKS=8"});
  const auto outcome = resolve(node);
  REQUIRE(std::holds_alternative<Topology>(outcome));
  CHECK(place(std::get<Topology>(outcome)) == "rank 0 of 8, master n1");
}

TEST_CASE("RANK, WORLD_SIZE and LOCAL_RANK together are a process that something has started") {
  struct Case {
    std::vector<std::string> variables;
    std::string place;
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
      {with(task, {"RANK=2", "LOCAL_RANK=2", "WORLD_SIZE=8"}), "rank 2 of 8, master n1", ""},
      {with(task, {"RANK=0", "LOCAL_RANK=0", "WORLD_SIZE=8", "LOCAL_WORLD_SIZE=8"}), "rank 0 of 8, master n1",
       "8"},
      {{"SLURM_JOB_ID=1", "SLURM_JOB_NUM_NODES=1", "SLURM_JOB_NODELIST=n1", "RANK=2", "LOCAL_RANK=2",
        "WORLD_SIZE=8"},
       "rank 2 of 8, master n1",
       ""},
      // as the platform says: each node's one process is its launcher
      {with(task, {"RANK=0", "LOCAL_RANK=0", "WORLD_SIZE=1"}), "node 0 of 1, master n1", ""},
      {{"DSTACK_NODES_NUM=2", "DSTACK_NODE_RANK=1", "DSTACK_MASTER_NODE_IP=10.0.0.1", "RANK=1",
        "LOCAL_RANK=0", "WORLD_SIZE=2"},
       "node 1 of 2, master 10.0.0.1",
       ""},
      // who says the node outright has a launcher there
      {{"RANK=9", "LOCAL_RANK=1", "WORLD_SIZE=16", "MASTER_ADDR=m", "RANKSHIM_NNODES=2",
        "RANKSHIM_NODE_RANK=1"},
       "node 1 of 2, master m",
       ""},
  };
  for (const Case& wanted : cases) {
    std::string all;
    for (const std::string& variable : wanted.variables) all += variable + " ";
    INFO(all);
    const auto outcome = resolve(FakeNode(wanted.variables));
    if (const auto* faults = std::get_if<Faults>(&outcome)) FAIL(to_line(faults->front()));
    const auto& topology = std::get<Topology>(outcome);
    CHECK(place(topology) == wanted.place);
    CHECK(topology.facts.text(Fact::local_world_size) == wanted.local_world_size);
  }
}

TEST_CASE("MPI's one process of a node is the node's launcher") {
  struct Case {
    std::vector<std::string> variables;
    std::string place;
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
      // three processes on two nodes, by who says how many nodes there are
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
    std::string all;
    for (const std::string& variable : wanted.variables) all += variable + " ";
    INFO(all);
    const auto outcome = resolve(FakeNode(wanted.variables));
    if (const auto* faults = std::get_if<Faults>(&outcome)) FAIL(to_line(faults->front()));
    CHECK(place(std::get<Topology>(outcome)) == wanted.place);
  }
}

TEST_CASE("every task of a Slurm step with the old names alone counts processes, and its own is said") {
  for (int rank = 0; rank < 4; ++rank) {
    const std::string node = std::to_string(rank / 2);
    const auto outcome = resolve(
        FakeNode({"SLURM_JOBID=5", "SLURM_STEPID=0", "SLURM_NODELIST=n[1-2]", "SLURM_NNODES=2",
                  "SLURM_NPROCS=4", "SLURM_TASKS_PER_NODE=2(x2)", "SLURM_NODEID=" + node,
                  "SLURM_PROCID=" + std::to_string(rank), "SLURM_LOCALID=" + std::to_string(rank % 2)}));
    if (const auto* faults = std::get_if<Faults>(&outcome)) FAIL(to_line(faults->front()));
    CHECK(place(std::get<Topology>(outcome)) == "rank " + std::to_string(rank) + " of 4, master n1");
  }
}

TEST_CASE("names set by hand beside a platform say what it leaves open, and change nothing else") {
  const std::vector<std::string> modelarts = {
      "MA_NUM_HOSTS=2", "MA_VJ_NAME=ma-job", "MA_TASK_NAME=worker",
      "MA_NUM_GPUS=8",  "VC_TASK_INDEX=1",   "VC_WORKER_HOSTS=ma-job-worker-0.ma-job,ma-job-worker-1.ma-job",
      "VC_WORKER_NUM=2"};
  const std::vector<std::string> slurm = {
      "SLURM_JOB_ID=77", "SLURM_STEP_ID=0",        "SLURM_NODEID=1",         "SLURM_PROCID=1",
      "SLURM_LOCALID=0", "SLURM_STEP_NUM_NODES=2", "SLURM_STEP_NUM_TASKS=2", "SLURM_STEP_NODELIST=n[1-2]",
      "SLURM_NTASKS=2",  "SLURM_NNODES=2",         "SLURM_JOB_NUM_NODES=2"};
  struct Case {
    std::vector<std::string> platform;
    std::vector<std::string> by_hand;
    std::string place;
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
      {slurm, {"PET_NPROC_PER_NODE=4"}, "node 1 of 2, master n1", "4"},
      {slurm, {"PET_NNODES=2:2", "PET_NODE_RANK=01"}, "node 1 of 2, master n1", "1"},
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
    FakeNode node(std::move(variables));
    node.name = wanted.hostname;
    const auto outcome = resolve(node);
    if (const auto* faults = std::get_if<Faults>(&outcome)) INFO(to_line(faults->front()));
    REQUIRE(std::holds_alternative<Topology>(outcome));
    CHECK(place(std::get<Topology>(outcome)) == wanted.place);
    CHECK(std::get<Topology>(outcome).facts.text(Fact::nproc_per_node) == wanted.nproc);
  }
}

TEST_CASE("what the user says outright settles what is refused") {
  const FakeNode two({"DSTACK_NODES_NUM=2", "DSTACK_NODE_RANK=1", "DSTACK_MASTER_NODE_IP=10.0.0.1",
                      "SKYPILOT_NODE_RANK=0", "SKYPILOT_NUM_NODES=2",
                      "SKYPILOT_NODE_IPS=10.0.0.1\n10.0.0.2"});
  const auto outcome = resolve(two, {"--platform=skypilot"});
  REQUIRE(std::holds_alternative<Topology>(outcome));
  CHECK(std::get<Topology>(outcome).facts.text(Fact::node_rank) == "0");
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
    const FakeNode node(std::move(variables));
    const auto outcome = resolve(node);
    REQUIRE(std::holds_alternative<Topology>(outcome));
    CHECK(std::get<Topology>(outcome).alone);
  }
}

TEST_CASE("an attempt is part of the run id, and so of the port, unless the user says the run id") {
  const auto port = [](std::vector<std::string> said, const char* attempt) {
    const FakeNode node({"AWS_BATCH_JOB_ID=j#1", "AWS_BATCH_JOB_NODE_INDEX=1", "AWS_BATCH_JOB_NUM_NODES=2",
                         "AWS_BATCH_JOB_MAIN_NODE_INDEX=0",
                         "AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS=10.0.0.1",
                         std::string("AWS_BATCH_JOB_ATTEMPT=") + attempt});
    const auto outcome = resolve(node, std::move(said));
    REQUIRE(std::holds_alternative<Topology>(outcome));
    const Facts& facts = std::get<Topology>(outcome).facts;
    return std::string(facts.text(Fact::run_id)) + " " + std::string(facts.text(Fact::master_port));
  };
  CHECK(port({}, "1") == "j " + std::to_string(default_port("j")));
  CHECK(port({}, "2") == "j.1 " + std::to_string(default_port("j.1")));
  CHECK(port({"--run-id=mine"}, "2") == "mine " + std::to_string(default_port("mine")));
}

TEST_CASE("a rank table that does not agree with itself or with RANK_SIZE is refused") {
  const auto refused = [](std::string table, std::vector<std::string> variables = {}) {
    variables.emplace_back("XDL_IP=10.0.0.2");
    FakeNode node(std::move(variables));
    node.files["/user/config/jobstart_hccl.json"] = std::move(table);
    const auto outcome = resolve(node);
    const auto* faults = std::get_if<Faults>(&outcome);
    return faults != nullptr && names(*faults, "/user/config/jobstart_hccl.json");
  };
  const auto table = [](const char* servers) {
    return std::string(R"({"status":"completed","server_count":")") + servers +
           R"(","server_list":[{"server_id":"10.0.0.1","device":[{"device_id":"0","rank_id":"0"},)"
           R"({"device_id":"1","rank_id":"1"}]},{"server_id":"10.0.0.2","device":[{"device_id":"0","rank_id":"2"}]}]})";
  };
  const std::string named = "RANK_TABLE_FILE=/user/config/jobstart_hccl.json";
  CHECK(refused(table("3")));
  CHECK(refused(table("2"), {"RANK_SIZE=4"}));
  CHECK_FALSE(refused(table("2"), {"RANK_SIZE=3"}));
  // one process per NPU
  CHECK(refused(table("3"), {named, "RANK_SIZE=3", "RANK_ID=2", "DEVICE_ID=0"}));
  CHECK(refused(table("2"), {named, "RANK_SIZE=4", "RANK_ID=2", "DEVICE_ID=0"}));
  CHECK_FALSE(refused(table("2"), {named, "RANK_SIZE=3", "RANK_ID=2", "DEVICE_ID=0"}));

  FakeNode other({"XDL_IP=10.0.0.2"});
  other.files["/user/serverid/devindex/config/hccl.json"] = table("3");
  CHECK(std::holds_alternative<Faults>(resolve(other)));

  FakeNode smaller({"XDL_IP=10.0.0.2"});
  smaller.files["/user/config/jobstart_hccl.json"] = table("2");
  const auto outcome = resolve(smaller);
  REQUIRE(std::holds_alternative<Topology>(outcome));
  CHECK(std::get<Topology>(outcome).facts.text(Fact::nproc_per_node) == "1");  // not the first server's
}

TEST_CASE("SageMaker's resourceconfig.json that says no host, or several groups, is refused and named") {
  for (const char* content : {R"({"hosts":["algo-1","algo-2"]})",
                              R"({"current_host":"algo-2","hosts":["algo-1","algo-2"],"instance_groups":)"
                              R"([{"instance_group_name":"a"},{"instance_group_name":"b"}]})"}) {
    FakeNode node({});
    node.files["/opt/ml/input/config/resourceconfig.json"] = content;
    const auto outcome = resolve(node);
    REQUIRE(std::holds_alternative<Faults>(outcome));
    CHECK(names(std::get<Faults>(outcome), "/opt/ml/input/config/resourceconfig.json"));
  }
}

TEST_CASE("a rank table that is initializing is a fault that passes and names its file") {
  FakeNode node({});
  node.files["/user/config/jobstart_hccl.json"] = R"({"status": "initializing"})";
  const auto outcome = resolve(node);
  REQUIRE(std::holds_alternative<Faults>(outcome));
  const Fault& fault = std::get<Faults>(outcome).front();
  CHECK(fault.transient);
  CHECK(names({fault}, "/user/config/jobstart_hccl.json"));
  CHECK(fault.what.find("initializing") != std::string::npos);
}

TEST_CASE("a document that is set and cannot be read is refused and named, in every profile that reads it") {
  struct Row {
    std::vector<std::string> variables;
    std::string file, name;
  };
  constexpr const char* broken = R"({"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker")";
  const std::vector<Row> rows = {
      {{std::string("TF_CONFIG=") + broken}, "", "TF_CONFIG"},
      {{std::string("CLUSTER_SPEC=") + broken}, "", "CLUSTER_SPEC"},
      {{"SM_HOSTS=[\"algo-1\",", "SM_CURRENT_HOST=algo-1"}, "", "SM_HOSTS"},
      {{}, "/opt/ml/input/config/resourceconfig.json", ""},
      {{"DET_MASTER=m", "DET_CLUSTER_ID=x", "DET_EXPERIMENT_ID=1", "DET_SLOT_IDS=[0]"},
       "/run/determined/info/rendezvous.json",
       ""},
      {{}, "/user/config/jobstart_hccl.json", ""},
  };
  for (const Row& row : rows) {
    FakeNode node(row.variables);
    if (!row.file.empty()) node.files[row.file] = broken;
    INFO(row.file << row.name);
    const auto outcome = resolve(node);
    REQUIRE(std::holds_alternative<Faults>(outcome));
    const Fault& fault = std::get<Faults>(outcome).front();
    CHECK_THAT(fault.what, Catch::Contains("is no JSON (unexpected end of data at byte"));
    CHECK(fault.names == std::vector<std::string>{row.file.empty() ? row.name : row.file});
    CHECK(fault.transient == (row.file == "/user/config/jobstart_hccl.json"));  // it is written while we look
  }
  CHECK(std::holds_alternative<Topology>(
      resolve(FakeNode({std::string("TF_CONFIG=") + broken}), {"--platform=none"})));
}

}  // namespace rankshim
