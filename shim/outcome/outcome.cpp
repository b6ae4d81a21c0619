#include "outcome/outcome.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/duration.h"
#include "base/signals.h"
#include "base/text.h"

namespace rankshim::outcome {
namespace {

/// In the order of the enum.
constexpr std::array<std::string_view, 14> cause_names = {
    "none",      "exited",    "signalled",      "exception", "out_of_memory", "hang",          "exited_early",
    "peer_lost", "node_lost", "stop_requested", "timed_out", "unreachable",   "configuration", "system"};

constexpr std::size_t most_shown = 8;

std::string shown(const RankRange& range) {
  return range.first == range.last ? fmt::format("{}", range.first)
                                   : fmt::format("{}-{}", range.first, range.last);
}

bool is_one(const std::vector<RankRange>& ranges) {
  return ranges.size() == 1 && ranges.front().first == ranges.front().last;
}

/// The words for one rank, or for several.
struct NumberWords {
  std::string_view is, was, it, loop;
};
constexpr NumberWords one_rank = {"is", "was", "it", "its loop was"};
constexpr NumberWords several_ranks = {"are", "were", "them", "their loops were"};

/// Who failed, as the subject of a clause; empty if only the text says it.
std::string who_failed(const Culprit& culprit) {
  if (culprit.rank) return fmt::format("rank {}", *culprit.rank);
  if (!culprit.program.empty()) return culprit.program;
  return culprit.text.empty() ? "its command" : "";
}

std::string time_it_ran(const Culprit& culprit) {
  return hours_and_minutes(std::chrono::milliseconds(culprit.after.value_or(0)));
}

/// What follows the node's name: "failed: ".
std::string verb(const Culprit& culprit) {
  switch (culprit.cause) {
    case Cause::hang:
      return "hung: ";
    case Cause::exited_early:
      return "ended early: ";
    case Cause::node_lost:
      return "was lost: ";
    case Cause::stop_requested:
      return "was stopped";
    case Cause::peer_lost:
      return culprit.peer.empty() ? "lost a peer: " : fmt::format("lost its peer {}: ", culprit.peer);
    case Cause::timed_out:
      return "timed out waiting for its peers: ";
    default:
      return "failed: ";
  }
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
  std::string last;
  if (ranges.size() > most_shown) {
    last = "more";
  } else if (parts.size() > 1) {
    last = parts.back();
    parts.pop_back();
  }
  const std::string list = joined(parts) + (last.empty() ? "" : " and " + last);
  return (is_one(ranges) ? "rank " : "ranks ") + list;
}

std::string node_name(unsigned rank, std::string_view host, std::string_view address) {
  std::vector<std::string> more;
  if (!host.empty()) more.push_back(in_quotes(host));
  if (!address.empty()) more.emplace_back(address);
  return more.empty() ? fmt::format("node {}", rank) : fmt::format("node {} ({})", rank, joined(more));
}

std::string end_in_words(int code, const std::optional<int>& signal) {
  return signal ? "was killed by " + signal_name(*signal) : fmt::format("exited with code {}", code);
}

std::string what_happened(const Culprit& culprit) {
  const NumberWords& words = is_one(culprit.ranks) ? one_rank : several_ranks;
  if (culprit.cause == Cause::hang)  // one that its launcher killed was running until then
    return fmt::format("{} {} still running; {} timed out waiting for {}", in_words(culprit.ranks),
                       culprit.code == 0 ? words.is : words.was, in_words(culprit.victims), words.it);
  if (culprit.cause == Cause::exited_early)
    return fmt::format("{} exited 0 after {} while {} still waited for {}: {} shorter than theirs",
                       in_words(culprit.ranks), time_it_ran(culprit), in_words(culprit.victims), words.it,
                       words.loop);
  if (culprit.cause == Cause::stop_requested) return culprit.signal ? signal_name(*culprit.signal) : "";
  const std::string who = who_failed(culprit);
  if (who.empty()) return culprit.text;
  const std::string after = culprit.after ? " after " + time_it_ran(culprit) : "";
  return fmt::format("{} {}{}{}{}", who, end_in_words(culprit.code, culprit.signal), after,
                     culprit.text.empty() ? "" : ": ", culprit.text);
}

std::string in_words(const Culprit& culprit) {
  if (culprit.cause == Cause::stop_requested && culprit.signal)
    return fmt::format("{} was stopped ({})", node_name(culprit.node, culprit.host), what_happened(culprit));
  return fmt::format("{} {}{}", node_name(culprit.node, culprit.host), verb(culprit), what_happened(culprit));
}

}  // namespace rankshim::outcome
