#include "plan/launch.h"

#include <catch2/catch.hpp>

#include "run/plan_for_test.h"

namespace rankshim::plan {
namespace {

using node::FakeHost;

using namespace run::for_test;

TEST_CASE("a script that reads --local_rank and not LOCAL_RANK gets a warning") {
  FakeHost host({});
  host.files["old.py"] = "parser.add_argument('--local_rank')";
  host.files["new.py"] = "parser.add_argument('--local_rank', default=os.environ['LOCAL_RANK'])";
  CHECK_THAT(planned(host, {"old.py"}).warnings.at(0), Catch::Contains("--launcher=launch"));
  CHECK(planned(host, {"new.py"}).warnings.empty());
  CHECK(planned(host, {"--launcher=launch", "old.py"}).warnings.empty());
}

TEST_CASE("a script that joins by env:// is warned where WORLD_SIZE counts processes and RANK nodes") {
  FakeHost host({"PET_NNODES=2", "PET_NODE_RANK=1", "PET_NPROC_PER_NODE=4", "PET_MASTER_ADDR=m",
                 "PET_MASTER_PORT=5", "RANK=1", "WORLD_SIZE=8", "MASTER_ADDR=m", "MASTER_PORT=5"});
  host.files["x.py"] = "dist.init_process_group('gloo')";
  host.files["lightning.py"] = "Trainer(num_nodes=2)";
  CHECK_THAT(planned(host, {"python", "x.py"}).warnings.at(0),
             Catch::Contains("WORLD_SIZE=8 counts processes"));
  CHECK(planned(host, {"python", "lightning.py"}).warnings.empty());
  CHECK(planned(host, {"bash", "x.sh"}).warnings.empty());
  CHECK(planned(host, {"x.py"}).warnings.empty());
}

TEST_CASE("workers that are asked for and a program do not go together without a word") {
  const FakeHost host({});
  CHECK_THAT(planned(host, {"--nproc-per-node=4", "--", "python", "train.py"}).warnings.at(0),
             Catch::Contains("--nproc-per-node=4, but python is a program"));
  CHECK(planned(host, {"--nproc-per-node=4", "--", "bash", "run.sh"}).warnings.empty());
}

}  // namespace
}  // namespace rankshim::plan
