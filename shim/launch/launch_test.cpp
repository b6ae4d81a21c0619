#include "launch/launch.h"

#include <catch2/catch.hpp>

#include "explain/shell_quote.h"
#include "node/fake_node.h"
#include "platform/builtin.h"

namespace rankshim {
namespace {

using Words = std::vector<std::string>;

struct Planned {
  Topology topology;
  Outcome<LaunchPlan> plan;
};

Planned plan(const Node& node, Words line) {
  const auto read = read_settings(line, node);
  if (const auto* rejected = std::get_if<Rejected>(&read)) FAIL(to_line(rejected->faults.front()));
  const auto& invocation = std::get<Invocation>(read);
  const auto profiles = platform::builtin_profiles();
  const auto platform = platform::recognise(profiles, invocation.settings.text(Option::platform), node);
  const auto topology = resolve_topology(invocation.settings, std::get<platform::Platform>(platform),
                                         platform::find(profiles, "generic"), node);
  if (const auto* faults = std::get_if<Faults>(&topology)) FAIL(to_line(faults->front()));
  const auto& known = std::get<Topology>(topology);
  return {known, plan_launch(known, invocation.settings, invocation.arguments, node, std::nullopt)};
}

LaunchPlan planned(const Node& node, Words line) {
  auto result = plan(node, std::move(line));
  if (const auto* faults = std::get_if<Faults>(&result.plan)) FAIL(to_line(faults->front()));
  return std::get<LaunchPlan>(result.plan);
}

Environment environment_of(const LaunchPlan& plan, const Node& node) {
  return plan.environment.apply(node.environment());
}

const Words kubeflow = {"PATH=/usr/bin",     "RANK=1",
                        "WORLD_SIZE=3",      "MASTER_ADDR=job-master-0",
                        "MASTER_PORT=23456", "PYTHONUNBUFFERED=0"};

TEST_CASE("a script goes to torchrun with underscore flags and a static rendezvous") {
  const FakeNode node(kubeflow);
  const LaunchPlan result = planned(node, {"train.py", "--epochs", "2"});
  CHECK(result.launcher == Launcher::torchrun);
  CHECK(
      shell_quote(result.argv) ==
      "python3 -u -m torch.distributed.run --nnodes=3 --nproc_per_node=1 --rdzv_backend=static --node_rank=1 "
      "--master_addr=job-master-0 --master_port=23456 --rdzv_id=job-master-0 --max_restarts=0 "
      "--log_dir=/tmp/rankshim-XXXXXX train.py --epochs 2");
  CHECK(result.scope == supervise::SignalScope::child);
  CHECK(result.wait == wait::Until::port);
  CHECK(shell_quote(planned(node, {"-m", "pkg.train"}).argv)
            .ends_with("--log_dir=/tmp/rankshim-XXXXXX -m pkg.train"));
}

TEST_CASE("rankshim wait without a command waits for the master's port, on the master for its name") {
  const FakeNode worker(kubeflow);
  CHECK(planned(worker, {"wait"}).wait == wait::Until::port);
  CHECK(planned(worker, {"wait", "--wait=dns"}).wait == wait::Until::name);
  CHECK(planned(worker, {"wait", "--node-rank=0"}).wait == wait::Until::name);
}

TEST_CASE("--launcher launch uses torch.distributed.launch, none runs the script by the interpreter alone") {
  const FakeNode node(kubeflow);
  CHECK(planned(node, {"--launcher=launch", "train.py"}).argv[3] == "torch.distributed.launch");
  CHECK(planned(node, {"--launcher=none", "train.py"}).argv == Words{"python3", "-u", "train.py"});
  CHECK(std::holds_alternative<Faults>(plan(node, {"--launcher=torchrun", "bash", "x"}).plan));
}

TEST_CASE("max_restarts is the option's, then PET_MAX_RESTARTS, then 0") {
  auto variables = kubeflow;
  variables.emplace_back("PET_MAX_RESTARTS=4");
  const FakeNode node(variables);
  CHECK_THAT(shell_quote(planned(node, {"train.py"}).argv), Catch::Contains("--max_restarts=4"));
  CHECK_THAT(shell_quote(planned(node, {"--max-restarts=2", "train.py"}).argv),
             Catch::Contains("--max_restarts=2"));
}

TEST_CASE("workers that we start share the CPUs, unless the user or the scheduler has said how") {
  const auto threads = [](Words variables, Words line) {
    FakeNode node(std::move(variables));
    node.cpu_count = 12;
    const LaunchPlan result = planned(node, std::move(line));
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
  const FakeNode node({"NNODES=3", "NODE_RANK=1", "NPROC_PER_NODE=8", "MASTER_ADDR=m", "MASTER_PORT=1234"});
  const LaunchPlan result = planned(node, {"bash", "tools/dist_train.sh", "c.py", "8"});
  CHECK(result.argv == Words{"bash", "tools/dist_train.sh", "c.py", "8"});
  CHECK(result.scope == supervise::SignalScope::group);
  CHECK(result.wait == wait::Until::name);
  const Environment environment = environment_of(result, node);
  CHECK(environment.get("PORT") == "1234");
  CHECK(environment.get("NODE_RANK") == "1");
  CHECK_FALSE(environment.has("RANK"));
  CHECK_FALSE(environment.has("LOCAL_RANK"));
  CHECK_FALSE(environment.has("PET_NNODES"));
  CHECK(environment_of(planned(node, {"--export-pet", "bash", "x"}), node).get("PET_NNODES") == "3");
}

TEST_CASE(
    "RANK and WORLD_SIZE are set for env:// only where the platform set none and there is one worker per "
    "node") {
  const FakeNode one({"NNODES=3", "NODE_RANK=1", "MASTER_ADDR=m"});
  CHECK(environment_of(planned(one, {"x"}), one).get("RANK") == "1");
  CHECK(environment_of(planned(one, {"x"}), one).get("WORLD_SIZE") == "3");
  const FakeNode own({"RANK=1", "WORLD_SIZE=3", "MASTER_ADDR=m"});
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
    const FakeNode first(variables);
    const auto before = plan(first, {"x"});
    const FakeNode second(environment_of(std::get<LaunchPlan>(before.plan), first).entries());
    const auto after = plan(second, {"x"});
    for (const Fact fact : {Fact::nnodes, Fact::node_rank, Fact::nproc_per_node, Fact::master_addr,
                            Fact::master_port, Fact::run_id, Fact::rdzv_endpoint}) {
      CHECK(before.topology.facts.text(fact) == after.topology.facts.text(fact));
    }
  }
}

TEST_CASE("a node alone leaves a program's environment as it is, but for our own variables") {
  const FakeNode node({"A=1", "RANKSHIM_WAIT=none", "NPROC_PER_NODE=2"});
  const Environment environment = environment_of(planned(node, {"x"}), node);
  CHECK(environment.entries() == Words{"A=1", "NPROC_PER_NODE=2"});
  CHECK(planned(node, {"x"}).wait == wait::Until::none);
}

TEST_CASE("PET_ variables never reach torchrun with another value than ours, and empty ones reach nobody") {
  const FakeNode node({"PET_NNODES=3", "PET_NODE_RANK=1", "PET_NPROC_PER_NODE=2", "PET_MASTER_ADDR=m",
                       "PET_MASTER_PORT=5", "PET_STANDALONE=", "PET_RDZV_ENDPOINT=", "PET_LOG_DIR=/logs"});
  const Environment script = environment_of(planned(node, {"--nnodes=4", "train.py"}), node);
  CHECK_FALSE(script.has("PET_NNODES"));
  CHECK_FALSE(script.has("PET_STANDALONE"));
  CHECK(script.get("PET_LOG_DIR") == "/logs");
  const Environment program = environment_of(planned(node, {"--nnodes=4", "bash"}), node);
  CHECK(program.get("PET_NNODES") == "4");
  CHECK_FALSE(program.has("PET_STANDALONE"));
  CHECK_FALSE(program.has("PET_RDZV_ENDPOINT"));
}

TEST_CASE("an elastic job meets by c10d, with who hosts and the own address said outright") {
  FakeNode node({"PET_NNODES=1:3", "PET_RDZV_BACKEND=c10d", "PET_RDZV_ENDPOINT=job-worker-0:29400",
                 "PET_RDZV_ID=job", "PET_RDZV_CONF=join_timeout=60"});
  node.name = "job-worker-0";
  const LaunchPlan result = planned(node, {"train.py"});
  CHECK(shell_quote(result.argv) ==
        "python3 -u -m torch.distributed.run --nnodes=1:3 --nproc_per_node=1 --rdzv_backend=c10d "
        "--rdzv_endpoint=job-worker-0:29400 --rdzv_id=job --rdzv_conf=is_host=true,join_timeout=60 "
        "--local_addr=10.9.9.9 --max_restarts=0 --log_dir=/tmp/rankshim-XXXXXX train.py");
  CHECK(environment_of(result, node).get("TORCH_DISABLE_SHARE_RDZV_TCP_STORE") == "1");
  CHECK(result.wait == wait::Until::name);
  node.name = "job-worker-1";
  CHECK(planned(node, {"train.py"}).wait == wait::Until::port);
}

TEST_CASE("the interpreter is the option's, else python3 or python, whichever PATH has first") {
  FakeNode node({"PATH=/env/bin:/usr/bin"});
  node.programs = {"/usr/bin/python3", "/env/bin/python"};
  CHECK(planned(node, {"train.py"}).argv[0] == "python");
  node.programs = {"/usr/bin/python3", "/usr/bin/python"};
  CHECK(planned(node, {"train.py"}).argv[0] == "python3");
  node.programs = {"/usr/bin/python"};
  CHECK(planned(node, {"train.py"}).argv[0] == "python");
  CHECK(planned(node, {"--python=/usr/bin/python", "train.py"}).argv[0] == "/usr/bin/python");
  node.programs = {};
  const LaunchPlan nothing = planned(node, {"train.py"});
  REQUIRE(nothing.warnings.size() == 1);
  CHECK_THAT(nothing.warnings[0], Catch::Contains("neither python3 nor python is in PATH"));
}

TEST_CASE("a script that reads --local_rank and not LOCAL_RANK gets a warning") {
  FakeNode node({});
  node.files["old.py"] = "parser.add_argument('--local_rank')";
  node.files["new.py"] = "parser.add_argument('--local_rank', default=os.environ['LOCAL_RANK'])";
  CHECK_THAT(planned(node, {"old.py"}).warnings.at(0), Catch::Contains("--launcher=launch"));
  CHECK(planned(node, {"new.py"}).warnings.empty());
  CHECK(planned(node, {"--launcher=launch", "old.py"}).warnings.empty());
}

TEST_CASE("a program is warned where WORLD_SIZE counts processes and RANK nodes") {
  const FakeNode node({"PET_NNODES=2", "PET_NODE_RANK=1", "PET_NPROC_PER_NODE=4", "PET_MASTER_ADDR=m",
                       "PET_MASTER_PORT=5", "RANK=1", "WORLD_SIZE=8", "MASTER_ADDR=m", "MASTER_PORT=5"});
  CHECK_THAT(planned(node, {"python", "x.py"}).warnings.at(0),
             Catch::Contains("WORLD_SIZE=8 counts processes"));
  CHECK(planned(node, {"x.py"}).warnings.empty());
}

TEST_CASE(
    "workers whose script we launch are recorded, with our folder before what the user has in PYTHONPATH") {
  const FakeNode node(kubeflow);
  const LaunchPlan script = planned(node, {"train.py"});
  REQUIRE(script.site);
  CHECK(script.site->records);
  CHECK_FALSE(script.site->had_path);
  CHECK_FALSE(script.site->job);
  CHECK(environment_of(script, node).get("PYTHONPATH") == "/tmp/rankshim-XXXXXX/python");
  CHECK_FALSE(planned(node, {"--no-record", "train.py"}).site);

  const FakeNode own({"PYTHONPATH=/a:/b", "TMPDIR=/scratch"});
  const LaunchPlan with_path = planned(own, {"train.py"});
  CHECK(with_path.site->had_path);
  CHECK(environment_of(with_path, own).get("PYTHONPATH") == "/scratch/rankshim-XXXXXX/python:/a:/b");
  const LaunchPlan program = planned(own, {"python", "train.py"});
  CHECK_FALSE(program.site);
  CHECK(environment_of(program, own).get("PYTHONPATH") == "/a:/b");
}

TEST_CASE("processes that exist already get torch's variables and no second launcher") {
  const FakeNode node({"TORCHELASTIC_RUN_ID=r", "RANK=3", "WORLD_SIZE=4", "LOCAL_RANK=1",
                       "LOCAL_WORLD_SIZE=2", "GROUP_RANK=1", "GROUP_WORLD_SIZE=2", "MASTER_ADDR=m",
                       "MASTER_PORT=5"});
  const LaunchPlan result = planned(node, {"train.py"});
  CHECK(result.argv == Words{"python3", "-u", "train.py"});
  CHECK(environment_of(result, node).get("RANK") == "3");
  CHECK(result.site);
  CHECK(environment_of(result, node).get("TORCHELASTIC_ERROR_FILE") == "/tmp/rankshim-XXXXXX/error.json");
  CHECK(result.wait == wait::Until::port);
  CHECK(std::holds_alternative<Faults>(plan(node, {"--launcher=torchrun", "train.py"}).plan));
}

}  // namespace
}  // namespace rankshim
