#include "run/plan.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>

#include "cli/explain.h"
#include "cli/shell_quote.h"
#include "node/fake_node.h"
#include "platform/builtin.h"
#include "topology/resolve_for_test.h"

namespace rankshim {
namespace {

using Words = std::vector<std::string>;

/// A plan as explain shows it, with our part in Python's start.
struct ShownPlan : LaunchPlan {
  std::optional<PythonSite> site;
};

struct Planned {
  Topology topology;
  Outcome<LaunchPlan> plan;
  std::optional<PythonSite> site;
};

Planned plan(const Node& node, Words line) {
  const auto read = read_settings(line, node);
  if (const auto* rejected = std::get_if<Rejected>(&read)) FAIL(to_line(rejected->faults.front()));
  const auto& invocation = std::get<Invocation>(read);
  const auto profiles = platform::builtin_profiles();
  const auto platform = platform::recognise(profiles, invocation.settings.text(Option::platform), node);
  const auto torchrun = own_torchrun(invocation.settings, invocation.arguments);
  const auto topology = resolve_topology(invocation.settings, std::get<platform::Platform>(platform), node,
                                         torchrun ? &torchrun->says : nullptr);
  if (const auto* faults = std::get_if<Faults>(&topology)) FAIL(to_line(faults->front()));
  const auto& known = std::get<Topology>(topology);
  const LaunchInput input{known, invocation.settings, invocation.arguments, node};
  Planned planned{known, plan_launch(input), {}};
  if (auto* done = std::get_if<LaunchPlan>(&planned.plan)) {
    write_shown_command(*done, input);
    planned.site = plan_site(*done, input, std::nullopt);
  }
  return planned;
}

ShownPlan planned(const Node& node, Words line) {
  auto result = plan(node, std::move(line));
  if (const auto* faults = std::get_if<Faults>(&result.plan)) FAIL(to_line(faults->front()));
  return {std::get<LaunchPlan>(std::move(result.plan)), std::move(result.site)};
}

Environment environment_of(const LaunchPlan& plan, const Node& node) {
  return plan.environment.apply(node.environment());
}

const Words kubeflow = {"PATH=/usr/bin",     "RANK=1",
                        "WORLD_SIZE=3",      "MASTER_ADDR=job-master-0",
                        "MASTER_PORT=23456", "PYTHONUNBUFFERED=0"};

TEST_CASE("a script goes to torchrun with underscore flags and a static rendezvous") {
  const FakeNode node(kubeflow);
  const ShownPlan result = planned(node, {"train.py", "--epochs", "2"});
  CHECK(result.launcher == LauncherKind::torchrun);
  CHECK(
      shell_quote(result.argv) ==
      "python3 -u -m torch.distributed.run --nnodes=3 --nproc_per_node=1 --rdzv_backend=static --node_rank=1 "
      "--master_addr=job-master-0 --master_port=23456 --rdzv_id=job-master-0 --max_restarts=0 "
      "--log_dir=/tmp/rankshim-XXXXXX train.py --epochs 2");
  CHECK(result.scope == supervise::SignalScope::child);
  CHECK(result.wait == Until::port);
  CHECK(shell_quote(planned(node, {"-m", "pkg.train"}).argv)
            .ends_with("--log_dir=/tmp/rankshim-XXXXXX -m pkg.train"));
}

TEST_CASE("rankshim wait without a command waits for the master's port, on the master for its name") {
  const FakeNode worker(kubeflow);
  CHECK(planned(worker, {"wait"}).wait == Until::port);
  CHECK(planned(worker, {"wait", "--wait=dns"}).wait == Until::name);
  CHECK(planned(worker, {"wait", "--node-rank=0"}).wait == Until::name);
}

TEST_CASE("--launcher launch gives the script --local_rank, none runs the script by the interpreter alone") {
  const FakeNode node(kubeflow);
  CHECK(shell_quote(planned(node, {"--launcher=launch", "train.py", "--x"}).argv)
            .ends_with(" train.py '--local_rank=${local_rank}' --x"));
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
    const ShownPlan result = planned(node, std::move(line));
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
  const ShownPlan result = planned(node, {"bash", "tools/dist_train.sh", "c.py", "8"});
  CHECK(result.argv == Words{"bash", "tools/dist_train.sh", "c.py", "8"});
  CHECK(result.scope == supervise::SignalScope::group);
  CHECK(result.wait == Until::name);
  const Environment environment = environment_of(result, node);
  CHECK(environment.get("PORT") == "1234");
  CHECK(environment.get("NODE_RANK") == "1");
  CHECK_FALSE(environment.has("RANK"));
  CHECK_FALSE(environment.has("LOCAL_RANK"));
  CHECK_FALSE(environment.has("PET_NNODES"));
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

TEST_CASE("a program alone has the five variables, but PORT, RANK and WORLD_SIZE are left as they are") {
  const FakeNode node({"A=1", "RANKSHIM_WAIT=none", "NPROC_PER_NODE=2"});
  const Environment environment = environment_of(planned(node, {"x"}), node);
  CHECK(environment.entries() == Words{"A=1", "NPROC_PER_NODE=2", "NNODES=1", "NODE_RANK=0",
                                       "MASTER_ADDR=127.0.0.1", "MASTER_PORT=29500"});
  CHECK(planned(node, {"x"}).wait == Until::none);
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

TEST_CASE("many empty PET_ variables are taken out in one pass", "[attack]") {
  std::vector<std::string> variables;
  for (int i = 0; i < 40'000; ++i) variables.push_back("PET_NOBODYS_" + std::to_string(i) + "=");
  const FakeNode node(variables);
  const auto begin = std::chrono::steady_clock::now();
  const Environment left =
      environment_of(planned(node, {"--nnodes=4", "--node-rank=0", "--master-addr=m", "bash"}), node);
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(10));  // before: a minute
  CHECK(left.entries().size() < 20);
}

TEST_CASE("an elastic job meets by c10d, with who hosts and the own address said outright") {
  FakeNode node({"PET_NNODES=1:3", "PET_RDZV_BACKEND=c10d", "PET_RDZV_ENDPOINT=job-worker-0:29400",
                 "PET_RDZV_ID=job", "PET_RDZV_CONF=join_timeout=60"});
  node.name = "job-worker-0";
  const ShownPlan result = planned(node, {"train.py"});
  CHECK(shell_quote(result.argv) ==
        "python3 -u -m torch.distributed.run --nnodes=1:3 --nproc_per_node=1 --rdzv_backend=c10d "
        "--rdzv_endpoint=job-worker-0:29400 --rdzv_id=job --rdzv_conf=is_host=true,join_timeout=60 "
        "--local_addr=10.9.9.9 --max_restarts=0 --log_dir=/tmp/rankshim-XXXXXX train.py");
  CHECK(environment_of(result, node).get("TORCH_DISABLE_SHARE_RDZV_TCP_STORE") == "1");
  CHECK(result.wait == Until::name);
  node.name = "job-worker-1";
  CHECK(planned(node, {"train.py"}).wait == Until::port);
}

TEST_CASE("an IPv6 address has brackets in every endpoint, and none as master_addr") {
  const FakeNode node({"NNODES=3", "NODE_RANK=1", "MASTER_ADDR=fd00::1", "MASTER_PORT=1234"});
  CHECK_THAT(shell_quote(planned(node, {"train.py"}).argv), Catch::Contains(" --master_addr=fd00::1 "));
  CHECK_THAT(shell_quote(planned(node, {"--nnodes", "1:3", "train.py"}).argv),
             Catch::Contains(" '--rdzv_endpoint=[fd00::1]:1234' "));
  const auto job = planned(node, {"bash", "run.sh"}).site->job.value();
  const auto has = [&](std::string_view name, std::string_view value) {
    return std::find(job.begin(), job.end(), Variables::value_type(name, value)) != job.end();
  };
  CHECK(has("PET_MASTER_ADDR", "fd00::1"));
  CHECK(has("PET_RDZV_ENDPOINT", "[fd00::1]:1234"));
  const auto text = [&](const Words& line) {
    const auto read = read_settings(line, node);
    const Planned found = plan(node, line);
    return explain::as_text(found.topology, std::get<LaunchPlan>(found.plan),
                            std::get<Invocation>(read).settings);
  };
  CHECK_THAT(text({"train.py"}), Catch::Contains("waits for    [fd00::1]:1234 to answer"));
}

TEST_CASE("torch waits for the other nodes as long as --wait-timeout says") {
  const FakeNode job(kubeflow);
  const auto argv = [](const Node& node, const std::string& timeout) {
    return shell_quote(planned(node, {"--wait-timeout=" + timeout, "train.py"}).argv);
  };
  CHECK_THAT(argv(job, "2m"), !Catch::Contains("rdzv_conf"));  // we end it then
  CHECK_THAT(argv(job, "30m"), Catch::Contains("--rdzv_conf=timeout=1860 "));
  CHECK_THAT(argv(FakeNode({}), "30m"), !Catch::Contains("rdzv_conf"));

  const FakeNode elastic({"PET_NNODES=2:3", "PET_RDZV_BACKEND=c10d", "PET_RDZV_ENDPOINT=job-worker-0:29400"});
  CHECK_THAT(argv(elastic, "2m"), Catch::Contains("join_timeout=120 "));
  CHECK_THAT(argv(elastic, "10m"), !Catch::Contains("join_timeout"));  // torch's own
  const FakeNode said({"PET_NNODES=2:3", "PET_RDZV_BACKEND=c10d", "PET_RDZV_ENDPOINT=job-worker-0:29400",
                       "PET_RDZV_CONF=join_timeout=60"});
  CHECK_THAT(argv(said, "2m"), Catch::Contains("join_timeout=60 "));
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
  const ShownPlan nothing = planned(node, {"train.py"});
  CHECK_THAT(nothing.missing, Catch::Contains("neither python3 nor python is in PATH"));
}

TEST_CASE("a script that reads --local_rank and not LOCAL_RANK gets a warning") {
  FakeNode node({});
  node.files["old.py"] = "parser.add_argument('--local_rank')";
  node.files["new.py"] = "parser.add_argument('--local_rank', default=os.environ['LOCAL_RANK'])";
  CHECK_THAT(planned(node, {"old.py"}).warnings.at(0), Catch::Contains("--launcher=launch"));
  CHECK(planned(node, {"new.py"}).warnings.empty());
  CHECK(planned(node, {"--launcher=launch", "old.py"}).warnings.empty());
}

TEST_CASE("a script that joins by env:// is warned where WORLD_SIZE counts processes and RANK nodes") {
  FakeNode node({"PET_NNODES=2", "PET_NODE_RANK=1", "PET_NPROC_PER_NODE=4", "PET_MASTER_ADDR=m",
                 "PET_MASTER_PORT=5", "RANK=1", "WORLD_SIZE=8", "MASTER_ADDR=m", "MASTER_PORT=5"});
  node.files["x.py"] = "dist.init_process_group('gloo')";
  node.files["lightning.py"] = "Trainer(num_nodes=2)";
  CHECK_THAT(planned(node, {"python", "x.py"}).warnings.at(0),
             Catch::Contains("WORLD_SIZE=8 counts processes"));
  CHECK(planned(node, {"python", "lightning.py"}).warnings.empty());
  CHECK(planned(node, {"bash", "x.sh"}).warnings.empty());
  CHECK(planned(node, {"x.py"}).warnings.empty());
}

TEST_CASE(
    "workers whose script we launch are recorded, with our folder before what the user has in PYTHONPATH") {
  const FakeNode node(kubeflow);
  const ShownPlan script = planned(node, {"train.py"});
  REQUIRE(script.site);
  CHECK(script.site->records);
  CHECK_FALSE(script.site->had_path);
  CHECK_FALSE(script.site->job);
  CHECK(environment_of(script, node).get("PYTHONPATH") == "/tmp/rankshim-XXXXXX");
  CHECK_FALSE(planned(node, {"--no-record", "train.py"}).site);

  const FakeNode own({"PYTHONPATH=/a:/b", "TMPDIR=/scratch"});
  const ShownPlan with_path = planned(own, {"train.py"});
  CHECK(with_path.site->had_path);
  CHECK(environment_of(with_path, own).get("PYTHONPATH") == "/scratch/rankshim-XXXXXX:/a:/b");
  const ShownPlan program = planned(own, {"python", "train.py"});  // alone
  CHECK_FALSE(program.site);
  CHECK(environment_of(program, own).get("PYTHONPATH") == "/a:/b");
}

TEST_CASE("a torchrun inside a program on several nodes is told of the job, and nobody else") {
  const FakeNode node(
      {"NNODES=3", "NODE_RANK=1", "NPROC_PER_NODE=8", "MASTER_ADDR=m", "MASTER_PORT=1234", "PET_NNODES=3"});
  const ShownPlan program = planned(node, {"bash", "run.sh"});
  REQUIRE(program.site);
  CHECK(program.site->job == Variables{{"PET_NPROC_PER_NODE", "8"},
                                       {"PET_NODE_RANK", "1"},
                                       {"PET_MASTER_ADDR", "m"},
                                       {"PET_MASTER_PORT", "1234"},
                                       {"PET_RDZV_ENDPOINT", "m:1234"},
                                       {"PET_RDZV_ID", "m"},
                                       {"PET_RDZV_CONF", "is_host=false"}});
  CHECK(program.site->master.empty());  // a name, as far as is known
  CHECK(planned(node, {"--master-addr=10.0.0.1", "bash", "run.sh"}).site->master == "10.0.0.1");
  const auto local = planned(node, {"--local-addr=10.0.0.2", "bash", "run.sh"}).site->job;
  CHECK(local->back() == std::pair<std::string, std::string>("PET_LOCAL_ADDR", "10.0.0.2"));
  CHECK(program.site->records);
  CHECK_FALSE(environment_of(program, node).has("PET_NODE_RANK"));
  CHECK_FALSE(environment_of(program, node).has("TORCHELASTIC_ERROR_FILE"));
  CHECK_FALSE(planned(node, {"--no-export-pet", "bash", "run.sh"}).site);
  CHECK_FALSE(planned(node, {"train.py"}).site->job);
  CHECK_FALSE(planned(FakeNode({}), {"bash", "run.sh"}).site);
}

TEST_CASE("processes that exist already get torch's variables and no second launcher") {
  const FakeNode node({"TORCHELASTIC_RUN_ID=r", "RANK=3", "WORLD_SIZE=4", "LOCAL_RANK=1",
                       "LOCAL_WORLD_SIZE=2", "GROUP_RANK=1", "GROUP_WORLD_SIZE=2", "MASTER_ADDR=m",
                       "MASTER_PORT=5"});
  const ShownPlan result = planned(node, {"train.py"});
  CHECK(result.argv == Words{"python3", "-u", "train.py"});
  CHECK(environment_of(result, node).get("RANK") == "3");
  CHECK(result.site);
  CHECK(environment_of(result, node).get("TORCHELASTIC_ERROR_FILE") == "/dev/shm/rankshim-XXXXXX/error.json");
  CHECK(result.wait == Until::port);
  CHECK(std::holds_alternative<Faults>(plan(node, {"--launcher=torchrun", "train.py"}).plan));
}

TEST_CASE("a command that is torchrun is the launcher, and gets the flags that the user left out") {
  FakeNode node(kubeflow);
  node.programs = {"/usr/bin/python3", "/usr/bin/torchrun"};
  const LaunchPlan result =
      planned(node, {"torchrun", "--nproc-per-node", "2", "--max_restarts=1", "train.py", "--nnodes", "9"});
  CHECK(result.launcher == LauncherKind::torchrun);
  CHECK(shell_quote(result.argv) ==
        "torchrun --nnodes=3 --rdzv_backend=static --node_rank=1 --master_addr=job-master-0 "
        "--master_port=23456 --rdzv_id=job-master-0 --log_dir=/tmp/rankshim-XXXXXX --nproc-per-node 2 "
        "--max_restarts=1 train.py --nnodes 9");
  CHECK(result.scope == supervise::SignalScope::child);
  CHECK(result.wait == Until::port);
  CHECK(environment_of(result, node).has("TORCHELASTIC_ERROR_FILE"));

  const Words module = {"python3", "-u", "-m", "torch.distributed.run", "-m", "train"};
  CHECK(shell_quote(planned(node, module).argv)
            .starts_with("python3 -u -m torch.distributed.run --nnodes=3 --nproc_per_node=1 "));
  CHECK(planned(node, module).python == Words{"python3", "-u"});
  CHECK(shell_quote(planned(node, {"-m", "torch.distributed.run", "train.py"}).argv)
            .starts_with("python3 -u -m torch.distributed.run --nnodes=3 "));
  Words none = {"--launcher=none", "--"};
  none.insert(none.end(), module.begin(), module.end());
  CHECK(planned(node, none).argv == module);
}

TEST_CASE("the user's own log folder is followed instead of a temporary one") {
  const FakeNode node(kubeflow);
  const ShownPlan result = planned(node, {"torchrun", "--log-dir", "/logs", "train.py"});
  CHECK(result.log_dir == "/logs");
  CHECK(shell_quote(result.argv).find("--log_dir") == std::string::npos);
  CHECK_FALSE(environment_of(result, node).has("TORCHELASTIC_ERROR_FILE"));
}

TEST_CASE("a torchrun that makes its own rendezvous is told only of the workers and the logs") {
  FakeNode node({});
  node.devices = DeviceCount{2, "/dev/nvidia[0-9]*"};
  CHECK(shell_quote(planned(node, {"torchrun", "--standalone", "train.py"}).argv) ==
        "torchrun --nproc_per_node=2 --max_restarts=0 --log_dir=/tmp/rankshim-XXXXXX --standalone train.py");
  CHECK(shell_quote(planned(node, {"torchrun", "--nproc_per_node", "auto", "train.py"}).argv)
            .ends_with("--log_dir=/tmp/rankshim-XXXXXX train.py"));
}

TEST_CASE("an elastic torchrun of the user's is told who hosts and the own address") {
  FakeNode node({});
  node.name = "h";
  const Words command = {"torchrun", "--nnodes",        "1:2", "--rdzv_backend",
                         "c10d",     "--rdzv_endpoint", "h:7", "--rdzv-conf=join_timeout=60",
                         "train.py"};
  CHECK(shell_quote(planned(node, command).argv) ==
        "torchrun --nproc_per_node=1 --rdzv_id=h --rdzv_conf=is_host=true,join_timeout=60 "
        "--local_addr=10.9.9.9 --max_restarts=0 --log_dir=/tmp/rankshim-XXXXXX --nnodes 1:2 --rdzv_backend "
        "c10d --rdzv_endpoint h:7 train.py");
}

TEST_CASE("agents that meet at the loopback without ranks find out themselves which of them hosts") {
  const FakeNode node({});
  const Words line = {"--nnodes=1:2", "--rdzv-endpoint=127.0.0.1:7", "train.py"};
  CHECK(shell_quote(planned(node, line).argv).find("is_host") == std::string::npos);
  const FakeNode ranked({"NODE_RANK=1"});
  CHECK_THAT(shell_quote(planned(ranked, line).argv), Catch::Contains("is_host=false"));
}

TEST_CASE("torchrun inside processes that exist already is a program, with a warning") {
  const FakeNode node({"RANK=3", "WORLD_SIZE=4", "LOCAL_RANK=1", "LOCAL_WORLD_SIZE=2", "MASTER_ADDR=m"});
  const Words command = {"--rank-unit=process", "torchrun", "train.py"};
  CHECK(planned(node, command).argv == Words{"torchrun", "train.py"});
  CHECK_THAT(planned(node, command).warnings.at(0), Catch::Contains("in each of them"));
}

TEST_CASE("launchers that have to be told of the other nodes get a warning, unless they are told") {
  const FakeNode node(kubeflow);
  const auto warnings = [&](Words line) { return planned(node, std::move(line)).warnings; };
  CHECK_THAT(warnings({"accelerate", "launch", "x.py"}).at(0),
             Catch::Contains("accelerate does not read NNODES") && Catch::Contains("--machine_rank"));
  CHECK(warnings({"accelerate", "launch", "--machine-rank=1", "x.py"}).empty());
  CHECK(warnings({"accelerate", "config"}).empty());
  CHECK(warnings({"python", "-m", "accelerate.commands.launch", "x.py"}).size() == 1);
  CHECK(warnings({"python", "/usr/bin/deepspeed", "x.py"}).size() == 1);
  CHECK(warnings({"tune", "run", "x"}).size() == 1);
  CHECK(warnings({"composer", "x.py"}).size() == 1);
  CHECK(warnings({"horovodrun", "-np", "2", "x"}).size() == 1);
  const auto behind = [](Words line) {  // `env` alone would be a subcommand
    line.insert(line.begin(), "--");
    return line;
  };
  for (const Words& line : std::vector<Words>{
           {"env", "-u", "X", "Y=Z", "accelerate", "launch", "x.py"},
           {"bash", "-c", "cd /x && X=1 exec accelerate launch x.py"},
           {"sh", "-euc", "if true; then 'deepspeed' x.py; fi"},
           {"timeout", "-k", "5", "60", "nice", "-n", "5", "deepspeed", "x.py"},
           {"gosu", "user", "env", "X=Y", "python3", "-m", "accelerate.commands.launch", "x.py"},
           {"conda", "run", "-n", "train", "accelerate", "launch", "x.py"},
           {"uv", "run", "--no-sync", "deepspeed", "x.py"}}) {
    CAPTURE(line);
    CHECK(warnings(behind(line)).size() == 1);
  }
  for (const Words& line : std::vector<Words>{{"env", "X=1", "bash", "deepspeed"},
                                              {"bash", "-c", "pip install deepspeed && torchrun x.py"},
                                              {"nohup", "pip", "install", "deepspeed"},
                                              {"bash", "-c", "python x.py --strategy deepspeed"},
                                              {"env", "python", "x.py", "deepspeed"},
                                              {"echo", "accelerate", "launch"},
                                              {"bash", "-c"},
                                              {"env", ""}}) {
    CAPTURE(line);
    CHECK(warnings(behind(line)).empty());
  }
  const FakeNode alone({});
  CHECK(planned(alone, {"deepspeed", "x.py"}).warnings.empty());
}

TEST_CASE("workers that are asked for and a program do not go together without a word") {
  const FakeNode node({});
  CHECK_THAT(planned(node, {"--nproc-per-node=4", "--", "python", "train.py"}).warnings.at(0),
             Catch::Contains("--nproc-per-node=4, but python is a program"));
  CHECK(planned(node, {"--nproc-per-node=4", "--", "bash", "run.sh"}).warnings.empty());
}

TEST_CASE("PORT is set on several nodes where it is not set") {
  FakeNode own(kubeflow);
  CHECK(environment_of(planned(own, {"bash"}), own).get("PORT") == "23456");
  auto variables = kubeflow;
  variables.emplace_back("PORT=8080");
  const FakeNode web(variables);
  CHECK(environment_of(planned(web, {"bash"}), web).get("PORT") == "8080");
}

TEST_CASE("a program of an elastic job gets the numbers that NNODES is not") {
  const FakeNode node({"PET_NNODES=1:3", "PET_RDZV_BACKEND=c10d", "PET_RDZV_ENDPOINT=w:1", "PET_RDZV_ID=j"});
  const Environment environment = environment_of(planned(node, {"bash"}), node);
  CHECK(environment.get("NNODES") == "1:3");
  CHECK(environment.get("MIN_NNODES") == "1");
  CHECK(environment.get("MAX_NNODES") == "3");
  CHECK(environment.get("RDZV_ID") == "j");
}

TEST_CASE("without a mapping a program's environment stays as it is") {
  const FakeNode node({"NNODES=2", "MASTER_ADDR=m"});
  CHECK(environment_of(planned(node, {"--platform=none", "bash"}), node).entries() ==
        Words{"NNODES=2", "MASTER_ADDR=m"});
}

TEST_CASE("what is not there is found before anything is waited for") {
  FakeNode node(kubeflow);
  node.programs = {"/usr/bin/python3", "/usr/bin/torchrun", "/usr/bin/bash"};
  node.files["train.py"] = "";
  const auto missing = [&](Words line) { return planned(node, std::move(line)).missing; };
  CHECK(missing({"bash"}).empty());
  CHECK(missing({"train.py"}).empty());
  CHECK(missing({"torchrun", "--nnodes", "3", "train.py"}).empty());
  CHECK(missing({"torchrun", "--no_python", "none.py"}).empty());
  CHECK(missing({"no-such"}) == "no-such was not found in PATH");
  CHECK(missing({"none.py"}) == "the script none.py cannot be read");
  CHECK(missing({"torchrun", "none.py"}) == "the script none.py cannot be read");
  CHECK(missing({"--python=/no/python", "train.py"}) == "--python=/no/python was not found");
  CHECK(missing({"--", "status"}) ==
        "status was not found in PATH; a subcommand is the first word: rankshim status [OPTIONS]");
}

TEST_CASE("on a lone node a script that is not there is found too, and a program is just executed") {
  FakeNode node({});
  node.programs = {"/usr/bin/python3", "/usr/bin/torchrun"};
  node.files["folder.py/__main__.py"] = "";
  const auto missing = [&](Words line) { return planned(node, std::move(line)).missing; };
  CHECK(missing({"none.py"}) == "the script none.py cannot be read");
  CHECK(missing({"--launcher=none", "none.py"}) == "the script none.py cannot be read");
  CHECK(missing({"folder.py"}).empty());
  CHECK(missing({"torchrun", "/dev/fd/63"}).empty());
  CHECK(missing({"no-such"}).empty());
}

TEST_CASE("torchrun's first line names the interpreter that needs torch") {
  FakeNode node(kubeflow);
  node.programs = {"/usr/bin/torchrun"};
  node.files["/usr/bin/torchrun"] = "#!/opt/venv/bin/python3\nimport sys\n";
  CHECK(planned(node, {"torchrun", "train.py"}).python == Words{"/opt/venv/bin/python3"});
  node.files["/usr/bin/torchrun"] = "#!/bin/sh\n'''exec' /a/python \"$0\" \"$@\"\n";
  CHECK(planned(node, {"torchrun", "train.py"}).python.empty());
}

TEST_CASE("--launcher launch writes the argument as the script does") {
  FakeNode node({});
  const auto argument = [&](Words words) {
    words.insert(words.begin(), "--launcher=launch");
    const ShownPlan result = planned(node, std::move(words));
    return std::find_if(
               result.argv.begin(), result.argv.end(),
               [](const std::string& word) { return word.find("${local_rank}") != std::string::npos; })
        ->substr(0, 12);
  };
  node.files["old.py"] = "add_argument('--local_rank')";
  node.files["new.py"] = "add_argument('--local-rank')";
  node.files["both.py"] = "add_argument('--local-rank', '--local_rank')";
  node.files["pkg/new.py"] = node.files["new.py"];
  CHECK(argument({"old.py"}) == "--local_rank");
  CHECK(argument({"new.py"}) == "--local-rank");
  CHECK(argument({"both.py"}) == "--local_rank");
  CHECK(argument({"-m", "pkg.new"}) == "--local-rank");
  CHECK(argument({"-m", "pkg.other"}) == "--local_rank");
}

TEST_CASE("a command is written with our own folder's name, and without one where there is none") {
  const FakeNode node({"PATH=/usr/bin", "PYTHONPATH=/a"});
  const Words command = {"train.py"};
  const auto read = read_settings(command, node);
  const auto outcome = resolve(node, {}, command);
  const LaunchInput input{std::get<Topology>(outcome), std::get<Invocation>(read).settings, command, node};
  const LaunchPlan plan = std::get<LaunchPlan>(plan_launch(input));
  LaunchPlan with = plan;
  write_command(with, input, std::nullopt, {.path = "/tmp/x", .has_site = true});
  CHECK(shell_quote(with.argv).find(" --log_dir=/tmp/x ") != std::string::npos);
  CHECK(environment_of(with, node).get("TORCHELASTIC_ERROR_FILE") == "/tmp/x/error.json");
  CHECK(environment_of(with, node).get("PYTHONPATH") == "/tmp/x:/a");
  LaunchPlan without = plan;
  write_command(without, input, std::nullopt, {});
  CHECK(shell_quote(without.argv).find("--log_dir") == std::string::npos);
  CHECK_FALSE(environment_of(without, node).get("TORCHELASTIC_ERROR_FILE"));
  CHECK(environment_of(without, node).get("PYTHONPATH") == "/a");
}

}  // namespace
}  // namespace rankshim
