#include "topology/resolution.h"

#include <array>
#include <catch2/catch.hpp>

#include "node/fake_host_for_test.h"
#include "topology/resolve_for_test.h"

namespace rankshim::topology {
namespace {

using node::FakeHost;

using Words = std::vector<std::string>;

std::string listed(const std::vector<NearMiss>& misses) {
  std::string all;
  for (const NearMiss& miss : misses) all += (all.empty() ? "" : "; ") + miss.text;
  return all;
}

std::string fault_of(const Words& variables) {
  const auto outcome = resolve(FakeHost(variables));
  const auto* faults = std::get_if<Faults>(&outcome);
  return faults == nullptr ? std::string("no fault") : to_line(faults->front());
}

TEST_CASE("a variable of nearly the right name is named with the right one") {
  constexpr Fact wanted[] = {Fact::nnodes, Fact::world_size, Fact::node_rank, Fact::rank, Fact::master_addr};
  const std::vector<std::pair<Words, std::string>> cases = {
      {{"WORLDSIZE=2"}, "WORLDSIZE=2 is set, but the name is WORLD_SIZE"},
      {{"world_size=2"}, "world_size=2 is set, but the name is WORLD_SIZE"},
      {{"NODERANK=0"}, "NODERANK=0 is set, but the name is NODE_RANK"},
      {{"NNODE=2"}, "NNODE=2 is set, but the name is NNODES"},
      {{"N_NODES=2"}, "N_NODES=2 is set, but the name is NNODES"},
      {{"MASTER_ADDRESS=a b"}, "MASTER_ADDRESS='a b' is set, but the name is MASTER_ADDR"},
      {{"MASTERADDR=m"}, "MASTERADDR=m is set, but the name is MASTER_ADDR"},
      {{"MASTER_ADDR=tcp://10.0.0.1:80"}, "MASTER_ADDR=tcp://10.0.0.1:80 is a URL, not a host name"},
      {{"WORLD_SIZE="}, "WORLD_SIZE is set, but empty"},
      {{"RANK= "}, "RANK is set, but empty"},
      {{"WORLD_SIZE=", "WORLDSIZE=2"},
       "WORLD_SIZE is set, but empty; WORLDSIZE=2 is set, but the name is WORLD_SIZE"},
      {{"WORLD_SIZE=2", "WORLDSIZE=3"}, ""},
      {{"WORLDSIZE="}, ""},
      {{"WORLD=2", "WORLD_SIZES=2", "MY_RANK=1", "_=x", "=x", "x"}, ""}};
  for (const auto& [variables, text] : cases) {
    CAPTURE(variables);
    CHECK(listed(near_misses(node::Environment(variables), wanted)) == text);
  }
}

TEST_CASE("of a lone node only those near misses count that it would not have") {
  constexpr Fact facts[] = {Fact::nnodes, Fact::world_size, Fact::node_rank, Fact::rank, Fact::master_addr};
  const auto misses = [&](Words variables) {
    return near_misses(node::Environment(std::move(variables)), facts, true).size();
  };
  CHECK(misses({"WORLDSIZE=1", "NODERANK=0", "NNODE=1", "MASTERADDR=localhost", "rank=first"}) == 0);
  CHECK(misses({"WORLDSIZE=2", "NODERANK=1", "NNODE=2", "MASTERADDR=m", "RANK="}) == 5);
}

TEST_CASE("missing variables are reported with their near misses") {
  CHECK_THAT(fault_of({"WORLDSIZE=2", "RANK=1", "MASTER_ADDR=m"}),
             Catch::Contains("but not how many: WORLDSIZE=2 is set, but the name is WORLD_SIZE; "));
  CHECK_THAT(fault_of({"WORLD_SIZE=", "RANK=1", "MASTER_ADDR=m"}),
             Catch::Contains("but not how many: WORLD_SIZE is set, but empty; "));
  CHECK_THAT(fault_of({"NNODES=2", "NODERANK=1", "MASTER_ADDR=m"}),
             Catch::Contains("rank is unknown: NODERANK=1 is set, but the name is NODE_RANK; "));
  CHECK_THAT(fault_of({"NNODES=2", "NODE_RANK=1", "MASTER_ADDRESS=m"}),
             Catch::Contains("address is unknown: MASTER_ADDRESS=m is set, but the name is MASTER_ADDR; "));
  CHECK_THAT(fault_of({"NNODES=1:2", "MASTERADDR=m"}),
             Catch::Contains("endpoint is unknown: MASTERADDR=m is set, but the name is MASTER_ADDR; "));
}

TEST_CASE(
    "a node that is taken to be alone is warned of near misses, with --strict wrong names are a fault") {
  for (const char* variable :
       {"WORLDSIZE=2", "WORLDSIZE=\"2\"", "NODERANK='1'", "NODERANK=1", "NNODE=2", "MASTER_ADDRESS=m",
        "MASTERADDR=m", "WORLD_SIZE=", "RANK=", "NODE_RANK=", "NNODES=", "MASTER_ADDR="}) {
    CAPTURE(variable);
    const auto outcome = resolve(FakeHost({variable}));
    REQUIRE(std::holds_alternative<Topology>(outcome));
    const auto& topology = std::get<Topology>(outcome);
    CHECK(topology.is_alone());
    REQUIRE(topology.warnings.size() == 1);
    CHECK_THAT(topology.warnings.front(), Catch::Contains(" is set, but "));
    CHECK_THAT(topology.warnings.front(), Catch::Contains("this node is treated as a lone node"));
    const bool is_empty = std::string_view(variable).ends_with('=');
    CHECK(std::holds_alternative<Faults>(resolve(FakeHost({variable}), {"--strict"})) == !is_empty);
    CHECK(std::get<Topology>(resolve(FakeHost({variable}), {"--nnodes=1"})).warnings.empty());
  }
}

TEST_CASE("a near miss is named where the default takes its place") {
  for (const auto& [variable, text] : std::vector<std::pair<std::string, std::string>>{
           {"MASTERPORT=29500", "MASTERPORT=29500 is set, but the name is MASTER_PORT; it is ignored"},
           {"MASTER_PORT=", "MASTER_PORT is set, but empty; it is ignored"},
           {"NPROCS_PER_NODE=8", "NPROCS_PER_NODE=8 is set, but the name is NPROC_PER_NODE; it is ignored"},
           {"NPROC_PER_NODE=", "NPROC_PER_NODE is set, but empty; it is ignored"}}) {
    const auto outcome = resolve(FakeHost({"RANK=1", "WORLD_SIZE=2", "MASTER_ADDR=m", variable}));
    REQUIRE(std::holds_alternative<Topology>(outcome));
    CHECK_THAT(std::get<Topology>(outcome).warnings, Catch::VectorContains(text));
    CHECK(std::get<Topology>(resolve(FakeHost({variable}))).warnings.empty() ==
          variable.starts_with("MASTER"));
  }
}

}  // namespace
}  // namespace rankshim::topology
