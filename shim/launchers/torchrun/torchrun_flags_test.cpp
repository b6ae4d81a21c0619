#include "launchers/torchrun/torchrun_command.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "cli/subcommands.h"
#include "run/plan_for_test.h"

namespace rankshim::launchers {
namespace {

using node::FakeHost;

using namespace run::for_test;

TEST_CASE("max_restarts is the option's, then PET_MAX_RESTARTS, then 0") {
  auto variables = kubeflow;
  variables.emplace_back("PET_MAX_RESTARTS=4");
  const FakeHost host(variables);
  CHECK_THAT(shell_quote(planned(host, {"train.py"}).argv), Catch::Contains("--max_restarts=4"));
  CHECK_THAT(shell_quote(planned(host, {"--max-restarts=2", "train.py"}).argv),
             Catch::Contains("--max_restarts=2"));
}

TEST_CASE(
    "PET_ variables never reach torchrun with another value than rankshim's, and empty ones reach no "
    "process") {
  const FakeHost host({"PET_NNODES=3", "PET_NODE_RANK=1", "PET_NPROC_PER_NODE=2", "PET_MASTER_ADDR=m",
                       "PET_MASTER_PORT=5", "PET_STANDALONE=", "PET_RDZV_ENDPOINT=", "PET_LOG_DIR=/logs"});
  const node::Environment script = environment_of(planned(host, {"--nnodes=4", "train.py"}), host);
  CHECK_FALSE(script.has("PET_NNODES"));
  CHECK_FALSE(script.has("PET_STANDALONE"));
  CHECK(script.get("PET_LOG_DIR") == "/logs");
  const node::Environment program = environment_of(planned(host, {"--nnodes=4", "bash"}), host);
  CHECK(program.get("PET_NNODES") == "4");
  CHECK_FALSE(program.has("PET_STANDALONE"));
  CHECK_FALSE(program.has("PET_RDZV_ENDPOINT"));
}

TEST_CASE("an elastic job meets by c10d, with the host and the local address set explicitly") {
  FakeHost host({"PET_NNODES=1:3", "PET_RDZV_BACKEND=c10d", "PET_RDZV_ENDPOINT=job-worker-0:29400",
                 "PET_RDZV_ID=job", "PET_RDZV_CONF=join_timeout=60"});
  host.name = "job-worker-0";
  const ShownPlan result = planned(host, {"train.py"});
  CHECK(shell_quote(result.argv) ==
        "python3 -u -m torch.distributed.run --nnodes=1:3 --nproc_per_node=1 --rdzv_backend=c10d "
        "--rdzv_endpoint=job-worker-0:29400 --rdzv_id=job --rdzv_conf=is_host=true,join_timeout=60 "
        "--local_addr=10.9.9.9 --max_restarts=0 --log_dir=/tmp/rankshim-XXXXXX train.py");
  CHECK(environment_of(result, host).get("TORCH_DISABLE_SHARE_RDZV_TCP_STORE") == "1");
  CHECK(result.wait == wait::Until::name);
  host.name = "job-worker-1";
  CHECK(planned(host, {"train.py"}).wait == wait::Until::port);
}

TEST_CASE("an IPv6 address has brackets in every endpoint, and none as master_addr") {
  const FakeHost host({"NNODES=3", "NODE_RANK=1", "MASTER_ADDR=fd00::1", "MASTER_PORT=1234"});
  CHECK_THAT(shell_quote(planned(host, {"train.py"}).argv), Catch::Contains(" --master_addr=fd00::1 "));
  CHECK_THAT(shell_quote(planned(host, {"--nnodes", "1:3", "train.py"}).argv),
             Catch::Contains(" '--rdzv_endpoint=[fd00::1]:1234' "));
  const auto job = planned(host, {"bash", "run.sh"}).site->job.value();
  const auto has = [&](std::string_view name, std::string_view value) {
    return std::find(job.begin(), job.end(), node::Variables::value_type(name, value)) != job.end();
  };
  CHECK(has("PET_MASTER_ADDR", "fd00::1"));
  CHECK(has("PET_RDZV_ENDPOINT", "[fd00::1]:1234"));
  const auto text = [&](const Words& line) {
    const auto read = settings::read_settings(line, host);
    const Planned found = try_plan(host, line);
    const auto& shown = std::get<ShownPlan>(found.plan);
    return cli::explain::as_text({found.topology, shown}, shown,
                                 std::get<settings::Invocation>(read).settings);
  };
  CHECK_THAT(text({"train.py"}),
             Catch::Contains("waits for    all 3 nodes, which meet at [fd00::1]:1234, at most"));
  CHECK_THAT(text({"--job-restarts=3", "--spares=1", "train.py"}),
             Catch::Contains("waits for    all 3 nodes, of which 2 train, which meet at [fd00::1]:1234"));
}

TEST_CASE("torch waits for the other nodes as long as --wait-timeout") {
  const FakeHost job(kubeflow);
  const auto argv = [](const node::Host& host, const std::string& timeout) {
    return shell_quote(planned(host, {"--wait-timeout=" + timeout, "train.py"}).argv);
  };
  CHECK_THAT(argv(job, "2m"), !Catch::Contains("rdzv_conf"));  // we end it then
  CHECK_THAT(argv(job, "30m"), Catch::Contains("--rdzv_conf=timeout=1860 "));
  CHECK_THAT(argv(FakeHost({}), "30m"), !Catch::Contains("rdzv_conf"));

  const FakeHost elastic({"PET_NNODES=2:3", "PET_RDZV_BACKEND=c10d", "PET_RDZV_ENDPOINT=job-worker-0:29400"});
  CHECK_THAT(argv(elastic, "2m"), Catch::Contains("join_timeout=120 "));
  CHECK_THAT(argv(elastic, "10m"), !Catch::Contains("join_timeout"));  // torch's own
  const FakeHost given_by_user({"PET_NNODES=2:3", "PET_RDZV_BACKEND=c10d",
                                "PET_RDZV_ENDPOINT=job-worker-0:29400", "PET_RDZV_CONF=join_timeout=60"});
  CHECK_THAT(argv(given_by_user, "2m"), Catch::Contains("join_timeout=60 "));
}

TEST_CASE("a torchrun that makes its own rendezvous gets only the workers and the logs") {
  FakeHost host({});
  host.devices = node::DeviceCount{2, "/dev/nvidia[0-9]*"};
  CHECK(shell_quote(planned(host, {"torchrun", "--standalone", "train.py"}).argv) ==
        "torchrun --nproc_per_node=2 --max_restarts=0 --log_dir=/tmp/rankshim-XXXXXX --standalone train.py");
  CHECK(shell_quote(planned(host, {"torchrun", "--nproc_per_node", "auto", "train.py"}).argv)
            .ends_with("--log_dir=/tmp/rankshim-XXXXXX train.py"));
}

TEST_CASE("a user's elastic torchrun gets the host and the local address") {
  FakeHost host({});
  host.name = "h";
  const Words command = {"torchrun", "--nnodes",        "1:2", "--rdzv_backend",
                         "c10d",     "--rdzv_endpoint", "h:7", "--rdzv-conf=join_timeout=60",
                         "train.py"};
  CHECK(shell_quote(planned(host, command).argv) ==
        "torchrun --nproc_per_node=1 --rdzv_id=rankshim --rdzv_conf=is_host=true,join_timeout=60 "
        "--local_addr=10.9.9.9 --max_restarts=0 --log_dir=/tmp/rankshim-XXXXXX --nnodes 1:2 --rdzv_backend "
        "c10d --rdzv_endpoint h:7 train.py");
}

TEST_CASE("PET_RDZV_CONF counts on every platform") {
  const FakeHost host({"NNODES=2", "NODE_RANK=1", "MASTER_ADDR=m", "PET_RDZV_CONF=timeout=77"});
  CHECK_THAT(shell_quote(planned(host, {"train.py"}).argv), Catch::Contains(" --rdzv_conf=timeout=77 "));
  CHECK_THAT(shell_quote(planned(host, {"--torchrun-args=--rdzv_conf=timeout=78", "train.py"}).argv),
             Catch::Contains(" --rdzv_conf=timeout=78 ") && !Catch::Contains("timeout=77"));
}

TEST_CASE(
    "the local address is that of --torchrun-args, then PET_LOCAL_ADDR, then the one that routes to the "
    "master") {
  Words variables = {"PET_NNODES=1:3", "PET_RDZV_BACKEND=c10d", "PET_RDZV_ENDPOINT=job-worker-0:29400",
                     "PET_LOCAL_ADDR=10.0.0.7"};
  CHECK_THAT(
      shell_quote(planned(FakeHost(variables), {"--torchrun-args=--local-addr=10.0.0.8", "train.py"}).argv),
      Catch::Contains(" --local_addr=10.0.0.8 ") && !Catch::Contains("10.0.0.7"));
  CHECK_THAT(shell_quote(planned(FakeHost(variables), {"train.py"}).argv),
             Catch::Contains(" --local_addr=10.0.0.7 "));
  variables.pop_back();
  CHECK_THAT(shell_quote(planned(FakeHost(variables), {"train.py"}).argv),
             Catch::Contains(" --local_addr=10.9.9.9 "));
}

TEST_CASE("agents that meet at the loopback without ranks find out themselves which of them hosts") {
  const FakeHost host({});
  const Words line = {"--nnodes=1:2", "--rdzv-endpoint=127.0.0.1:7", "train.py"};
  CHECK(shell_quote(planned(host, line).argv).find("is_host") == std::string::npos);
  const FakeHost ranked({"NODE_RANK=1"});
  CHECK_THAT(shell_quote(planned(ranked, line).argv), Catch::Contains("is_host=false"));
}

TEST_CASE("--launcher launch writes the argument as the script does") {
  FakeHost host({});
  const auto argument = [&](Words words) {
    words.insert(words.begin(), "--launcher=launch");
    const ShownPlan result = planned(host, std::move(words));
    return std::find_if(
               result.argv.begin(), result.argv.end(),
               [](const std::string& word) { return word.find("${local_rank}") != std::string::npos; })
        ->substr(0, 12);
  };
  host.files["old.py"] = "add_argument('--local_rank')";
  host.files["new.py"] = "add_argument('--local-rank')";
  host.files["both.py"] = "add_argument('--local-rank', '--local_rank')";
  host.files["pkg/new.py"] = host.files["new.py"];
  CHECK(argument({"old.py"}) == "--local_rank");
  CHECK(argument({"new.py"}) == "--local-rank");
  CHECK(argument({"both.py"}) == "--local_rank");
  CHECK(argument({"-m", "pkg.new"}) == "--local-rank");
  CHECK(argument({"-m", "pkg.other"}) == "--local_rank");
}

}  // namespace
}  // namespace rankshim::launchers
