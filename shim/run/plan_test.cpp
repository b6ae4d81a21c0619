#include "run/plan.h"

#include <catch2/catch.hpp>

#include "run/plan_for_test.h"
#include "topology/resolve_for_test.h"

namespace rankshim {
namespace {

using namespace for_test;

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

TEST_CASE("--launcher launch gives the script --local_rank, none runs the script by the interpreter alone") {
  const FakeNode node(kubeflow);
  CHECK(shell_quote(planned(node, {"--launcher=launch", "train.py", "--x"}).argv)
            .ends_with(" train.py '--local_rank=${local_rank}' --x"));
  CHECK(planned(node, {"--launcher=none", "train.py"}).argv == Words{"python3", "-u", "train.py"});
  CHECK(std::holds_alternative<Faults>(plan(node, {"--launcher=torchrun", "bash", "x"}).plan));
}

TEST_CASE("--env sets variables of any command, and --placeholders fills in those of one process") {
  const FakeNode node(kubeflow);
  const Words line = {
      "--env=OUT={rank} of {world_size}", "--env=NODE_RANK=7",          "./task", "{node_rank}/{nnodes}",
      "{local_rank}/{local_world_size}",  "{master_addr}:{master_port}"};
  const ShownPlan as_it_is = planned(node, line);
  CHECK(environment_of(as_it_is, node).get("OUT") == "{rank} of {world_size}");
  CHECK(environment_of(as_it_is, node).get("NODE_RANK") == "7");
  CHECK(as_it_is.argv[1] == "{node_rank}/{nnodes}");
  Words asked = line;
  asked.insert(asked.begin(), "--placeholders");
  const ShownPlan filled = planned(node, asked);
  CHECK(environment_of(filled, node).get("OUT") == "1 of 3");
  CHECK(filled.argv == Words{"./task", "1/3", "0/1", "job-master-0:23456"});
  CHECK(environment_of(planned(node, {"--env=A=1", "--env=B=2", "train.py"}), node).get("B") == "2");
}

TEST_CASE("the placeholders of a process that the platform has started are its own") {
  const FakeNode node({"RANK=5", "WORLD_SIZE=8", "LOCAL_RANK=1", "LOCAL_WORLD_SIZE=4", "MASTER_ADDR=a"});
  const Words line = {"--rank-unit=process", "--placeholders", "./task",
                      "{rank}/{world_size} {local_rank}/{local_world_size} {{rank}}"};
  CHECK(planned(node, line).argv[1] == "5/8 1/4 {rank}");
}

TEST_CASE("placeholders that nothing can fill in are refused") {
  const auto why = [](const Words& line) {
    return to_line(std::get<Faults>(plan(FakeNode(kubeflow), line).plan).front());
  };
  CHECK_THAT(why({"--placeholders", "train.py"}), Catch::Contains("torchrun gives all workers the same"));
  CHECK_THAT(why({"--placeholders", "--nnodes=2:3", "./task"}), Catch::Contains("are not known before"));
}

TEST_CASE("a command is written with our own folder's name, and without one where there is none") {
  const FakeNode node({"PATH=/usr/bin", "PYTHONPATH=/a"});
  const Words command = {"train.py"};
  const auto read = read_settings(command, node);
  const auto outcome = resolve(node, {}, command);
  const LaunchInput input{std::get<Topology>(outcome), std::get<Invocation>(read).settings, command, node};
  const auto choice = std::get<LaunchChoice>(choose_launch(input));
  KnownAtStart known;
  const LaunchPlan without = plan_launch(choice, input, known);
  known.folder = {.path = "/tmp/x", .has_site = true};
  const LaunchPlan with = plan_launch(choice, input, known);
  CHECK(shell_quote(with.argv).find(" --log_dir=/tmp/x ") != std::string::npos);
  CHECK(environment_of(with, node).get("TORCHELASTIC_ERROR_FILE") == "/tmp/x/error.json");
  CHECK(environment_of(with, node).get("PYTHONPATH") == "/tmp/x:/a");
  CHECK(shell_quote(without.argv).find("--log_dir") == std::string::npos);
  CHECK_FALSE(environment_of(without, node).get("TORCHELASTIC_ERROR_FILE"));
  CHECK(environment_of(without, node).get("PYTHONPATH") == "/a");
}

}  // namespace
}  // namespace rankshim
