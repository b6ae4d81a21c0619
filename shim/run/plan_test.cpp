#include "run/plan.h"

#include <catch2/catch.hpp>

#include "run/plan_for_test.h"
#include "topology/resolve_for_test.h"

namespace rankshim::run {
namespace {

using node::FakeHost;

using namespace for_test;

TEST_CASE("a script goes to torchrun with underscore flags and a static rendezvous") {
  const FakeHost host(kubeflow);
  const ShownPlan result = planned(host, {"train.py", "--epochs", "2"});
  CHECK(result.launcher->name() == "torchrun");
  CHECK(
      shell_quote(result.argv) ==
      "python3 -u -m torch.distributed.run --nnodes=3 --nproc_per_node=1 --rdzv_backend=static --node_rank=1 "
      "--master_addr=job-master-0 --master_port=23456 --rdzv_id=rankshim --max_restarts=0 "
      "--log_dir=/tmp/rankshim-XXXXXX train.py --epochs 2");
  CHECK(result.scope == SignalScope::handlers);
  CHECK(result.wait == wait::Until::port);
  CHECK(shell_quote(planned(host, {"-m", "pkg.train"}).argv)
            .ends_with("--log_dir=/tmp/rankshim-XXXXXX -m pkg.train"));
}

TEST_CASE("--launcher launch gives the script --local_rank, none runs the script by the interpreter alone") {
  const FakeHost host(kubeflow);
  CHECK(shell_quote(planned(host, {"--launcher=launch", "train.py", "--x"}).argv)
            .ends_with(" train.py '--local_rank=${local_rank}' --x"));
  CHECK(planned(host, {"--launcher=none", "train.py"}).argv == Words{"python3", "-u", "train.py"});
  CHECK(std::holds_alternative<Faults>(try_plan(host, {"--launcher=torchrun", "bash", "x"}).plan));
}

TEST_CASE("--env sets variables of any command, as they are") {
  const FakeHost host(kubeflow);
  const ShownPlan program = planned(host, {"--env=OUT={rank}", "--env=NODE_RANK=7", "./task", "{rank}"});
  CHECK(environment_of(program, host).get("OUT") == "{rank}");
  CHECK(environment_of(program, host).get("NODE_RANK") == "7");
  CHECK(program.argv[1] == "{rank}");
  CHECK(environment_of(planned(host, {"--env=A=1", "--env=B=2", "train.py"}), host).get("B") == "2");
}

TEST_CASE("a command is written with our own folder's name, and without one where there is none") {
  const FakeHost host({"PATH=/usr/bin", "PYTHONPATH=/a"});
  const Words command = {"train.py"};
  const auto read = settings::read_settings(command, host);
  const auto outcome = topology::resolve(host, {}, command);
  const plan::LaunchInput input{std::get<topology::Topology>(outcome),
                                std::get<settings::Invocation>(read).settings, command, host};
  const auto choice = std::get<launchers::LaunchChoice>(launchers::choose_launch(input, nullptr));
  launchers::KnownAtStart known;
  const launchers::LaunchPlan without = plan_launch(choice, input, known);
  known.folder = {.path = "/tmp/x", .has_site = true};
  const launchers::LaunchPlan with = plan_launch(choice, input, known);
  CHECK(shell_quote(with.argv).find(" --log_dir=/tmp/x ") != std::string::npos);
  CHECK(environment_of(with, host).get("TORCHELASTIC_ERROR_FILE") == "/tmp/x/error.json");
  CHECK(environment_of(with, host).get("PYTHONPATH") == "/tmp/x:/a");
  CHECK(shell_quote(without.argv).find("--log_dir") == std::string::npos);
  CHECK_FALSE(environment_of(without, host).get("TORCHELASTIC_ERROR_FILE"));
  CHECK(environment_of(without, host).get("PYTHONPATH") == "/a");
}

}  // namespace
}  // namespace rankshim::run
