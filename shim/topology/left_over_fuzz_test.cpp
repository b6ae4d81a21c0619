#include <catch2/catch.hpp>

#include "platform/recording_for_test.h"
#include "topology/resolve_for_test.h"

namespace rankshim::topology {
namespace {

/// The numbers of a node; a node's one process has the same.
std::string place(const Topology& topology) {
  const bool process = topology.is<CreatedProcess>();
  std::string text;
  if (!topology.is<ElasticNode>())
    text += std::string(topology.facts.text(process ? Fact::rank : Fact::node_rank)) + " of ";
  text += topology.facts.text(process ? Fact::world_size : Fact::nnodes);
  // Where nothing is met, and on the host itself, the master may have any name.
  if (!topology.is_alone() && !topology.hosts_master().value_or(false))
    text += " at " + std::string(topology.facts.text(Fact::master_addr));
  return text;
}

/// A process whose node's number of processes is not known may be its node's only one.
std::string workers(const Topology& topology) {
  const bool open = topology.is<CreatedProcess>() && !topology.facts.has(Fact::nproc_per_node);
  return open ? "1" : std::string(topology.facts.text(Fact::nproc_per_node));
}

bool warns_of(const Topology& topology, const std::string& name) {
  return std::any_of(topology.warnings.begin(), topology.warnings.end(),
                     [&](const std::string& warning) { return warning.find(name) != std::string::npos; });
}

}  // namespace

TEST_CASE("a left-over variable in a recorded environment changes nothing, is refused, or is warned about") {
  std::size_t tried = 0, refused = 0, warned = 0;
  for (const platform::Recording& recording : platform::recordings()) {
    node::FakeHost whole(recording.variables);
    recording.apply(whole);
    const auto before = resolve(whole);
    const auto* truth = std::get_if<Topology>(&before);
    if (truth == nullptr || truth->is_alone() || truth->is<Idle>()) continue;
    INFO(recording.path.string());
    for (const char* name :
         {"RANK", "LOCAL_RANK", "WORLD_SIZE", "NODE_RANK", "NNODES", "PET_NNODES", "MASTER_ADDR"}) {
      if (whole.environment().get(name)) continue;
      for (const char* value : {"0", "1", ""}) {
        const std::string left_over = std::string(name) + "=" + value;
        INFO(left_over);
        auto variables = recording.variables;
        variables.push_back(left_over);
        node::FakeHost host(variables);
        recording.apply(host);
        const auto after = resolve(host);
        ++tried;
        if (const auto* faults = std::get_if<Faults>(&after)) {
          ++refused;
          INFO(to_line(faults->front()));
          CHECK(names(*faults, name));
          continue;
        }
        const auto& topology = std::get<Topology>(after);
        const bool is_warned = warns_of(topology, name);
        if (is_warned) ++warned;
        if (!is_warned) CHECK(place(topology) == place(*truth));
        if (!is_warned) CHECK(workers(topology) == workers(*truth));
        if (!is_warned) CHECK(!topology.is_alone());
      }
    }
  }
  CHECK(tried > 2000);
  CHECK(refused > 0);
  CHECK(warned > 0);
}

}  // namespace rankshim::topology
