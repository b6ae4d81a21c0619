#include <catch2/catch.hpp>

#include "run/plan_for_test.h"

/// Where --spares is refused, and what it warns of.

namespace rankshim {
namespace {

using namespace run::for_test;

const Words four_nodes = {"--nnodes=4", "--node-rank=1", "--master-addr=job-0"};

Words line_with(Words options, const Words& more) {
  options.insert(options.end(), more.begin(), more.end());
  return options;
}

TEST_CASE("spares are refused in one line where a node's place cannot be taken", "[launchers]") {
  struct Case {
    const char* name;
    Words line;
    Words environment;
    const char* why;
  };
  const Words again = line_with(four_nodes, {"--job-restarts=3", "--spares=1"});
  const Words once = line_with(four_nodes, {"--spares=1"});
  constexpr const char* by_itself = "a command that starts its workers itself knows its node by";
  constexpr const char* no_number = "only nodes that have their numbers from the beginning can have spares";
  const Words mpi = {"PATH=/usr/bin",
                     "OMPI_COMM_WORLD_SIZE=4",
                     "OMPI_COMM_WORLD_RANK=1",
                     "OMPI_COMM_WORLD_LOCAL_RANK=1",
                     "OMPI_COMM_WORLD_LOCAL_SIZE=2",
                     "MASTER_ADDR=job-0"};
  const Case cases[] = {
      {"no restarts", line_with(once, {"train.py"}), {}, "--spares=1, but --job-restarts is not set"},
      {"all wait but one",
       line_with(four_nodes, {"--job-restarts=3", "--spares=3", "train.py"}),
       {},
       "--spares=3, but --nnodes=4, and at least 2 nodes must train"},
      {"more than there are",
       line_with(four_nodes, {"--job-restarts=3", "--spares=4294967295", "train.py"}),
       {},
       "and at least 2 nodes must train"},
      {"one node", {"--nnodes=1", "--job-restarts=3", "--spares=1", "train.py"}, {}, no_number},
      {"no link", line_with(again, {"--link=off", "train.py"}), {}, "--link is off"},
      {"torch's own restarts", line_with(again, {"--max-restarts=1", "train.py"}), {}, "max_restarts is 1"},
      {"elastic", {"--nnodes=2:4", "--master-addr=job-0", "--spares=1", "train.py"}, {}, no_number},
      {"elastic and restarts",
       {"--nnodes=2:4", "--master-addr=job-0", "--job-restarts=3", "--spares=1", "train.py"},
       {},
       "an elastic job's torchrun starts its workers again itself"},
      {"MPI", {"--spares=1", "train.py"}, mpi, no_number},
      {"MPI and restarts",
       {"--job-restarts=3", "--spares=1", "train.py"},
       mpi,
       "has started one process per accelerator"},
      {"a program", line_with(again, {"bash", "run.sh"}), {}, by_itself},
      {"a program by --launcher none", line_with(again, {"--launcher=none", "train.py"}), {}, by_itself},
      {"torchrun", line_with(again, {"torchrun", "train.py"}), {}, by_itself},
      {"DeepSpeed", line_with(again, {"deepspeed", "train.py"}), {}, by_itself},
      {"accelerate", line_with(again, {"accelerate", "launch", "train.py"}), {}, by_itself},
  };
  for (const Case& c : cases) {
    CAPTURE(c.name);
    const auto outcome =
        try_plan(node::FakeHost(c.environment.empty() ? Words{"PATH=/usr/bin"} : c.environment), c.line);
    const auto* faults = std::get_if<Faults>(&outcome.plan);
    REQUIRE(faults != nullptr);
    CHECK(faults->size() == 1);
    CHECK_THAT(to_line(faults->front()), Catch::Contains(c.why));
  }
}

TEST_CASE("with spares and without a token a warning says who may come", "[launchers]") {
  const auto warns = [](const Words& more) {
    const node::FakeHost host({"PATH=/usr/bin"});
    const auto warnings =
        planned(host, line_with(line_with(four_nodes, {"--job-restarts=3"}), more)).warnings;
    return std::ranges::any_of(warnings, [](const std::string& warning) {
      return warning.starts_with("with --spares, nodes can join as long as the job runs");
    });
  };
  CHECK(warns({"--spares=1", "train.py"}));
  CHECK(warns({"--spares=2", "--launcher=native", "train.py"}));
  CHECK_FALSE(warns({"--spares=1", "--job-token-file=/etc/job/token", "train.py"}));
  CHECK_FALSE(warns({"--spares=0", "train.py"}));
  CHECK_FALSE(warns({"train.py"}));
}

}  // namespace
}  // namespace rankshim
