#include "topology/ranks.h"

#include <catch2/catch.hpp>
#include <vector>

namespace rankshim::topology {
namespace {

using Number = std::optional<unsigned>;
constexpr Number none;

RankVariables variables(Number rank, Number world, Number local = none, Number local_world = none) {
  return {rank, world, local, local_world, local.has_value(), false};
}

KnownNode known(Number nnodes, Number node_rank, Number workers = none) {
  return {nnodes, node_rank, workers, 0, nnodes.has_value(), false, false, false};
}

}  // namespace

TEST_CASE("RANK, WORLD_SIZE and LOCAL_RANK get their meaning beside what is known of the node") {
  struct Case {
    const char* what;
    RankVariables ranks;
    KnownNode node;
    RankUse use;
  };
  const std::vector<Case> cases = {
      {"nothing is set", variables(none, none), known(2, 1), RankUse::nothing},
      {"LOCAL_RANK alone", variables(none, none, 1), known(none, none), RankUse::nothing},
      {"nothing says processes", variables(1, 2), known(none, none), RankUse::nodes},
      {"the same numbers as the node's", variables(1, 2), known(2, 1), RankUse::nodes},
      {"another node than the known one", variables(0, 2), known(2, 1), RankUse::wrong_node_rank},
      {"another node, of WORLD_SIZE nodes", variables(0, 2), known(none, 1), RankUse::wrong_node_rank},
      {"two nodes of 8", variables(8, 16), known(2, 1, 8), RankUse::nothing},
      {"two nodes of any number", variables(8, 16), known(2, 1), RankUse::nothing},
      {"the second node's second process", variables(9, 16), known(2, 1, 8), RankUse::wrong_node_rank},
      {"16 are not 2 times 4", variables(8, 16), known(2, 1, 4), RankUse::wrong_nnodes},
      {"3 are not spread over 2", variables(1, 3), known(2, 1), RankUse::wrong_nnodes},
      {"the first process is on the first node", variables(0, 16), known(2, none), RankUse::nodes},
      {"a process of unknown nodes", variables(8, 16), known(2, none), RankUse::unclear},
      {"LOCAL_RANK says processes", variables(9, 16, 1), known(none, none), RankUse::unclear},
      {"LOCAL_WORLD_SIZE says processes", variables(1, 16, none, 8), known(none, none), RankUse::unclear},
      {"one process is one node", variables(0, 1, 0), known(none, none), RankUse::nodes},
      {"the rank of the first process", variables(8, 16), known(none, 1, 8), RankUse::first_worker},
      {"node 0, or process 0", variables(0, 16), known(none, 0, 8), RankUse::unclear},
      {"the node's rank", variables(1, 16), known(none, 1, 8), RankUse::nodes},
      {"2 is not a number of processes", variables(0, 2), known(none, 0, 8), RankUse::nodes},
      {"WORLD_SIZE of the only node", variables(none, 8), known(1, none, 8), RankUse::nothing},
      {"one of several processes of the only node", variables(none, 8, 1), known(1, none, 8),
       RankUse::unclear},
      {"LOCAL_RANK beside a known node", variables(9, 16, 1), known(2, 1, 8), RankUse::nothing},
  };
  for (const Case& one : cases) {
    INFO(one.what);
    CHECK(use_of(one.ranks, one.node, RankUnit::any) == one.use);
  }
}

TEST_CASE("RANK=0 on node 0 is that of the node, unless WORLD_SIZE can be the processes of several nodes") {
  KnownNode node = known(none, 0);
  node.accelerators = 8;
  CHECK(use_of(variables(0, 16), node, RankUnit::any) == RankUse::unclear);
  CHECK(use_of(variables(0, 2), node, RankUnit::any) == RankUse::nodes);
  CHECK(use_of(variables(0, 8), node, RankUnit::any) == RankUse::nodes);
  node.accelerators = 1;
  CHECK(use_of(variables(0, 16), node, RankUnit::any) == RankUse::nodes);
}

TEST_CASE("--rank-unit decides what is unclear") {
  CHECK(use_of(variables(9, 16, 1), known(none, none), RankUnit::node) == RankUse::nodes);
  CHECK(use_of(variables(9, 16, 1), known(none, none), RankUnit::process) == RankUse::this_process);
  CHECK(use_of(variables(8, 16), known(none, none, 8), RankUnit::process) == RankUse::first_worker);
}

TEST_CASE("what the user has set is not contradicted") {
  KnownNode node = known(2, 1);
  node.nnodes_is_certain = node.node_rank_is_certain = true;
  CHECK(use_of(variables(0, 3), node, RankUnit::any) == RankUse::nothing);
  CHECK(use_of(variables(0, 2), node, RankUnit::any) == RankUse::nodes);
}

TEST_CASE("WORLD_SIZE alone is not read where it may count processes") {
  KnownNode node = known(none, 1);
  CHECK(use_of(variables(none, 16), node, RankUnit::any) == RankUse::unclear);
  node.workers = 1;
  CHECK(use_of(variables(none, 16), node, RankUnit::any) == RankUse::nodes);
  RankVariables by_operator = variables(1, 16);
  by_operator.has_pet_node_rank = true;
  CHECK(use_of(by_operator, known(none, 1), RankUnit::any) == RankUse::nothing);
}

TEST_CASE("RANK, WORLD_SIZE and LOCAL_RANK are checked beside a platform's own words") {
  struct Case {
    const char* what;
    RankVariables ranks;
    KnownNode node;
    RankUse clash;
  };
  const std::vector<Case> cases = {
      {"the node's own numbers", variables(1, 2), known(2, 1), RankUse::nothing},
      {"the node's first process", variables(8, 16), known(2, 1, 8), RankUse::nothing},
      {"the node's one process", variables(1, 2, 0), known(2, 1, 8), RankUse::nothing},
      {"RANK alone, of the node", variables(1, none), known(2, 1), RankUse::nothing},
      {"RANK alone, of no node", variables(5, none), known(2, 1), RankUse::wrong_node_rank},
      {"another number of nodes", variables(0, 3), known(2, 0), RankUse::wrong_nnodes},
      {"another node", variables(0, 2), known(2, 1), RankUse::wrong_node_rank},
      {"one of the node's processes, which exists", variables(9, 16, 1), known(2, 1, 8),
       RankUse::wrong_process},
      {"too little is known", variables(9, 16), known(2, none), RankUse::nothing},
  };
  for (const Case& one : cases) {
    INFO(one.what);
    CHECK(clash_of(one.ranks, one.node) == one.clash);
  }
}

TEST_CASE("beside torchrun's flags RANK may be that of any process of the node") {
  KnownNode flags = known(2, 1, 8);
  flags.nnodes_is_certain = true;
  CHECK(clash_with_flags(variables(9, 16), flags, none) == RankUse::nothing);
  CHECK(clash_with_flags(variables(7, 16), flags, none) == RankUse::wrong_node_rank);
  CHECK(clash_with_flags(variables(1, 3), flags, none) == RankUse::wrong_nnodes);
  CHECK(clash_with_flags(variables(9, none), known(none, 1), 8) == RankUse::nothing);
  CHECK(clash_with_flags(variables(9, none), known(none, 1), none) == RankUse::wrong_node_rank);
  CHECK(clash_with_flags(variables(9, none, 1), known(none, 0), none) == RankUse::nothing);
}

TEST_CASE("RANK, WORLD_SIZE and LOCAL_RANK are a started process's, or LOCAL_RANK=0 is left over") {
  using enum RankUse;
  constexpr RankUse no = nothing, yes = this_process;
  struct Case {
    const char* what;
    RankVariables ranks;
    KnownNode node;
    bool by_platform;
    RankUse answer;
  };
  const std::vector<Case> cases = {
      {"nothing else is known", variables(9, 16, 1), known(none, none), false, yes},
      {"in blocks", variables(9, 16, 1), known(2, 1), false, yes},
      {"in turn", variables(3, 16, 1), known(2, 1), false, yes},
      {"of another node", variables(1, 16, 1), known(2, 1), false, no},
      {"not even", variables(1, 3, 0), known(2, 1), false, yes},
      {"LOCAL_RANK is missing", variables(9, 16), known(2, 1), false, no},
      {"one worker per node", variables(1, 2, 0), known(2, 1), false, yes},
      {"the platform's node", variables(1, 2, 0), known(2, 1), true, no},
      {"the node's, of 8 workers", variables(1, 2, 0), known(2, 1, 8), false, left_over},
      {"the node's, of 8 workers, nothing else", variables(1, 2, 0), known(none, none, 8), false, left_over},
      {"node 8 of 16, or process 8", variables(8, 16, 0), known(none, none, 8), false, unclear},
      {"a pod's number, and the job's processes", variables(1, 16, 0), known(2, 1, 8), true, left_over},
      {"node 0, or process 0 on it", variables(0, 16, 0), known(2, 0, 8), true, unclear},
      {"process 0 by generic names", variables(0, 16, 0), known(2, 0), false, yes},
      {"LOCAL_WORLD_SIZE shows it", variables(0, 16, 0, 8), known(2, 0, 8), true, yes},
      {"LOCAL_WORLD_SIZE=1 adds nothing", variables(1, 16, 0, 1), known(2, 1, 8), true, left_over},
      {"nor beside generic names", variables(0, 16, 0, 1), known(2, 1), false, no},
      {"one of 16 on 2 nodes, but alone on its node", variables(1, 16, 0, 1), known(2, 1), false, unclear},
      {"the same on node 0", variables(0, 16, 0, 1), known(2, 0), false, unclear},
      {"one on this node, two on the other", variables(1, 3, 0, 1), known(2, 1), false, yes},
      {"one process on this node, not even", variables(2, 3, 0, 1), known(2, 1), false, yes},
      {"a lone process beside a platform", variables(0, 1, 0, 1), known(none, none), true, no},
      {"a lone process on a platform's only node", variables(0, 1, 0, 1), known(1, 0), true, no},
      {"the only process of an only node", variables(0, 1, 0, 1), known(1, 0), false, yes},
  };
  for (const Case& one : cases) {
    INFO(one.what);
    KnownNode node = one.node;
    node.is_numbered_by_platform = one.by_platform;
    CHECK(started_process(one.ranks, node) == one.answer);
  }
  RankVariables by_operator = variables(0, 16, 0);
  by_operator.has_pet_node_rank = true;  // training-operator's own RANK and WORLD_SIZE
  KnownNode node = known(2, 0, 8);
  node.is_numbered_by_platform = true;
  CHECK(started_process(by_operator, node) == left_over);
}

TEST_CASE("the units differ if RANK counts nodes and WORLD_SIZE their processes") {
  CHECK(units_differ(variables(1, 16), known(2, 1, 8)));
  CHECK_FALSE(units_differ(variables(1, 2), known(2, 1, 8)));
  CHECK_FALSE(units_differ(variables(8, 16), known(2, 1, 8)));
  CHECK_FALSE(units_differ(variables(1, 2), known(2, 1, 1)));
  CHECK_FALSE(units_differ(variables(0, 8), known(1, 0, 8)));
  CHECK_FALSE(units_differ(variables(none, 16), known(2, 1, 8)));
}

}  // namespace rankshim::topology
