#include <catch2/catch.hpp>

#include "platform/recording_for_test.h"
#include "topology/resolve_for_test.h"

/// What an image or a shell left over from a lone process does not hide a platform.

namespace rankshim::topology {
namespace {

/// The recording's variables, and those of the left-over ones that it has not itself.
std::vector<std::string> with(const platform::Recording& recording,
                              const std::vector<std::string>& left_over) {
  std::vector<std::string> variables = recording.variables;
  for (const std::string& entry : left_over) {
    const auto is_same = [&](const std::string& own) {
      return node::entry_name(own) == node::entry_name(entry);
    };
    if (std::none_of(variables.begin(), variables.end(), is_same)) variables.push_back(entry);
  }
  return variables;
}

}  // namespace

TEST_CASE("the variables of a lone process make no lone node of one among several") {
  const std::vector<std::vector<std::string>> left_overs = {
      {"RANK=0", "WORLD_SIZE=1"},
      {"RANK=0", "WORLD_SIZE=1", "MASTER_ADDR=127.0.0.1", "MASTER_PORT=29500"},
      {"RANK=0", "WORLD_SIZE=1", "LOCAL_RANK=0", "MASTER_ADDR=127.0.0.1", "MASTER_PORT=29500"},
      {"LOCAL_RANK=0", "LOCAL_WORLD_SIZE=1"},
      {"RANK=0", "WORLD_SIZE=1", "LOCAL_RANK=0", "LOCAL_WORLD_SIZE=1"}};
  std::size_t nodes = 0;
  for (const platform::Recording& recording : platform::recordings()) {
    node::FakeHost host(recording.variables);
    recording.apply(host);
    const auto recorded = resolve(host);
    const auto* truth = std::get_if<Topology>(&recorded);
    if (truth == nullptr || truth->is_alone() || truth->is<Idle>()) continue;
    const platform::Profile* profile = platform::find(platform::builtin_profiles(), truth->platform.name());
    if (profile == nullptr || profile->kind == platform::ProfileKind::foreign) continue;
    ++nodes;
    for (const auto& left_over : left_overs) {
      node::FakeHost other(with(recording, left_over));
      recording.apply(other);
      const auto outcome = resolve(other);
      INFO(recording.path.string() << " with " << left_over.size() << " variables left over");
      const auto* topology = std::get_if<Topology>(&outcome);
      if (topology != nullptr) CHECK_FALSE(topology->is_alone());
    }
  }
  CHECK(nodes > 50);
}

}  // namespace rankshim::topology
