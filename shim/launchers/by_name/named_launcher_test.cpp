#include "launchers/by_name/named_launcher.h"

#include <catch2/catch.hpp>

#include "run/plan_for_test.h"

namespace rankshim::launchers {
namespace {

using node::FakeHost;

using namespace run::for_test;

/// Node 1 of 2 of a PyTorchJob with four workers each.
Words pytorchjob(std::string_view node_rank) {
  return {"PATH=/usr/bin",          "PET_NNODES=2",         "PET_NPROC_PER_NODE=4",
          "PET_MASTER_ADDR=master", "PET_MASTER_PORT=5000", "PET_NODE_RANK=" + std::string(node_rank)};
}

Words command_line(std::string_view words) {
  Words all = {"--"};
  while (!words.empty()) all.emplace_back(split_next(words, " "));
  return all;
}

/// The command that is started, and the file of hosts behind it.
std::string filled(std::string_view line, std::string_view node_rank = "1") {
  const ShownPlan plan = planned(FakeHost(pytorchjob(node_rank)), command_line(line));
  return shell_quote(plan.argv) + plan.launcher->hostfile();
}

std::vector<std::string> warnings(std::string_view line, unsigned accelerators = 4) {
  FakeHost host(pytorchjob("1"));
  if (accelerators != 0) host.devices = node::DeviceCount{accelerators, "/dev/nvidia[0-9]*"};
  return planned(host, command_line(line)).warnings;
}

TEST_CASE("a launcher by its own name gets the flags that its file describes") {
  struct Case {
    std::string_view written, started;
  };
  const auto all = std::to_array<Case>(
      {{"accelerate launch x.py",
        "accelerate launch --num_machines=2 --machine_rank=1 --main_process_ip=master "
        "--main_process_port=5000 "
        "--num_processes=8 x.py"},
       {"colossalai run x.py",
        "colossalai run --nproc_per_node=4 --master_addr=master --master_port=5000 "
        "--extra_launch_args=nnodes=2,node_rank=1 x.py"},
       {"composer x.py",
        "composer --nproc=4 --world_size=8 --base_rank=4 --node_rank=1 --master_addr=master "
        "--master_port=5000 x.py"},
       {"deepspeed x.py",
        "deepspeed --hostfile=/dev/shm/rankshim-XXXXXX/hostfile --no_ssh --node_rank=1 --master_addr=master "
        "--master_port=5000 x.py"
        "node0 slots=4\nnode1 slots=4\n"},
       {"fabric run x.py",
        "fabric run --num_nodes=2 --node_rank=1 --main_address=master --main_port=5000 --devices=4 x.py"},
       {"horovodrun x", "horovodrun x"},
       {"llamafactory-cli train x.yaml", "llamafactory-cli train x.yaml"},
       {"mpirun ./x", "mpirun -n 4 ./x"},
       {"ray start", "ray start --block --address=master:5000"},
       {"python -m sglang.launch_server --model-path x",
        "python -m sglang.launch_server --nnodes=2 --node-rank=1 --dist-init-addr=master:5000 --model-path "
        "x"},
       {"torchrun_jsc x.py",
        "torchrun_jsc --nnodes=2 --nproc_per_node=4 --node_rank=1 --rdzv_backend=static --master_addr=master "
        "--master_port=5000 x.py"},
       {"tune run x --config y",
        "tune run --nnodes=2 --nproc_per_node=4 --node_rank=1 --rdzv_backend=static "
        "--rdzv_endpoint=master:5000 "
        "--rdzv_id=rankshim x --config y"},
       {"vllm serve x",
        "vllm serve --nnodes=2 --node-rank=1 --master-addr=master --master-port=5000 --headless x"}});
  for (const auto& [written, started] : all) CHECK(filled(written) == started);
}

TEST_CASE("node 0 gets other flags than the others, where the launcher has some for it") {
  CHECK(filled("ray start", "0") == "ray start --block --head --port=5000");
  CHECK(filled("vllm serve x", "0") ==
        "vllm serve --nnodes=2 --node-rank=0 --master-addr=master --master-port=5000 x");
  CHECK(filled("ray start --port=6379") == "ray start --block --address=master:6379 --port=6379");
  CHECK(filled("ray start --head") == "ray start --block --head");
  CHECK_THAT(warnings("ray start --head").at(0), Catch::Contains("--head is not for node 1"));
}

TEST_CASE("what the user wrote wins, in any spelling, and other flags follow from it") {
  CHECK(filled("composer -n 2 x.py") ==
        "composer --world_size=4 --base_rank=2 --node_rank=1 --master_addr=master --master_port=5000 -n 2 "
        "x.py");
  CHECK(
      filled("composer -n2 --node-rank 1 --master-port=5000 --world_size 4 --base_rank 2 x.py --master_addr "
             "y") ==
      "composer --master_addr=master -n2 --node-rank 1 --master-port=5000 --world_size 4 --base_rank 2 x.py "
      "--master_addr y");
  CHECK(filled("deepspeed -H /job/hosts --module pkg.train --node_rank 7") ==
        "deepspeed --no_ssh --node_rank=1 --master_addr=master --master_port=5000 -H /job/hosts --module "
        "pkg.train "
        "--node_rank 7");
  CHECK(filled("fabric run --devices auto x.py").find("--devices=") == std::string::npos);
  CHECK(filled("mpirun -np 2 ./x") == "mpirun -np 2 ./x");
}

TEST_CASE(
    "flags that contradict the platform are a warning, and flags that contradict rankshim's guess are not") {
  CHECK(warnings("accelerate launch --num_machines=3 x.py") ==
        Words{"accelerate launch: --num_machines=3 contradicts the platform's 2 (rankshim explain shows "
              "where it is "
              "from); the command's value is used"});
  CHECK_THAT(warnings("fabric run --devices 2 x.py").at(0),
             Catch::Contains("--devices=2 contradicts the platform's 4"));
  CHECK_THAT(warnings("vllm serve x -r 0").at(0),
             Catch::Contains("--node-rank=0 contradicts the platform's 1"));
  CHECK_THAT(warnings("sglang serve --nccl-init-addr other:1").at(0),
             Catch::Contains("=other:1 contradicts the platform's master:5000"));
  CHECK(warnings("accelerate launch --num_machines 2 --main_process_ip=MASTER. x.py").empty());
  CHECK(warnings("tune run --rdzv_backend c10d --rdzv_id y x --config z").empty());
  CHECK(
      planned(FakeHost(kubeflow), command_line("accelerate launch --num_processes 6 x.py")).warnings.empty());
}

TEST_CASE(
    "a launcher that starts one process on a node without accelerators warns if several are asked for") {
  CHECK_THAT(warnings("accelerate launch x.py", 0).at(0), Catch::Contains("it starts one process"));
  CHECK(warnings("accelerate launch x.py").empty());
  CHECK(warnings("deepspeed x.py", 0).empty());
  FakeHost one(pytorchjob("1"));
  CHECK(planned(one, {"--nproc-per-node=1", "--", "accelerate", "launch", "x.py"}).warnings.empty());
}

TEST_CASE("a launcher whose own flags name the nodes stays as it is") {
  for (const std::string_view line :
       {"colossalai run --host a,b x.py", "mpirun -H a,b ./x", "horovodrun -H a:1 x",
        "vllm serve x --distributed-executor-backend ray", "vllm serve x -dpa a"}) {
    CHECK(filled(line) == line);
    CHECK(warnings(line).empty());
  }
  CHECK(filled("vllm serve x --distributed-executor-backend mp") !=
        "vllm serve x --distributed-executor-backend mp");
  CHECK(warnings("horovodrun -np 2 x").size() == 1);
}

TEST_CASE("the variables of a launcher's file are set unless the user has set them") {
  FakeHost host(pytorchjob("1"));
  const ShownPlan plan = planned(host, command_line("bash -c llamafactory-cli"));
  CHECK(plan.warnings.empty());
  CHECK(environment_of(plan, host).get("FORCE_TORCHRUN") == "1");
  Words variables = pytorchjob("1");
  variables.emplace_back("FORCE_TORCHRUN=0");
  const FakeHost set(variables);
  CHECK(environment_of(planned(set, command_line("lmf train x")), set).get("FORCE_TORCHRUN") == "0");
}

TEST_CASE("a launcher is found behind wrappers such as env and timeout") {
  const FakeHost host(pytorchjob("1"));
  for (const std::string line :
       {"env -u X Y=Z deepspeed", "timeout -k 5 60 nice -n 5 deepspeed", "python -u /usr/bin/deepspeed",
        "gosu user env X=Y python3 -m deepspeed.launcher.runner", "conda run -n train deepspeed",
        "uv run --no-sync /opt/bin/deepspeed"}) {
    CAPTURE(line);
    CHECK(filled(line + " x.py").starts_with(line + " --hostfile="));
  }
  CHECK(filled("-m deepspeed.launcher.runner x.py")
            .starts_with("python3 -u -m deepspeed.launcher.runner --hostfile="));
  for (const std::string_view line :
       {"env X=1 bash deepspeed", "nohup pip install deepspeed", "accelerate config",
        "env python x.py deepspeed", "echo accelerate launch", "bash -c", "ray stop"}) {
    CAPTURE(line);
    CHECK(filled(line) == line);
  }
}

TEST_CASE("a shell's text is not changed: a warning names the flags, unless the text has some") {
  const auto in_shell = [](std::string text) {
    const FakeHost host(pytorchjob("1"));
    const ShownPlan plan = planned(host, {"--", "bash", "-euc", text});
    CHECK(plan.argv == Words{"bash", "-euc", text});
    return plan.warnings;
  };
  CHECK_THAT(in_shell("cd /x && X=1 exec accelerate launch x.py").at(0), Catch::Contains("--machine_rank"));
  CHECK(in_shell("if true; then 'deepspeed' x.py; fi").size() == 1);
  CHECK(in_shell("accelerate launch --machine_rank=$NODE_RANK x.py").empty());
  CHECK(in_shell("pip install deepspeed && torchrun x.py").empty());
  CHECK(in_shell("python x.py --strategy deepspeed").empty());
}

TEST_CASE("nothing is filled in on a lone node, with --launcher none, or in an elastic job") {
  CHECK(planned(FakeHost({}), {"deepspeed", "x.py"}).argv == Words{"deepspeed", "x.py"});
  const FakeHost host(pytorchjob("1"));
  CHECK(planned(host, {"--launcher=none", "deepspeed", "x.py"}).argv == Words{"deepspeed", "x.py"});
  CHECK(planned(host, {"--launcher=none", "deepspeed", "x.py"}).warnings.empty());
  const ShownPlan elastic = planned(host, {"--nnodes=1:2", "--rdzv-backend=c10d", "deepspeed", "x.py"});
  CHECK(elastic.argv == Words{"deepspeed", "x.py"});
  CHECK_THAT(elastic.warnings.at(0), Catch::Contains("this job is elastic"));
}

TEST_CASE("the nodes of a launcher that needs all of them are linked") {
  const FakeHost host(pytorchjob("1"));
  const auto joins = [&](const std::string& line) {
    return planned(host, command_line(line)).launcher->joins_nodes();
  };
  for (const std::string line : {"accelerate launch x.py", "deepspeed x.py", "vllm serve x", "lmf train x"}) {
    CAPTURE(line);
    CHECK(joins(line));
  }
  for (const std::string line : {"ray start", "mpirun ./x", "horovodrun x", "python x.py"}) {
    CAPTURE(line);
    CHECK_FALSE(joins(line));
  }
  CHECK_FALSE(planned(host, {"bash", "-c", "lmf train x"}).launcher->joins_nodes());
}

TEST_CASE("a user's file describes a new launcher, or replaces a built-in one") {
  FakeHost host(pytorchjob("1"));
  host.files["/etc/rankshim.d/ours.launcher.toml"] =
      "starts = ['ourlaunch go', 'deepspeed']\nflags = ['--of {nnodes}', '-r|--rank={rank}']\n";
  CHECK(planned(host, {"ourlaunch", "go", "x"}).argv ==
        Words{"ourlaunch", "go", "--of", "2", "--rank=4", "x"});
  CHECK(planned(host, {"deepspeed", "x"}).argv == Words{"deepspeed", "--of", "2", "--rank=4", "x"});
  CHECK(planned(host, {"deepspeed", "x"}).launcher->name() == "/etc/rankshim.d/ours.launcher.toml");
  host.files["/etc/rankshim.d/ours.launcher.toml"] = "starts = []\n";
  host.files["/here/x.launcher.toml"] = "starts = ['y']\nflags = ['--z']\n";
  CHECK(std::holds_alternative<Faults>(try_plan(host, {"deepspeed", "x"}).plan));
  host.files.erase("/etc/rankshim.d/ours.launcher.toml");
  CHECK(planned(host, {"--profile=/here/x.launcher.toml", "y"}).argv == Words{"y", "--z"});
}

}  // namespace
}  // namespace rankshim::launchers
