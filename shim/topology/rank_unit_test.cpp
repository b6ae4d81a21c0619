#include <catch2/catch.hpp>

#include "base/text.h"
#include "node/fake_host_for_test.h"
#include "topology/resolution.h"

namespace rankshim::topology {
namespace {

using platform::Granularity;
using Given = std::vector<std::string>;

/// What is known before RANK and WORLD_SIZE are read: "nnodes=2" by a variable NNODES, and so on.
struct Known {
  std::string nnodes, node_rank, nproc;
};

Facts facts_of(const Known& known) {
  Facts facts;
  const auto set = [&](Fact fact, const std::string& text) {
    if (!text.empty()) facts[fact] = Value{text, Origin::variable, upper_case(name(fact))};
  };
  set(Fact::nnodes, known.nnodes);
  set(Fact::node_rank, known.node_rank);
  set(Fact::nproc_per_node, known.nproc);
  return facts;
}

/// "node nnodes=2 node_rank=1", or the first fault's line.
std::string read(const Given& variables, const Known& known, RankUnit unit) {
  const node::FakeHost host(variables);
  const settings::Settings settings;
  const platform::Platform platform;
  Resolution r{settings, platform, host};
  r.topology.facts = facts_of(known);
  r.add(read_ranks(r, unit));
  if (!r.faults.empty()) return to_line(r.faults.front());
  const Facts& facts = r.topology.facts;
  std::string text = r.granularity == Granularity::node ? "node" : "process";
  for (const Fact fact : {Fact::nnodes, Fact::node_rank, Fact::rank, Fact::world_size, Fact::local_rank,
                          Fact::local_world_size})
    if (facts.has(fact)) text.append(" ").append(name(fact)).append("=").append(facts.text(fact));
  return text;
}

TEST_CASE(
    "RANK and WORLD_SIZE become facts of the node or of the process, or a fault that says what settles it") {
  struct Case {
    Given variables;
    Known known;
    RankUnit unit;
    std::string result;
  };
  const std::vector<Case> cases = {
      {{}, {}, RankUnit::any, "node"},
      {{"RANK=1", "WORLD_SIZE=2"}, {}, RankUnit::any, "node nnodes=2 node_rank=1"},
      {{"RANK=01", "WORLD_SIZE=2"}, {}, RankUnit::any, "node nnodes=2 node_rank=1"},
      {{"RANK=8", "WORLD_SIZE=16"}, {"2", "1", "8"}, RankUnit::any, "node nnodes=2 node_rank=1"},
      {{"RANK=3", "WORLD_SIZE=4", "LOCAL_RANK=1", "LOCAL_WORLD_SIZE=2"},
       {},
       RankUnit::process,
       "process rank=3 world_size=4 local_rank=1 local_world_size=2"},
      {{"RANK=3", "WORLD_SIZE=4", "LOCAL_RANK=1", "LOCAL_WORLD_SIZE=2"},
       {},
       RankUnit::any,
       "cannot tell whether RANK and WORLD_SIZE count nodes or processes: RANK=3, WORLD_SIZE=4, "
       "LOCAL_RANK=1, "
       "LOCAL_WORLD_SIZE=2; describe this node with --nnodes and --node-rank (RANKSHIM_NNODES, "
       "RANKSHIM_NODE_RANK), or set --rank-unit=node or --rank-unit=process (RANKSHIM_RANK_UNIT) [R11]"},
      {{"RANK=8", "WORLD_SIZE=16"}, {"", "", "8"}, RankUnit::process, "node nnodes=2 node_rank=1"},
      {{"RANK=1", "WORLD_SIZE=0"},
       {},
       RankUnit::node,
       "WORLD_SIZE=0 is not a number of nodes; correct or unset WORLD_SIZE, or describe this node with "
       "--nnodes and --node-rank (RANKSHIM_NNODES, RANKSHIM_NODE_RANK) [R13]"},
      {{"RANK=x", "WORLD_SIZE=2"},
       {},
       RankUnit::any,
       "RANK=x is not a number; correct or unset RANK, or describe this node with --nnodes and --node-rank "
       "(RANKSHIM_NNODES, RANKSHIM_NODE_RANK) [R13]"},
      {{"RANK=1", "WORLD_SIZE=3"},
       {"2", "1"},
       RankUnit::any,
       "NNODES=2 contradicts WORLD_SIZE=3; correct or unset WORLD_SIZE, or describe this node with --nnodes "
       "and --node-rank (RANKSHIM_NNODES, RANKSHIM_NODE_RANK) [R10]"},
      {{"RANK=8", "WORLD_SIZE=16"},
       {},
       RankUnit::process,
       "--rank-unit=process, but the number of processes on a node is unknown; set --nproc-per-node "
       "(RANKSHIM_NPROC_PER_NODE) [R11]"},
      {{"RANK=9", "WORLD_SIZE=16"},
       {"", "", "8"},
       RankUnit::process,
       "RANK=9 is not a multiple of the 8 workers of a node; correct --nproc-per-node "
       "(RANKSHIM_NPROC_PER_NODE), or set --rank-unit=node (RANKSHIM_RANK_UNIT) [R11]"},
  };
  for (const Case& one : cases) {
    INFO(joined(one.variables));
    CHECK(read(one.variables, one.known, one.unit) == one.result);
  }
}

TEST_CASE("RANK, WORLD_SIZE and similar variables are compared with a platform's own variables") {
  const auto fault = [](const Given& variables, Granularity granularity, const Facts& facts) {
    const node::FakeHost host(variables);
    const settings::Settings settings;
    const platform::Platform platform;
    Resolution r{settings, platform, host, nullptr, granularity};
    r.topology.platform = platform::PlatformId("skypilot");
    r.topology.facts = facts;
    const Faults faults = check_ranks(r);
    return faults.empty() ? std::string() : faults.front().what;
  };
  const Facts node = facts_of({"2", "1", "8"});
  for (const Given& good : std::vector<Given>{
           {}, {"RANK=1", "WORLD_SIZE=2"}, {"RANK=8", "WORLD_SIZE=16"}, {"RANK=x", "WORLD_SIZE="}}) {
    INFO(joined(good));
    CHECK(fault(good, Granularity::node, node).empty());
  }
  CHECK(fault({"RANK=0", "WORLD_SIZE=2"}, Granularity::node, node) == "NODE_RANK=1 contradicts RANK=0");
  CHECK(fault({"RANK=1", "WORLD_SIZE=3"}, Granularity::node, node) == "NNODES=2 contradicts WORLD_SIZE=3");
  Facts process;
  process[Fact::rank] = Value{"3", Origin::variable, "SLURM_PROCID"};
  CHECK(fault({"RANK=3"}, Granularity::process, process).empty());
  CHECK(fault({"RANK=2"}, Granularity::process, process) == "SLURM_PROCID=3 contradicts RANK=2");
  process[Fact::rank]->detail = "RANK";
  CHECK(fault({"RANK=2"}, Granularity::process, process).empty());  // it was read from that
}

}  // namespace
}  // namespace rankshim::topology
