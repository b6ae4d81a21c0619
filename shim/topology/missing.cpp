#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>

#include "topology/near_miss.h"
#include "topology/resolution.h"

namespace rankshim {
namespace {

/// Names that some people and platforms use for the number of nodes, and others for something else.
constexpr auto count_hints = std::to_array<const char*>({"NODE_COUNT", "NUM_NODES", "WORLD_SIZE"});
constexpr auto rank_hints = std::to_array<const char*>({"NODE_INDEX", "NODE_ID", "RANK"});

/// The generic variables for a fact.
std::vector<std::string_view> names_for(Fact fact) {
  switch (fact) {
    case Fact::nnodes:
      return {"NNODES", "WORLD_SIZE"};
    case Fact::node_rank:
      return {"NODE_RANK", "RANK"};
    case Fact::master_addr:
      return {"MASTER_ADDR"};
    case Fact::rank:
      return {"RANK"};
    case Fact::world_size:
      return {"WORLD_SIZE"};
    case Fact::local_rank:
      return {"LOCAL_RANK"};
    default:
      return {};
  }
}

}  // namespace

Missing why_missing(const Resolution& r, Fact fact, std::vector<std::string>& names) {
  Missing missing;
  platform::Lack lack;
  if (r.platform.profile != nullptr && !is_mere_names(r))
    lack = platform::lack_of(*r.platform.profile, fact, r.node);
  names.insert(names.end(), lack.names.begin(), lack.names.end());
  missing.remedy = lack.remedy;
  missing.unset = fmt::format("{}", fmt::join(lack.unset, " or "));
  std::vector<std::string>& reasons = lack.unusable;
  const auto add = [&](const std::vector<std::string>& all, const char* one, const char* many) {
    if (!all.empty())
      reasons.push_back(fmt::format("{} {}", fmt::join(all, ", "), all.size() == 1 ? one : many));
  };
  add(lack.unset, "is not set", "are not set");
  add(lack.absent, "is not there", "are not there");
  std::span<const char* const> hints;
  if (fact == Fact::nnodes) hints = count_hints;
  if (fact == Fact::node_rank) hints = rank_hints;
  for (const char* hint : hints) {
    const auto text = r.node.environment().get(hint);
    if (!text || std::find(names.begin(), names.end(), hint) != names.end()) continue;
    reasons.push_back(fmt::format("{}={} may give it, but not for certain", hint, *text));
    names.emplace_back(hint);
  }
  missing.is_expected = !reasons.empty();
  for (NearMiss& miss : near_misses(r.node.environment(), names_for(fact))) {
    if (std::find(lack.unset.begin(), lack.unset.end(), miss.name) != lack.unset.end()) continue;
    reasons.push_back(std::move(miss.text));
    names.push_back(std::move(miss.name));
  }
  if (!reasons.empty()) missing.why = fmt::format(": {}", fmt::join(reasons, "; "));
  return missing;
}

}  // namespace rankshim
