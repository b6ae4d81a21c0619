#include <catch2/catch.hpp>

#include "launchers/choose.h"
#include "node/fake_host_for_test.h"
#include "run/plan.h"
#include "topology/resolve_for_test.h"

/// The message where a node's rank is not known: which variable with which value, and what to do.

namespace rankshim::run {
namespace {

struct Message {
  std::vector<std::string> variables;
  std::string line;
  std::string hostname = "some-host";
};

/// The first line, as it is printed for `rankshim -- train.py`.
std::string line_for(const Message& message) {
  node::FakeHost host(message.variables);
  host.name = message.hostname;
  const auto outcome = topology::resolve(host);
  if (const auto* faults = std::get_if<Faults>(&outcome)) return to_line(faults->front());
  const auto read = settings::read_settings({"train.py"}, host);
  const settings::Invocation& invocation = std::get<settings::Invocation>(read);
  const auto choice = launchers::choose_launch(
      {std::get<topology::Topology>(outcome), invocation.settings, invocation.arguments, host},
      launchers::own_torchrun(invocation.settings, invocation.arguments));
  const auto* faults = std::get_if<Faults>(&choice);
  return faults == nullptr ? "" : to_line(faults->front());
}

}  // namespace

TEST_CASE("what is set but cannot be used is named with its value and why") {
  const std::vector<Message> messages = {
      {{"SLURM_JOB_ID=1", "SLURM_STEP_ID=0", "SLURM_JOB_NODELIST=[]", "SLURM_NNODES=2", "SLURM_NODEID=1"},
       "SLURM_NNODES=2, but the master's address is unknown: SLURM_JOB_NODELIST='[]' is not a Slurm host "
       "list; "
       "SLURM_STEP_NODELIST is not set; correct SLURM_JOB_NODELIST, or set MASTER_ADDR to node 0's name or "
       "address, or --master-addr (RANKSHIM_MASTER_ADDR), or set RANKSHIM_NNODES=1 if this node is alone "
       "[R9]"},
      {{"PBS_JOBID=1", "PBS_NODEFILE=/var/spool/x"},
       "this is pbs (PBS_JOBID=1, PBS_NODEFILE=/var/spool/x), but the number of nodes is unknown: "
       "PBS_NODEFILE=/var/spool/x cannot be read "
       "here; PBS_NUM_NODES is not set; mount /var/spool/x, or set NNODES on every node, or --nnodes "
       "(RANKSHIM_NNODES=1 if this node is alone) [R7]"},
      {{"SKYPILOT_NODE_RANK=", "SKYPILOT_NODE_IPS=a\nb", "SKYPILOT_NUM_NODES=2"},
       "SKYPILOT_NUM_NODES=2, but this node's rank is unknown: SKYPILOT_NODE_RANK is empty; "
       "correct "
       "SKYPILOT_NODE_RANK, or set NODE_RANK (0 on the master), or --node-rank (RANKSHIM_NODE_RANK), or set "
       "RANKSHIM_NNODES=1 if this node is alone [R8]"},
      {{"LSB_JOBID=7", "LSB_MCPU_HOSTS=n1 8 n2 8"},
       "nnodes=2 (derived from LSB_MCPU_HOSTS), but this node's rank is unknown: this node's "
       "name "
       "some-host is not in LSB_MCPU_HOSTS='n1 8 n2 8'; LSB_DJOB_HOSTFILE, LSB_HOSTS are not set; set "
       "NODE_RANK (0 "
       "on the master), or --node-rank (RANKSHIM_NODE_RANK), or set RANKSHIM_NNODES=1 if this node is alone "
       "[R8]"},
  };
  for (const Message& message : messages) CHECK(line_for(message) == message.line);
}

TEST_CASE("a number of nodes by a name that others use for something else is a hint") {
  CHECK(line_for({{"MASTER_ADDR=m", "NODE_RANK=1", "NUM_NODES=2"}, ""}) ==
        "NODE_RANK=1, MASTER_ADDR=m show that there are other nodes, but not how many: NUM_NODES=2 "
        "may give it, but not for certain; set NNODES on every node, or --nnodes (RANKSHIM_NNODES=1 if this "
        "node "
        "is alone) [R7]");
  CHECK(line_for({{"JOB_COMPLETION_INDEX=1", "NODE_COUNT=2"}, ""}).find("NODE_COUNT=2 may give it") !=
        std::string::npos);
}

TEST_CASE(
    "a role that does not train is reported with its source, and never with advice that would be refused "
    "again") {
  CHECK(line_for({{"SLURM_JOB_ID=1", "SLURM_JOB_NUM_NODES=2", "SLURM_NODEID=0"}, ""}) ==
        "this container's role on slurm is 'batch script or shell outside the steps' (SLURM_JOB_NUM_NODES=2, "
        "SLURM_STEP_ID is not set, SLURM_STEP_NUM_NODES is not set, SLURM_STEP_NODELIST is not set), where "
        "train.py "
        "would train alone; start it with srun, or describe this node with --platform=generic, --nnodes, "
        "--node-rank and --master-addr (RANKSHIM_PLATFORM, …) [R22]");
  CHECK(line_for({{"MLP_ROLE=server", "MLP_ROLE_INDEX=0", "MLP_WORKER_NUM=2", "MLP_WORKER_0_HOST=a"}, ""}) ==
        "this container's role on volcengine-mlp is 'parameter server or scheduler' (MLP_ROLE=server), where "
        "train.py would train alone; start it where the job's training tasks run, or describe this node with "
        "--platform=generic, --nnodes, --node-rank and --master-addr (RANKSHIM_PLATFORM, …) [R22]");
}

TEST_CASE("--platform none names the rank variables that it ignores, and only those") {
  const auto warnings = [](std::vector<std::string> variables) {
    const auto outcome = topology::resolve(node::FakeHost(std::move(variables)), {"--platform=none"});
    return std::get<topology::Topology>(outcome).warnings;
  };
  CHECK(warnings({"PATH=/bin", "PYTHONUNBUFFERED=1", "JOB_UUID=u", "POD_UUID=u"}).empty());
  const auto slurm =
      warnings({"SLURM_JOB_ID=1", "SLURM_STEP_ID=0", "SLURM_STEP_NUM_NODES=2", "SLURM_NODEID=1",
                "SLURM_STEP_NODELIST=n[1-2]", "RANK=1", "PYTHONUNBUFFERED=1"});
  REQUIRE(slurm.size() == 1);
  CHECK(slurm.front() ==
        "the platform is none, so these variables are ignored: SLURM_STEP_NUM_NODES, SLURM_NODEID, "
        "SLURM_STEP_NODELIST, "
        "RANK; unless options give the other nodes, this node trains alone");
}

}  // namespace rankshim::run
