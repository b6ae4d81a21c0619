#include "outcome/outcome.h"

#include <algorithm>
#include <array>

namespace rankshim::outcome {
namespace {

/// In the order of the enum.
constexpr std::array<std::string_view, 14> cause_names = {
    "none",      "exited",    "signalled",      "exception", "out_of_memory", "hang",          "exited_early",
    "peer_lost", "node_lost", "stop_requested", "timed_out", "unreachable",   "configuration", "system"};

/// In the order of the enum.
constexpr auto kind_names =
    std::to_array<std::string_view>({"missing", "ended", "stopped", "mismatch", "order", "nobody_missing",
                                     "elsewhere", "store", "outlier", "undecided"});

}  // namespace

std::string_view name(Cause cause) { return cause_names[static_cast<std::size_t>(cause)]; }

std::optional<Cause> cause_named(std::string_view name) {
  const auto found = std::ranges::find(cause_names, name);
  if (found == cause_names.end()) return std::nullopt;
  return static_cast<Cause>(found - cause_names.begin());
}

std::string_view name(HangKind kind) { return kind_names.at(static_cast<std::size_t>(kind)); }

std::optional<HangKind> hang_kind_named(std::string_view name) {
  const auto found = std::ranges::find(kind_names, name);
  if (found == kind_names.end()) return std::nullopt;
  return static_cast<HangKind>(found - kind_names.begin());
}

bool is_one(const std::vector<RankRange>& ranges) {
  return ranges.size() == 1 && ranges.front().first == ranges.front().last;
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

}  // namespace rankshim::outcome
