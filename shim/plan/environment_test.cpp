#include "plan/launch.h"

#include <catch2/catch.hpp>
#include <ctime>

#include "run/plan_for_test.h"

namespace rankshim::plan {
namespace {

using node::Environment;
using node::FakeHost;

using namespace run::for_test;

TEST_CASE("a change replaces, adds and removes variables everywhere, and a malformed entry stays") {
  EnvironmentChange change;
  change.set = {{"A", "0"}, {"A", "4"}, {"D", "5=6"}};
  change.unset = {"B", "none", "D"};
  const Environment changed = change.apply(Environment({"A=1", "B=2", "A=3", "odd", "C=3", "=x", "B="}));
  CHECK(changed.entries() == Words{"odd", "C=3", "=x", "A=4", "D=5=6"});
}

TEST_CASE("torch's dumps of a hang go to the user's folder, unless the user has named a file") {
  const auto dump_of = [](Words variables, const std::string& name) {
    const FakeHost host(std::move(variables));
    const ShownPlan result = planned(host, {"--hang-dumps=/data/hangs", "train.py"});
    return std::string(environment_of(result, host).get(name).value_or("none"));
  };
  CHECK(dump_of({}, "TORCH_FR_DUMP_TEMP_FILE") == "/data/hangs/rank_");
  CHECK(dump_of({}, "TORCH_NCCL_DEBUG_INFO_TEMP_FILE") == "/data/hangs/rank_");
  CHECK(dump_of({"TORCH_FR_DUMP_TEMP_FILE=/mine"}, "TORCH_FR_DUMP_TEMP_FILE") == "/mine");
}

TEST_CASE("workers share the CPUs, unless the user or the scheduler has set how") {
  const auto threads = [](Words variables, Words line) {
    FakeHost host(std::move(variables));
    host.cpu_count = 12;
    const ShownPlan result = planned(host, std::move(line));
    for (const auto& [name, value] : result.environment.set)
      if (name == "OMP_NUM_THREADS") return value;
    return std::string("open");
  };
  CHECK(threads({}, {"--nproc-per-node=4", "train.py"}) == "3");
  CHECK(threads({}, {"--nproc-per-node=16", "train.py"}) == "1");
  CHECK(threads({}, {"--nproc-per-node=1", "train.py"}) == "open");
  CHECK(threads({"OMP_NUM_THREADS=2"}, {"--nproc-per-node=4", "train.py"}) == "open");
  CHECK(threads({}, {"--nproc-per-node=4", "bash", "run.sh"}) == "open");
  const Words created = {"RANK=1", "WORLD_SIZE=4", "LOCAL_RANK=1", "LOCAL_WORLD_SIZE=4", "MASTER_ADDR=m"};
  CHECK(threads(created, {"--rank-unit=process", "python", "train.py"}) == "3");
  Words slurm = created;
  slurm.emplace_back("SLURM_CPUS_PER_TASK=5");
  CHECK(threads(slurm, {"--rank-unit=process", "python", "train.py"}) == "5");
}

TEST_CASE("a program runs as it is, with the variables that its scripts read") {
  const FakeHost host({"NNODES=3", "NODE_RANK=1", "NPROC_PER_NODE=8", "MASTER_ADDR=m", "MASTER_PORT=1234"});
  const ShownPlan result = planned(host, {"bash", "tools/dist_train.sh", "c.py", "8"});
  CHECK(result.argv == Words{"bash", "tools/dist_train.sh", "c.py", "8"});
  CHECK(result.scope == SignalScope::handlers);
  CHECK(result.wait == wait::Until::name);
  const Environment environment = environment_of(result, host);
  CHECK(environment.get("PORT") == "1234");
  CHECK(environment.get("NODE_RANK") == "1");
  CHECK_FALSE(environment.has("RANK"));
  CHECK_FALSE(environment.has("LOCAL_RANK"));
  CHECK_FALSE(environment.has("PET_NNODES"));
}

TEST_CASE(
    "on a lone node PORT is set for a script that reads it beside torch's launcher, and for nothing else") {
  FakeHost host({});
  host.files["dist_train.sh"] =
      "PORT=${PORT:-29500}\npython -m torch.distributed.launch --master_port=$PORT t.py\n";
  host.files["web.sh"] = "exec server --port $PORT\n";
  host.files["other.sh"] = "torchrun --master_port=$PORTAL $MASTER_PORT t.py\n";
  const auto port = [](const FakeHost& where, Words command) {
    return std::string(
        environment_of(planned(where, std::move(command)), where).get("PORT").value_or("none"));
  };
  CHECK(port(host, {"bash", "dist_train.sh"}) == "29500");
  CHECK(port(host, {"bash", "-c", "torchrun --master_port $PORT t.py"}) == "29500");
  CHECK(port(host, {"bash", "web.sh"}) == "none");
  CHECK(port(host, {"bash", "other.sh"}) == "none");
  CHECK(port(host, {"server"}) == "none");
  CHECK(port(host, {"--platform=none", "bash", "dist_train.sh"}) == "none");
  FakeHost web({"PORT=8080"});
  web.files = host.files;
  CHECK(port(web, {"bash", "dist_train.sh"}) == "8080");
}

TEST_CASE("a platform's variable that was read without a line end, the command gets without it") {
  const FakeHost host({"SLURM_JOB_ID=7\r", "SLURM_JOB_NUM_NODES=1\r", "OTHER=1\r"});
  const Environment environment = environment_of(planned(host, {"bash", "run.sh"}), host);
  CHECK(environment.entries() != host.environment().entries());
  for (const std::string& entry : environment.entries())
    if (entry.starts_with("SLURM_")) CHECK_FALSE(entry.ends_with('\r'));
}

TEST_CASE("what was read without a line end, the command gets without it") {
  const FakeHost host({"RANK=1\r", "WORLD_SIZE= 2\r", "MASTER_ADDR=m\r", "PET_RDZV_ID=j\n", "OTHER=x\r"});
  const Environment environment = environment_of(planned(host, {"x"}), host);
  const auto has = [&](const std::string& entry) {
    return std::ranges::find(environment.entries(), entry) != environment.entries().end();
  };
  CHECK(has("RANK=1"));
  CHECK(has("WORLD_SIZE=2"));
  CHECK(has("MASTER_ADDR=m"));
  CHECK(has("PET_RDZV_ID=j"));
  CHECK(has("OTHER=x\r"));  // not read
}

TEST_CASE(
    "RANK and WORLD_SIZE are set for env:// only where the platform set none and there is one worker per "
    "node") {
  const FakeHost one({"NNODES=3", "NODE_RANK=1", "MASTER_ADDR=m"});
  CHECK(environment_of(planned(one, {"x"}), one).get("RANK") == "1");
  CHECK(environment_of(planned(one, {"x"}), one).get("WORLD_SIZE") == "3");
  const FakeHost own({"RANK=1", "WORLD_SIZE=3", "MASTER_ADDR=m"});
  CHECK(environment_of(planned(own, {"x"}), own).get("RANK") == "1");
}

TEST_CASE("an environment that rankshim wrote resolves to the same topology") {
  const std::vector<Words> environments = {
      kubeflow,
      {"NNODES=3", "NODE_RANK=1", "MASTER_ADDR=m"},
      {"PET_NNODES=2", "PET_NODE_RANK=1", "PET_NPROC_PER_NODE=4", "PET_MASTER_ADDR=m", "PET_MASTER_PORT=5"},
      {"PET_NNODES=1:3", "PET_RDZV_BACKEND=c10d", "PET_RDZV_ENDPOINT=w:29400", "PET_RDZV_ID=j"},
      {}};
  for (const Words& variables : environments) {
    CAPTURE(variables);
    const FakeHost first(variables);
    const auto before = try_plan(first, {"x"});
    const FakeHost second(environment_of(std::get<ShownPlan>(before.plan), first).entries());
    const auto after = try_plan(second, {"x"});
    for (const Fact fact : {Fact::nnodes, Fact::node_rank, Fact::nproc_per_node, Fact::master_addr,
                            Fact::master_port, Fact::run_id, Fact::rdzv_endpoint}) {
      CHECK(before.topology.facts.text(fact) == after.topology.facts.text(fact));
    }
  }
}

TEST_CASE("a program alone has the five variables, but PORT, RANK and WORLD_SIZE are left as they are") {
  const FakeHost host({"A=1", "RANKSHIM_WAIT=none", "NPROC_PER_NODE=2"});
  const Environment environment = environment_of(planned(host, {"x"}), host);
  CHECK(environment.entries() == Words{"A=1", "MASTER_ADDR=127.0.0.1", "MASTER_PORT=29500", "NNODES=1",
                                       "NODE_RANK=0", "NPROC_PER_NODE=2"});
  CHECK(planned(host, {"x"}).wait == wait::Until::none);
}

TEST_CASE(
    "on a node that is alone by the user's word RANK and WORLD_SIZE of several nodes are not handed on") {
  const FakeHost host({"RANK=1", "WORLD_SIZE=2", "MASTER_ADDR=m", "RANKSHIM_NNODES=1"});
  const Environment one = environment_of(planned(host, {"python", "train.py"}), host);
  CHECK(one.get("RANK") == "0");
  CHECK(one.get("WORLD_SIZE") == "1");
  const Environment several =
      environment_of(planned(host, {"--nproc-per-node=8", "python", "train.py"}), host);
  CHECK_FALSE(several.has("RANK"));
  CHECK_FALSE(several.has("WORLD_SIZE"));
}

TEST_CASE("many empty PET_ variables are taken out in one pass", "[attack]") {
  std::vector<std::string> variables;
  for (int i = 0; i < 40'000; ++i) variables.push_back("PET_NOBODYS_" + std::to_string(i) + "=");
  const FakeHost host(variables);
  const std::clock_t begin = std::clock();
  const Environment left =
      environment_of(planned(host, {"--nnodes=4", "--node-rank=0", "--master-addr=m", "bash"}), host);
  CHECK(std::clock() - begin < 30 * CLOCKS_PER_SEC);  // before: a minute
  CHECK(left.entries().size() < 20);
}

TEST_CASE("processes that exist already get torch's variables and no second launcher") {
  const FakeHost host({"TORCHELASTIC_RUN_ID=r", "RANK=3", "WORLD_SIZE=4", "LOCAL_RANK=1",
                       "LOCAL_WORLD_SIZE=2", "GROUP_RANK=1", "GROUP_WORLD_SIZE=2", "MASTER_ADDR=m",
                       "MASTER_PORT=5"});
  const ShownPlan result = planned(host, {"train.py"});
  CHECK(result.argv == Words{"python3", "-u", "train.py"});
  CHECK(environment_of(result, host).get("RANK") == "3");
  CHECK(result.site);
  CHECK(environment_of(result, host).get("TORCHELASTIC_ERROR_FILE") == "/dev/shm/rankshim-XXXXXX/error.json");
  CHECK(result.wait == wait::Until::port);
  CHECK(std::holds_alternative<Faults>(try_plan(host, {"--launcher=torchrun", "train.py"}).plan));
}

TEST_CASE("PORT is set on several nodes where it is not set") {
  FakeHost own(kubeflow);
  CHECK(environment_of(planned(own, {"bash"}), own).get("PORT") == "23456");
  auto variables = kubeflow;
  variables.emplace_back("PORT=8080");
  const FakeHost web(variables);
  CHECK(environment_of(planned(web, {"bash"}), web).get("PORT") == "8080");
}

TEST_CASE("a program of an elastic job gets the numbers that NNODES is not") {
  const FakeHost host({"PET_NNODES=1:3", "PET_RDZV_BACKEND=c10d", "PET_RDZV_ENDPOINT=w:1", "PET_RDZV_ID=j"});
  const Environment environment = environment_of(planned(host, {"bash"}), host);
  CHECK(environment.get("NNODES") == "1:3");
  CHECK(environment.get("MIN_NNODES") == "1");
  CHECK(environment.get("MAX_NNODES") == "3");
  CHECK(environment.get("RDZV_ID") == "j");
}

TEST_CASE("without a mapping a program's environment stays as it is") {
  const FakeHost host({"NNODES=2", "MASTER_ADDR=m"});
  CHECK(environment_of(planned(host, {"--platform=none", "bash"}), host).entries() ==
        Words{"NNODES=2", "MASTER_ADDR=m"});
}

}  // namespace
}  // namespace rankshim::plan
