#include "topology/claim.h"

#include <catch2/catch.hpp>

#include "base/text.h"
#include "node/fake_host_for_test.h"
#include "topology/resolve_for_test.h"

namespace rankshim::topology {
namespace {

using node::FakeHost;

using Words = std::vector<std::string>;

/// "node 1 of 2, master m", or "refused: WHAT".
std::string answer(const FakeHost& host, const Words& options = {}, const Words& command = {"x"}) {
  const auto outcome = resolve(host, options, command);
  if (const auto* faults = std::get_if<Faults>(&outcome)) return "refused: " + faults->front().what;
  const auto& topology = std::get<Topology>(outcome);
  return part_in_job(topology) + (topology.warnings.empty() ? "" : "; warns");
}

Words with(Words all, const Words& more) {
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

const Words slurm_alone = {"SLURM_JOB_ID=7", "SLURM_JOB_NUM_NODES=1"};

}  // namespace

TEST_CASE("claims win by their source, and what differs is dropped, warned about or refused") {
  const auto claim = [](Fact fact, Source source, const char* text, Origin origin = Origin::variable) {
    return Claim{fact, source, Value{text, origin, "V" + std::to_string(static_cast<int>(source))}, "p"};
  };
  struct Case {
    Claims claims;
    std::string value;
    std::size_t faults = 0, warnings = 0;
    Circumstances circumstances{};
  };
  constexpr auto nnodes = Fact::nnodes, address = Fact::master_addr, workers = Fact::nproc_per_node;
  Circumstances started, elastic;
  started.started_process = true;
  elastic.elastic = true;
  const std::vector<Case> cases = {
      {{}, ""},
      {{claim(nnodes, Source::generic, "2")}, "2"},
      {{claim(nnodes, Source::user, "2"), claim(nnodes, Source::platform, "3")}, "2"},
      {{claim(nnodes, Source::platform, "2"), claim(nnodes, Source::generic, "3")}, "2", 1},
      {{claim(nnodes, Source::platform, "2"), claim(nnodes, Source::generic, "02")}, "2"},
      {{claim(nnodes, Source::platform, "2"), claim(nnodes, Source::other, "3")}, "2", 1},
      {{claim(nnodes, Source::platform, "2"), claim(nnodes, Source::torchrun, "2:2")}, "2"},
      {{claim(nnodes, Source::generic, "2"), claim(nnodes, Source::part, "1")}, "2"},
      {{claim(nnodes, Source::part, "1")}, "1"},
      {{claim(nnodes, Source::other, "1")}, ""},
      {{claim(nnodes, Source::flag, "2"), claim(nnodes, Source::user, "3")}, "2", 1},
      {{claim(nnodes, Source::flag, "1:4"), claim(nnodes, Source::platform, "2")}, "1:4"},
      {{claim(nnodes, Source::flag, "2"), claim(nnodes, Source::part, "1")}, "2"},
      {{claim(address, Source::platform, "a"), claim(address, Source::generic, "b")}, "a", 1},
      {{claim(address, Source::platform, "a", Origin::derived), claim(address, Source::generic, "b")},
       "b",
       0,
       1},
      {{claim(address, Source::platform, "a", Origin::derived), claim(address, Source::generic, "a.ns.svc")},
       "a.ns.svc"},
      {{claim(address, Source::platform, "a.ns.svc", Origin::derived), claim(address, Source::generic, "a")},
       "a.ns.svc"},
      {{claim(address, Source::platform, "a"), claim(address, Source::generic, "b")}, "b", 0, 0, started},
      {{claim(address, Source::platform, "a"), claim(address, Source::generic, "b")}, "a", 0, 0, elastic},
      {{claim(address, Source::platform, "a"), claim(address, Source::torchrun, "b")}, "a", 0, 1},
      {{claim(workers, Source::platform, "auto"), claim(workers, Source::generic, "8")}, "8"},
      {{claim(workers, Source::platform, "4"), claim(workers, Source::generic, "8")}, "4", 1},
      {{claim(Fact::run_id, Source::flag, "a"), claim(Fact::run_id, Source::platform, "b")}, "a"},
      {{claim(Fact::run_id, Source::platform, "a"), claim(Fact::run_id, Source::other, "b")}, "a"},
  };
  for (std::size_t i = 0; i < cases.size(); ++i) {
    INFO("case " << i);
    const Case& one = cases[i];
    const Fact fact = one.claims.empty() ? nnodes : one.claims.front().fact;
    const Decision decision = decide(fact, one.claims, one.circumstances);
    CHECK((decision.winner == nullptr ? "" : decision.winner->value.text) == one.value);
    CHECK(decision.faults.size() == one.faults);
    CHECK(decision.warnings.size() == one.warnings);
  }
}

TEST_CASE("what says that a node is alone is weighed against everything that says otherwise") {
  const Words ranks = {"RANK=0", "WORLD_SIZE=4", "MASTER_ADDR=c0"};
  const std::vector<std::pair<Words, std::string>> refused = {
      // another platform, whose number of nodes is unknown
      {{"LSB_JOBID=1", "LSB_HOSTS=h2", "TORCHX_JOB_ID=a", "TORCHX_RANK0_HOST=h1"}, "TORCHX_RANK0_HOST=h1"},
      // another framework's launcher
      {with(slurm_alone, {"HOROVOD_RANK=1", "HOROVOD_SIZE=2"}), "HOROVOD_SIZE=2"},
      {{"SKYPILOT_NUM_NODES=1", "SKYPILOT_NODE_RANK=0", "SKYPILOT_NODE_IPS=a", "HOROVOD_RANK=1",
        "HOROVOD_SIZE=2"},
       "HOROVOD_SIZE=2"},
      {{"RUNAI_JOB_NAME=j", "HOROVOD_RANK=1", "HOROVOD_SIZE=2"}, "HOROVOD"},
      {{"LSB_JOBID=1", "LSB_HOSTS=h2", "NUM_PROCESSES=2", "PROCESS_ID=1", "COORDINATOR_ADDRESS=c"},
       "NUM_PROCESSES=2"},
      {with(slurm_alone,
            {R"(TF_CONFIG={"cluster":{"worker":["a:1","b:1"]},"task":{"type":"worker","index":0}})"}),
       "TF_CONFIG"},
      {with(slurm_alone, {"PADDLE_TRAINERS_NUM=4"}), "PADDLE_TRAINERS_NUM=4"},
      // more processes than this node has workers
      {with(slurm_alone, ranks), "RANK=0 of WORLD_SIZE=4"},
      {with(slurm_alone, {"WORLD_SIZE=4"}), "WORLD_SIZE=4"},
      {with({"SLURM_JOB_ID=7", "SLURM_NNODES=1"}, ranks), "WORLD_SIZE=4"},
      {with({"NNODES=1"}, ranks), "WORLD_SIZE=4"},
      {with({"PET_NNODES=1", "PET_NODE_RANK=0", "PET_MASTER_ADDR=j-master-0", "PET_MASTER_PORT=1",
             "MASTER_PORT=1"},
            {"RANK=0", "WORLD_SIZE=2", "MASTER_ADDR=j-master-0"}),
       "WORLD_SIZE=2"},
      {with({"SM_HOSTS=[\"algo-1\"]", "SM_CURRENT_HOST=algo-1"}, ranks), "WORLD_SIZE=4"},
      {with({"SKYPILOT_NUM_NODES=1", "SKYPILOT_NODE_RANK=0", "SKYPILOT_NODE_IPS=c0"}, ranks), "WORLD_SIZE=4"},
      {with({"LSB_JOBID=1", "LSB_HOSTS=h2"}, ranks), "WORLD_SIZE=4"},
      {with({"LEPTON_JOB_TOTAL_WORKERS=1", "LEPTON_JOB_WORKER_INDEX=0"}, ranks), "WORLD_SIZE=4"},
      {with({"MA_NUM_HOSTS=1", "MA_VJ_NAME=a", "MA_TASK_NAME=worker"}, ranks), "WORLD_SIZE=4"},
      {with({"FLUX_JOB_ID=f", "FLUX_JOB_NNODES=1", "FLUX_TASK_RANK=0", "FLUX_TASK_LOCAL_ID=0",
             "FLUX_JOB_SIZE=1"},
            ranks),
       "WORLD_SIZE"},
      {with({"OMPI_COMM_WORLD_SIZE=1", "OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_LOCAL_SIZE=1",
             "OMPI_COMM_WORLD_LOCAL_RANK=0"},
            ranks),
       "WORLD_SIZE=4"},
  };
  for (const auto& [variables, proof] : refused) {
    INFO(joined(variables, " "));
    const FakeHost host(variables);
    CHECK_THAT(answer(host), Catch::StartsWith("refused: ") && Catch::Contains(proof));
    CHECK_THAT(answer(host, {"--nnodes=1"}),
               Catch::StartsWith("node 0 of 1") || Catch::StartsWith("rank 0 of 1"));
  }

  // Names that nobody knows are a warning, with --strict a refusal.
  for (const Words& alone : {slurm_alone,
                             {"SKYPILOT_NUM_NODES=1", "SKYPILOT_NODE_RANK=0", "SKYPILOT_NODE_IPS=a"},
                             {"LSB_JOBID=1", "LSB_HOSTS=h2"},
                             {"NNODES=1"},
                             {"RUNAI_JOB_NAME=j"}}) {
    const FakeHost host(with(alone, {"FOO_NODE_RANK=1", "FOO_NUM_NODES=2"}));
    INFO(alone.front());
    CHECK_THAT(answer(host), Catch::StartsWith("node 0 of 1") && Catch::EndsWith("; warns"));
    CHECK_THAT(answer(host, {"--strict"}),
               Catch::StartsWith("refused: FOO_NODE_RANK=1, FOO_NUM_NODES=2 look"));
    CHECK_THAT(answer(host, {"--strict", "--nnodes=1"}),
               Catch::StartsWith("node 0 of 1") && !Catch::Contains("warns"));
  }

  // As many processes as this node has workers are its own.
  FakeHost eight(with(slurm_alone, {"RANK=0", "WORLD_SIZE=8"}));
  eight.devices = node::DeviceCount{8, "/dev/nvidia[0-9]*"};
  CHECK(answer(eight) == "node 0 of 1, master 127.0.0.1");
  CHECK(answer(FakeHost(with(slurm_alone, {"RANK=0", "WORLD_SIZE=1", "LOCAL_RANK=0"}))) ==
        "node 0 of 1, master 127.0.0.1");
}

TEST_CASE("a node whose workers are all of WORLD_SIZE is alone, whatever counts them") {
  for (const Words& variables :
       std::vector<Words>{{"LOCAL_WORLD_SIZE=8", "WORLD_SIZE=8", "NODE_RANK=0", "MASTER_ADDR=127.0.0.1"},
                          {"MINDX_TASK_ID=t", "LOCAL_WORLD_SIZE=8", "WORLD_SIZE=8", "RANK=0",
                           "MASTER_ADDR=127.0.0.1", "LOCAL_RANK=0,1,2,3,4,5,6,7", "MASTER_PORT=2222"},
                          {"NNODES=1", "WORLD_SIZE=8", "NPROC_PER_NODE=8"},
                          {"NNODES=1", "WORLD_SIZE=8", "NPROC_PER_NODE=8", "NODE_RANK=0"}}) {
    INFO(joined(variables, " "));
    CHECK(answer(FakeHost(variables)) == "node 0 of 1, master 127.0.0.1");
  }
}

TEST_CASE("a platform that gives one node and its master is believed, whatever this host's name is") {
  const Words pod = {
      "PET_NNODES=1",          "PET_NODE_RANK=0",        "PET_NPROC_PER_NODE=8", "PET_MASTER_ADDR=j-master-0",
      "PET_MASTER_PORT=23456", "MASTER_ADDR=j-master-0", "MASTER_PORT=23456",    "RANK=0",
      "WORLD_SIZE=8"};
  CHECK(answer(FakeHost(pod)) == "node 0 of 1, master j-master-0");
  CHECK_THAT(answer(FakeHost({"LOCAL_WORLD_SIZE=8", "WORLD_SIZE=8", "NODE_RANK=0", "MASTER_ADDR=h"})),
             Catch::EndsWith("; warns"));
  // Generic names are no platform's.
  CHECK_THAT(answer(FakeHost({"NNODES=1", "NPROC_PER_NODE=8", "RANK=0", "WORLD_SIZE=8", "MASTER_ADDR=h"})),
             Catch::EndsWith("; warns"));
}

TEST_CASE("a launcher's processes that are all on one of several nodes train alone, which is a warning") {
  const Words one = {"OMPI_COMM_WORLD_SIZE=1", "OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_LOCAL_SIZE=1",
                     "OMPI_COMM_WORLD_LOCAL_RANK=0"};
  const Words eight = {"OMPI_COMM_WORLD_SIZE=8", "OMPI_COMM_WORLD_RANK=3", "OMPI_COMM_WORLD_LOCAL_SIZE=8",
                       "OMPI_COMM_WORLD_LOCAL_RANK=3"};
  const Words hydra = {"PMI_SIZE=1", "PMI_RANK=0", "MPI_LOCALRANKID=0", "MPI_LOCALNRANKS=1"};
  const Words slurm = {"SLURM_JOB_ID=7", "SLURM_JOB_NUM_NODES=2", "SLURM_NNODES=2",
                       "SLURM_JOB_NODELIST=n[1-2]"};
  const Words pbs = {"PBS_JOBID=7", "PBS_NUM_NODES=2", "PBS_NODEFILE=/nodes"};
  const Words lsf = {"LSB_JOBID=7", "LSB_MCPU_HOSTS=n1 8 n2 8"};
  for (const Words& launcher : {one, eight, hydra})
    for (const Words& around : {slurm, pbs, lsf}) {
      INFO(joined(launcher, " ") << " in " << joined(around, " "));
      FakeHost host(with(launcher, around));
      host.files["/nodes"] = "n1\nn2\n";
      CHECK_THAT(answer(host), Catch::Contains(" of ") && Catch::EndsWith("; warns"));
      CHECK_THAT(answer(host, {"--nnodes=1"}), !Catch::Contains("warns"));
    }
  // A step on one of the nodes is a job of its own.
  CHECK_THAT(answer(FakeHost(with(one, {"SLURM_JOB_ID=7", "SLURM_JOB_NUM_NODES=2", "SLURM_STEP_ID=0",
                                        "SLURM_NNODES=1", "SLURM_STEP_NUM_NODES=1", "SLURM_NODEID=0"}))),
             !Catch::Contains("warns"));
}

TEST_CASE("a process that is the whole job is weighed as a node that is alone") {
  const Words alone = {"RANK=0", "WORLD_SIZE=1", "LOCAL_RANK=0", "LOCAL_WORLD_SIZE=1"};
  CHECK(answer(FakeHost(alone)) == "rank 0 of 1, master 127.0.0.1");
  CHECK(answer(FakeHost(with(alone, {"FOO_NODE_RANK=1", "FOO_NUM_NODES=2"}))) ==
        "rank 0 of 1, master 127.0.0.1; warns");
  for (const Words& others : std::vector<Words>{
           {"NODE_RANK=1", "MASTER_ADDR=h"}, {"JOB_COMPLETION_INDEX=3"}, {"MASTER_ADDR=h", "NNODES=2"}}) {
    INFO(joined(others, " "));
    CHECK_THAT(answer(FakeHost(with(alone, others))), Catch::StartsWith("refused: "));
  }
}

TEST_CASE("what is left over beside a platform is said in one run") {
  const auto outcome = resolve(
      FakeHost({"SKYPILOT_NUM_NODES=2", "SKYPILOT_NODE_RANK=1", "SKYPILOT_NODE_IPS=10.0.0.1\n10.0.0.2",
                "WORLD_SIZE=3", "RANK=7", "MASTER_ADDR=localhost"}));
  REQUIRE(std::holds_alternative<Faults>(outcome));
  const auto& faults = std::get<Faults>(outcome);
  REQUIRE(faults.size() == 3);
  CHECK(faults[0].what == "SKYPILOT_NUM_NODES=2 contradicts WORLD_SIZE=3");
  CHECK(faults[1].what == "SKYPILOT_NODE_RANK=1 contradicts RANK=7");
  CHECK(faults[2].what == "MASTER_ADDR=localhost on node 1 is this node itself, not the master");
}

TEST_CASE("--nnodes=1 is enough to be alone, whatever the platform's number of this node is") {
  const std::vector<Words> all = {
      {"JOB_COMPLETION_INDEX=3"},
      {"RANK=3", "WORLD_SIZE=4", "MASTER_ADDR=m"},
      {"RANK=3"},
      {"SLURM_JOB_ID=7", "SLURM_ARRAY_TASK_ID=3", "SLURM_JOB_NUM_NODES=1", "SLURM_NODEID=0"},
      {"SLURM_JOB_ID=7", "SLURM_STEP_ID=0", "SLURM_STEP_NUM_NODES=4", "SLURM_STEP_NUM_TASKS=4",
       "SLURM_NODEID=3", "SLURM_PROCID=3", "SLURM_LOCALID=0", "SLURM_STEP_NODELIST=n[1-4]"},
      {"SLURM_JOB_ID=7", "SLURM_JOB_NUM_NODES=4",
       "SLURM_JOB_NODELIST=n[1-4]"},  // a batch script outside its steps
      {"SKYPILOT_NUM_NODES=4", "SKYPILOT_NODE_RANK=3", "SKYPILOT_NODE_IPS=a\nb\nc\nd"},
      {"LWS_LEADER_ADDRESS=l-0.l", "LWS_GROUP_SIZE=4", "LWS_WORKER_INDEX=3"},
      {"AWS_BATCH_JOB_ID=j#3", "AWS_BATCH_JOB_NODE_INDEX=3", "AWS_BATCH_JOB_NUM_NODES=4",
       "AWS_BATCH_JOB_MAIN_NODE_INDEX=0", "AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS=10.0.0.1"},
      {"_CONDOR_NPROCS=4", "_CONDOR_PROCNO=3", "_CONDOR_REMOTE_SPOOL_DIR=/s"},
      {"PET_NNODES=1:3", "PET_RDZV_BACKEND=c10d", "PET_RDZV_ENDPOINT=m:1", "PET_NODE_RANK=2"},
  };
  for (const Words& variables : all) {
    INFO(joined(variables, " "));
    CHECK(answer(FakeHost(variables), {"--nnodes=1"}) == "node 0 of 1, master 127.0.0.1");
    CHECK(answer(FakeHost(with(variables, {"RANKSHIM_NNODES=1"}))) == "node 0 of 1, master 127.0.0.1");
  }
  // The user's other words count beside it.
  CHECK_THAT(answer(FakeHost({"RANK=3"}), {"--nnodes=1", "--node-rank=1"}), Catch::StartsWith("refused: "));
  CHECK(answer(FakeHost({"RANK=3"}), {"--nnodes=1", "--master-addr=me"}) == "node 0 of 1, master me");
}

TEST_CASE(
    "a process of several nodes is not alone by the user's word, and whatever launched it the line says so") {
  const Words slurm = {"SLURM_JOB_ID=7",
                       "SLURM_STEP_ID=0",
                       "SLURM_STEP_NUM_NODES=2",
                       "SLURM_STEP_NUM_TASKS=8",
                       "SLURM_NTASKS=8",
                       "SLURM_NODEID=1",
                       "SLURM_PROCID=4",
                       "SLURM_LOCALID=0",
                       "SLURM_STEP_TASKS_PER_NODE=4(x2)",
                       "SLURM_STEP_NODELIST=c[1-2]"};
  const Words open_mpi = {"OMPI_COMM_WORLD_SIZE=8", "OMPI_COMM_WORLD_RANK=4", "OMPI_COMM_WORLD_LOCAL_SIZE=4",
                          "OMPI_COMM_WORLD_LOCAL_RANK=0", "MASTER_ADDR=m"};
  const Words by_hand = {"RANK=4", "WORLD_SIZE=8", "LOCAL_RANK=0", "LOCAL_WORLD_SIZE=4", "MASTER_ADDR=m"};
  for (const Words& variables : {slurm, open_mpi, by_hand}) {
    INFO(joined(variables, " "));
    CHECK_THAT(answer(FakeHost(variables), {"--nnodes=1"}), Catch::Contains("so there are other nodes"));
  }
}

TEST_CASE("another framework's number of nodes counts beside what its user sets for torch") {
  CHECK(answer(FakeHost({"JAX_NUM_PROCESSES=2", "JAX_PROCESS_ID=1", "NODE_RANK=1", "MASTER_ADDR=h"})) ==
        "node 1 of 2, master h");
}

TEST_CASE("LOCAL_RANK=0 that is left over turns no node into a process") {
  const Words aihc = {"AIHC_JOB_NAME=j", "MASTER_ADDR=j-master-0", "RANK=1", "WORLD_SIZE=2",
                      "NPROC_PER_NODE=8"};
  const Words pytorchjob = {"PET_NNODES=2",
                            "PET_NPROC_PER_NODE=8",
                            "PET_NODE_RANK=1",
                            "MASTER_PORT=1",
                            "PET_MASTER_ADDR=a-master-0",
                            "PET_MASTER_PORT=1",
                            "MASTER_ADDR=a-master-0",
                            "RANK=1",
                            "WORLD_SIZE=16"};
  const Words old_pytorchjob = {"MASTER_ADDR=a-master-0", "MASTER_PORT=1", "RANK=1", "WORLD_SIZE=2"};
  const Words dlc = {"MASTER_ADDR=dlc1-master-0", "MASTER_PORT=1", "RANK=1", "WORLD_SIZE=2",
                     "NPROC_PER_NODE=8"};
  for (const Words& variables : {aihc, pytorchjob, old_pytorchjob, dlc}) {
    INFO(joined(variables, " "));
    const std::string without = answer(FakeHost(variables));
    CHECK_THAT(without, Catch::StartsWith("node 1 of 2"));
    CHECK(answer(FakeHost(with(variables, {"LOCAL_RANK=0"}))) == without + "; warns");
    CHECK(answer(FakeHost(with(variables, {"LOCAL_RANK=0", "LOCAL_WORLD_SIZE=1"}))) == without + "; warns");
    CHECK(answer(FakeHost(with(variables, {"LOCAL_WORLD_SIZE=1"}))) == without);
  }
  CHECK_THAT(answer(FakeHost({"NNODES=2", "NODE_RANK=1", "WORLD_SIZE=16", "MASTER_ADDR=h", "RANK=0",
                              "LOCAL_RANK=0", "LOCAL_WORLD_SIZE=1"})),
             Catch::StartsWith("refused: ") && Catch::Contains("do not identify a process on this node"));
  CHECK(answer(FakeHost({"MASTER_ADDR=m", "RANK=1", "WORLD_SIZE=2", "LOCAL_RANK=0"})) ==
        "rank 1 of 2, master m");
}

TEST_CASE("processes are not counted as nodes") {
  const std::vector<std::pair<Words, std::string>> cases = {
      {{"RANK=0", "NODE_RANK=0", "WORLD_SIZE=16", "NPROC_PER_NODE=8", "MASTER_ADDR=m"},
       "refused: cannot tell"},
      {{"RANK=8", "NODE_RANK=1", "WORLD_SIZE=16", "NPROC_PER_NODE=8", "MASTER_ADDR=m"},
       "node 1 of 2, master m"},
      {{"RANK=1", "NODE_RANK=1", "WORLD_SIZE=16", "NPROC_PER_NODE=8", "MASTER_ADDR=m"},
       "node 1 of 16, master m"},
      {{"RANK=0", "NODE_RANK=0", "WORLD_SIZE=2", "NPROC_PER_NODE=8", "MASTER_ADDR=m"},
       "node 0 of 2, master m"},
      {{"JOB_COMPLETION_INDEX=1", "WORLD_SIZE=16", "MASTER_ADDR=m"}, "refused: cannot tell"},
      {{"JOB_COMPLETION_INDEX=1", "WORLD_SIZE=16", "MASTER_ADDR=m", "NPROC_PER_NODE=1"},
       "node 1 of 16, master m"},
      {{"JOB_COMPLETION_INDEX=1", "RANK=1", "WORLD_SIZE=2", "MASTER_ADDR=m"}, "node 1 of 2, master m"},
      {{"RANKSHIM_NODE_RANK=1", "WORLD_SIZE=16", "MASTER_ADDR=m"}, "refused: cannot tell"},
      {{"SLURM_JOB_ID=7", "SLURM_STEP_ID=0", "SLURM_STEP_NUM_NODES=2", "SLURM_STEP_NUM_TASKS=2",
        "SLURM_STEP_NODELIST=n[1-2]", "SLURM_NODEID=0", "SLURM_PROCID=0", "SLURM_LOCALID=0", "RANK=0",
        "LOCAL_RANK=0", "NODE_RANK=0", "WORLD_SIZE=16"},
       "refused: cannot tell"},
  };
  for (const auto& [variables, expected] : cases) {
    INFO(joined(variables, " "));
    CHECK_THAT(answer(FakeHost(variables)), Catch::StartsWith(expected));
  }
}

TEST_CASE("the run id is the same on all nodes, however they spell the master, and the port too") {
  const auto meeting = [](const Words& variables, const char* hostname) {
    FakeHost host(variables);
    host.name = hostname;
    const auto outcome = resolve(host);
    REQUIRE(std::holds_alternative<Topology>(outcome));
    const Facts& facts = std::get<Topology>(outcome).facts;
    return std::string(facts.text(Fact::run_id)) + " " + std::string(facts.text(Fact::master_port));
  };
  const Words second = {"RANK=1", "WORLD_SIZE=2", "MASTER_ADDR=10.0.0.1"};
  for (const char* master : {"127.0.0.1", "localhost", "a", "a.ns.svc.cluster.local", "10.0.0.1"})
    CHECK(meeting({"RANK=0", "WORLD_SIZE=2", std::string("MASTER_ADDR=") + master}, "a") ==
          meeting(second, "b"));
  CHECK(meeting(second, "b") == "rankshim 29500");
  CHECK(meeting(with(second, {"RANKSHIM_RUN_ID=job"}), "b") == "job " + std::to_string(default_port("job")));
}

TEST_CASE("a step on one of the job's nodes says nothing about the others") {
  const Words step = {"SLURM_JOB_ID=7",         "SLURM_STEP_ID=1",       "SLURM_STEP_NUM_NODES=1",
                      "SLURM_STEP_NUM_TASKS=1", "SLURM_JOB_NUM_NODES=2", "SLURM_JOB_NODELIST=n[1-2]",
                      "SLURM_STEP_NODELIST=n2", "SLURM_NODEID=0",        "SLURM_PROCID=0",
                      "SLURM_LOCALID=0",        "SLURM_NNODES=1",        "SLURM_NTASKS=1"};
  const Words torchrun = {"torchrun", "--nnodes", "2", "--node_rank", "1", "--master_addr", "n1", "train.py"};
  CHECK(answer(FakeHost(step), {}, torchrun) == "node 1 of 2, master n1");
  CHECK(answer(FakeHost(step), {"--nnodes=2", "--node-rank=1"}, torchrun) == "node 1 of 2, master n1");
  CHECK(answer(FakeHost(step), {"--nnodes=2", "--node-rank=1", "--master-addr=n1"}) ==
        "node 1 of 2, master n1");
  CHECK(answer(FakeHost(with(step, {"NNODES=2", "NODE_RANK=1", "MASTER_ADDR=n1"}))) ==
        "node 1 of 2, master n1");
  CHECK(answer(FakeHost(step)) == "node 0 of 1, master 127.0.0.1; warns");
  CHECK(answer(FakeHost(step), {"--nnodes=1"}) == "node 0 of 1, master 127.0.0.1");

  // Only a rank that differs within one and the same number of nodes is wrong.
  Words whole = step;
  for (const char* entry : {"SLURM_STEP_NUM_NODES=2", "SLURM_STEP_NUM_TASKS=2", "SLURM_STEP_NODELIST=n[1-2]",
                            "SLURM_NNODES=2", "SLURM_NTASKS=2"}) {
    std::erase_if(whole,
                  [&](const std::string& old) { return node::entry_name(old) == node::entry_name(entry); });
    whole.emplace_back(entry);
  }
  CHECK_THAT(answer(FakeHost(whole), {}, torchrun), Catch::StartsWith("refused: torchrun --node_rank=1"));
}

TEST_CASE("impossible values are refused, and what follows is filled in") {
  CHECK_THAT(answer(FakeHost({"RANK=1", "WORLD_SIZE=4", "LOCAL_RANK=2", "MASTER_ADDR=m"})),
             Catch::StartsWith("refused: RANK=1 is below LOCAL_RANK=2"));
  for (const char* nothing : {"None", "null", "nil", "NULL"})
    CHECK_THAT(answer(FakeHost({"NNODES=2", "NODE_RANK=1", std::string("MASTER_ADDR=") + nothing})),
               Catch::StartsWith("refused: MASTER_ADDR="));
  for (const char* backend : {"c10d", "etcd-v2"})
    CHECK_THAT(answer(FakeHost({"PET_NNODES=2", std::string("PET_RDZV_BACKEND=") + backend,
                                "PET_RDZV_ENDPOINT=None:29400"})),
               Catch::Contains("PET_RDZV_ENDPOINT=None:29400 does not name a host"));
  const auto outcome = resolve(
      FakeHost({"SLURM_JOB_ID=7", "SLURM_STEP_ID=0", "SLURM_STEP_NUM_NODES=1", "SLURM_STEP_NUM_TASKS=4",
                "SLURM_NTASKS=4", "SLURM_NNODES=1", "SLURM_PROCID=1", "SLURM_LOCALID=1", "SLURM_NODEID=0"}));
  REQUIRE(std::holds_alternative<Topology>(outcome));
  CHECK(std::get<Topology>(outcome).facts.text(Fact::local_world_size) == "4");

  FakeHost jobset({"JOB_COMPLETION_INDEX=1", "JOBSET_NAME=js", "NNODES=2",
                   "MASTER_ADDR=js-workers-0-0.js.team.svc.cluster.local"});
  jobset.name = "js-workers-0-1";
  CHECK(answer(jobset) == "node 1 of 2, master js-workers-0-0.js.team.svc.cluster.local");
}

TEST_CASE("a JobSet's second replicated job becomes no second node 0, whoever gives the number of nodes") {
  const Words pod = {"JOB_COMPLETION_INDEX=0", "MASTER_ADDR=js-workers-0-0.sub"};
  for (const char* number : {"NNODES=2", "RANK=0 WORLD_SIZE=2", "PET_NNODES=2", "RANKSHIM_NNODES=2"}) {
    Words variables = pod;
    std::string_view rest = number;
    while (!rest.empty()) variables.emplace_back(split_next(rest, " "));
    FakeHost host(variables);
    host.name = "js-workers-1-0";
    CHECK_THAT(answer(host), Catch::StartsWith("refused: the host name can be that of a JobSet"));
  }
  FakeHost host(pod);
  host.name = "js-workers-1-0";
  CHECK_THAT(answer(host, {"--nnodes=2"}),
             Catch::StartsWith("refused: the host name can be that of a JobSet"));
  CHECK(answer(host, {"--nnodes=2", "--node-rank=1"}) == "node 1 of 2, master js-workers-0-0.sub");
  CHECK(answer(host, {"--nnodes=1"}) == "node 0 of 1, master 127.0.0.1");
}

TEST_CASE("claims that are not used are listed") {
  const auto outcome =
      resolve(FakeHost({"SKYPILOT_NUM_NODES=2", "SKYPILOT_NODE_RANK=1", "SKYPILOT_NODE_IPS=a\nb"}),
              {"--node-rank=0", "--nnodes=2"});
  REQUIRE(std::holds_alternative<Topology>(outcome));
  const auto& unused = std::get<Topology>(outcome).unused;
  REQUIRE(unused.size() == 1);
  CHECK(in_words(unused[0].first, unused[0].second) == "SKYPILOT_NODE_RANK=1");
}

}  // namespace rankshim::topology
