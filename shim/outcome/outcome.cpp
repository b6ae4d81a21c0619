#include "outcome/outcome.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/text.h"

namespace rankshim::outcome {
namespace {

/// In the order of the enum.
constexpr std::array<std::string_view, 13> cause_names = {
    "none",      "exited",    "signalled",      "exception", "out_of_memory", "hang",  "exited_early",
    "peer_lost", "node_lost", "stop_requested", "timed_out", "configuration", "system"};

constexpr std::size_t most_shown = 8;

std::string shown(const RankRange& range) {
  return range.first == range.last ? fmt::format("{}", range.first)
                                   : fmt::format("{}-{}", range.first, range.last);
}

}  // namespace

std::string_view name(Cause cause) { return cause_names[static_cast<std::size_t>(cause)]; }

std::optional<Cause> cause_named(std::string_view name) {
  const auto found = std::ranges::find(cause_names, name);
  if (found == cause_names.end()) return std::nullopt;
  return static_cast<Cause>(found - cause_names.begin());
}

std::vector<RankRange> to_ranges(std::vector<unsigned> ranks) {
  std::ranges::sort(ranks);
  std::vector<RankRange> ranges;
  for (const unsigned rank : ranks) {
    if (!ranges.empty() && rank - ranges.back().last <= 1)
      ranges.back().last = rank;
    else
      ranges.push_back({rank, rank});
  }
  return ranges;
}

std::string in_words(const std::vector<RankRange>& ranges) {
  std::vector<std::string> parts;
  for (const RankRange& range : ranges) {
    if (parts.size() == most_shown) break;
    parts.push_back(shown(range));
  }
  const bool one = ranges.size() == 1 && ranges.front().first == ranges.front().last;
  std::string last;
  if (ranges.size() > most_shown) {
    last = "more";
  } else if (parts.size() > 1) {
    last = parts.back();
    parts.pop_back();
  }
  const std::string list = joined(parts) + (last.empty() ? "" : " and " + last);
  return (one ? "rank " : "ranks ") + list;
}

}  // namespace rankshim::outcome
