#include "launch/program_warnings.h"

#include <catch2/catch.hpp>

#include "run/plan_for_test.h"

namespace rankshim {
namespace {

using namespace for_test;

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

TEST_CASE("launchers that need flags for the other nodes get a warning, unless they have them") {
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

}  // namespace
}  // namespace rankshim
