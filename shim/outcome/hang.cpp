#include "outcome/hang.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <ranges>
#include <set>
#include <string_view>
#include <utility>

#include "base/text.h"

namespace rankshim::outcome {
namespace {

using Looks = std::vector<WorkerLook>;
using Ranks = std::set<unsigned>;

std::vector<RankRange> ranges_of(const Ranks& ranks) { return to_ranges({ranks.begin(), ranks.end()}); }

// ---- places ----

/// Whether a frame is a library's or the interpreter's own, by its file.
bool is_of_library(const Frame& frame) {
  constexpr auto signs =
      std::to_array<std::string_view>({"/site-packages/", "/dist-packages/", "/lib/python3"});
  return frame.file.starts_with('<') || std::ranges::any_of(signs, [&](std::string_view sign) {
           return frame.file.find(sign) != std::string::npos;
         });
}

/// torch wraps each collective in functions that only log or check.
bool is_wrapper(const Frame& frame) {
  return frame.file.ends_with("/c10d_logger.py") || frame.file.ends_with("/contextlib.py") ||
         frame.function == "decorate_context";
}

/// What is known of the job.
struct Evidence {
  std::map<unsigned, const WorkerLook*> looks;  ///< of those that run, by rank
  Ranks ended;

  [[nodiscard]] Ranks running() const {
    const auto ranks = looks | std::views::keys;
    return {ranks.begin(), ranks.end()};
  }
  /// Of the first of these that runs.
  [[nodiscard]] Place place(const Ranks& ranks) const {
    for (const unsigned rank : ranks)
      if (const auto found = looks.find(rank); found != looks.end()) return place_of(*found->second);
    return {};
  }
};

Culprit hang_of(HangKind kind, const Evidence& evidence, const Ranks& ranks, const Ranks& waiting) {
  Culprit culprit{.cause = Cause::hang, .ranks = ranges_of(ranks), .victims = ranges_of(waiting)};
  if (ranks.size() == 1) culprit.rank = *ranks.begin();
  culprit.hang = Hang{.kind = kind, .place = evidence.place(ranks), .waits_at = evidence.place(waiting)};
  return culprit;
}

Ranks without(const Ranks& ranks, const Ranks& others) {
  Ranks rest;
  std::ranges::set_difference(ranks, others, std::inserter(rest, rest.end()));
  return rest;
}

// ---- who waits for whom ----

/// A process group, as its members tell of it.
struct Group {
  std::string description;
  Ranks members;                                      ///< that are known
  std::uint64_t size = 0;                             ///< 0: nobody has told all its members
  std::map<unsigned, const GroupProgress*> progress;  ///< by rank
  std::uint64_t next = 1;                             ///< the collective after the last that has ended

  [[nodiscard]] bool has_entered(unsigned rank) const {
    const auto found = progress.find(rank);
    return found != progress.end() && found->second->entered >= next;
  }
  /// Whether it is in that very collective: NCCL lets a program enter further ones.
  [[nodiscard]] bool is_in(unsigned rank) const {
    const auto found = progress.find(rank);
    return found != progress.end() && found->second->entered == next;
  }
};

bool is_in(const std::vector<RankRange>& ranges, unsigned rank) {
  return std::ranges::any_of(
      ranges, [rank](const RankRange& range) { return range.first <= rank && rank <= range.last; });
}

/// The groups by their names. A member may not tell of them: its Python does not answer, or it has ended.
std::map<std::string, Group> groups_of(const Evidence& evidence) {
  std::map<std::string, Group> groups;
  for (const auto& [rank, look] : evidence.looks) {
    for (const GroupProgress& progress : look->groups) {
      Group& group = groups[progress.name];
      group.description = progress.description.empty() ? progress.name : progress.description;
      group.progress[rank] = &progress;
      group.next = std::max(group.next, progress.ended + 1);
      group.members.insert(rank);
      if (progress.members.empty() || group.size != 0) continue;
      for (const RankRange& range : progress.members)
        group.size += range.last - range.first + std::uint64_t{1};
      for (const unsigned other : evidence.looks | std::views::keys)
        if (is_in(progress.members, other)) group.members.insert(other);
      for (const unsigned other : evidence.ended)
        if (is_in(progress.members, other)) group.members.insert(other);
    }
  }
  return groups;
}

/// A group in which somebody waits, and who.
struct Wait {
  const Group* group = nullptr;
  Ranks waiting;
  Ranks missing;  ///< those that they wait for
};

std::vector<Wait> waits_of(const std::map<std::string, Group>& groups) {
  std::vector<Wait> waits;
  for (const Group& group : groups | std::views::values) {
    Wait wait{.group = &group, .waiting = {}, .missing = {}};
    for (const unsigned rank : group.members)
      (group.has_entered(rank) ? wait.waiting : wait.missing).insert(rank);
    if (!wait.waiting.empty()) waits.push_back(std::move(wait));
  }
  return waits;
}

void set_collective(Hang& hang, const Group& group) {
  hang.group = group.description;
  hang.number = group.next;
  for (const auto& [rank, progress] : group.progress)
    if (group.is_in(rank) && hang.operation.empty()) hang.operation = progress->operation;
}

/// What a rank has entered, by its recorder or else by its stack.
std::string operation_of(const Group& group, unsigned rank, const Place& place) {
  const std::string& told = group.progress.at(rank)->operation;
  return group.is_in(rank) && !told.empty() ? told : place.call;
}

// ---- the rows ----

using Row = std::optional<Culprit> (*)(const Evidence&, const std::vector<Wait>&);

std::optional<Culprit> stopped(const Evidence& evidence, const std::vector<Wait>& waits) {
  Ranks ranks;
  for (const auto& [rank, look] : evidence.looks)
    if (std::string_view("TtD").find(look->state) != std::string_view::npos) ranks.insert(rank);
  if (ranks.empty()) return std::nullopt;
  Culprit culprit = hang_of(HangKind::stopped, evidence, ranks, without(evidence.running(), ranks));
  for (const Wait& wait : waits)
    if (culprit.hang->number == 0 && !wait.missing.empty()) set_collective(*culprit.hang, *wait.group);
  return culprit;
}

std::optional<Culprit> missing(const Evidence& evidence, const std::vector<Wait>& waits) {
  Ranks wait_themselves, waited_for;
  for (const Wait& wait : waits) {
    if (wait.missing.empty()) continue;
    wait_themselves.insert(wait.waiting.begin(), wait.waiting.end());
    waited_for.insert(wait.missing.begin(), wait.missing.end());
  }
  if (waited_for.empty()) return std::nullopt;
  const Ranks to_blame = without(waited_for, wait_themselves);
  if (to_blame.empty()) return hang_of(HangKind::order, evidence, {}, wait_themselves);
  const bool have_ended = std::ranges::includes(evidence.ended, to_blame);
  Culprit culprit =
      hang_of(have_ended ? HangKind::ended : HangKind::missing, evidence, to_blame, wait_themselves);
  const auto is_to_blame = [&](unsigned rank) { return to_blame.contains(rank); };
  const auto wait = std::ranges::find_if(
      waits, [&](const Wait& one) { return std::ranges::any_of(one.missing, is_to_blame); });
  set_collective(*culprit.hang, *wait->group);
  culprit.hang->waits_at = evidence.place(wait->waiting);
  return culprit;
}

/// A collective that all members have entered.
std::optional<Culprit> all_inside(const Evidence& evidence, const std::vector<Wait>& waits) {
  const auto found = std::ranges::find_if(waits, [](const Wait& wait) { return wait.missing.empty(); });
  if (found == waits.end()) return std::nullopt;
  const Wait& wait = *found;
  const Group& group = *wait.group;
  if (group.size > group.members.size()) {
    Culprit culprit = hang_of(HangKind::elsewhere, evidence, {}, wait.waiting);
    set_collective(*culprit.hang, group);
    return culprit;
  }
  const bool are_in_it = std::ranges::all_of(wait.waiting, [&](unsigned rank) { return group.is_in(rank); });
  std::map<std::pair<std::string, std::string>, Ranks> by_operation;  // and line
  for (const unsigned rank : wait.waiting) {
    const Place place = evidence.place({rank});
    const std::string line = are_in_it ? fmt::format("{}:{}", place.line.file, place.line.line) : "";
    by_operation[{operation_of(group, rank, place), line}].insert(rank);
  }
  if (by_operation.size() == 1) {
    Culprit culprit = hang_of(HangKind::nobody_missing, evidence, {}, wait.waiting);
    set_collective(*culprit.hang, group);
    return culprit;
  }
  const auto size = [](const auto& entry) { return entry.second.size(); };
  const auto largest = std::ranges::max_element(by_operation, {}, size);
  const auto other = std::ranges::find_if(by_operation, [&](const auto& entry) { return entry != *largest; });
  const bool is_minority = std::ranges::count(by_operation, largest->second.size(), size) == 1;
  Culprit culprit =
      hang_of(HangKind::mismatch, evidence,
              is_minority ? without(wait.waiting, largest->second) : wait.waiting, largest->second);
  set_collective(*culprit.hang, group);
  culprit.hang->operation = largest->first.first;
  culprit.hang->other_operation = other->first.first;
  culprit.hang->place = evidence.place(other->second);
  if (!is_minority) culprit.victims.clear();
  return culprit;
}

/// The functions in which torch waits for its store (torch/distributed/distributed_c10d.py, rendezvous.py).
bool waits_for_store(const WorkerLook& look) {
  constexpr auto functions = std::to_array<std::string_view>(
      {"new_group", "init_process_group", "_new_process_group_helper", "_store_based_barrier", "rendezvous",
       "_create_c10d_store", "barrier_store", "_env_rendezvous_handler", "split_group", "new_subgroups"});
  return std::ranges::any_of(look.stack, [&](const Frame& frame) {
    return is_of_library(frame) && contains(functions, frame.function);
  });
}

std::optional<Culprit> store(const Evidence& evidence, const std::vector<Wait>& waits) {
  const bool all_wait = std::ranges::all_of(evidence.looks | std::views::values,
                                            [](const WorkerLook* look) { return waits_for_store(*look); });
  if (!waits.empty() || evidence.looks.size() < 2 || !all_wait) return std::nullopt;
  return hang_of(HangKind::store, evidence, {}, evidence.running());
}

/// Without numbers the stacks decide.
std::optional<Culprit> by_stacks(const Evidence& evidence, const std::vector<Wait>& /*waits*/) {
  std::map<std::pair<std::string, std::string>, Ranks> by_place;
  for (const auto& [rank, look] : evidence.looks) {
    const Place place = place_of(*look);
    if (!look->groups.empty() || place.line.file.empty()) return std::nullopt;
    by_place[{fmt::format("{}:{}", place.line.file, place.line.line), place.call}].insert(rank);
  }
  if (by_place.size() < 2) return std::nullopt;
  const Ranks& alike =
      std::ranges::max_element(by_place, {}, [](const auto& entry) { return entry.second.size(); })->second;
  const Ranks others = without(evidence.running(), alike);
  if (4 * others.size() <= evidence.looks.size()) return hang_of(HangKind::outlier, evidence, others, alike);
  return hang_of(HangKind::undecided, evidence, {}, evidence.running());
}

}  // namespace

Place place_of(const WorkerLook& look) {
  Place place{.line = {},
              .call = {},
              .state = look.state,
              .kernel = look.kernel,
              .holds_gil = look.holds_gil,
              .works = look.works,
              .below = look.below};
  for (const Frame& frame : look.stack) {
    if (!is_of_library(frame)) {
      place.line = frame;
      break;
    }
    if (!is_wrapper(frame)) place.call = frame.function;
  }
  if (place.line.file.empty() && !look.stack.empty()) {
    place.line = look.stack.front();
    place.call.clear();
  }
  return place;
}

std::optional<Culprit> find_hang(const Looks& looks, const std::vector<unsigned>& ended) {
  Evidence evidence{.looks = {}, .ended = {ended.begin(), ended.end()}};
  for (const WorkerLook& look : looks)
    if (!evidence.ended.contains(look.rank)) evidence.looks.try_emplace(look.rank, &look);
  const auto groups = groups_of(evidence);
  const std::vector<Wait> waits = waits_of(groups);
  for (const Row row : {stopped, missing, all_inside, store, by_stacks})
    if (auto culprit = row(evidence, waits)) return culprit;
  return std::nullopt;
}

std::vector<StackGroup> group_stacks(const Looks& looks) {
  struct Alike {
    const WorkerLook* first = nullptr;
    std::vector<unsigned> ranks;
  };
  std::map<std::vector<std::string>, Alike> by_stack;
  for (const WorkerLook& look : looks) {
    std::vector<std::string> key{look.stack.empty() ? std::string(1, look.state) : ""};
    for (const Frame& frame : look.stack)
      key.push_back(fmt::format("{}:{} {}", frame.file, frame.line, frame.function));
    Alike& alike = by_stack[std::move(key)];
    if (alike.first == nullptr) alike.first = &look;
    alike.ranks.push_back(look.rank);
  }
  std::vector<const Alike*> sorted;
  for (const Alike& alike : by_stack | std::views::values) sorted.push_back(&alike);
  std::ranges::sort(sorted, {},
                    [](const Alike* alike) { return std::pair(alike->ranks.size(), alike->first->rank); });
  std::vector<StackGroup> groups;
  for (const Alike* alike : sorted)
    groups.push_back({.ranks = to_ranges(alike->ranks), .look = *alike->first});
  return groups;
}

std::vector<std::string> in_lines(const std::vector<StackGroup>& groups, std::size_t most_lines) {
  std::vector<std::string> lines;
  for (const StackGroup& group : groups) {
    lines.push_back(fmt::format("{}: {}", in_words(group.ranks), in_words(place_of(group.look))));
    for (const Frame& frame : group.look.stack)
      lines.push_back(fmt::format("    {} ({}:{})", frame.function, frame.file, frame.line));
  }
  if (lines.size() > most_lines) {
    const std::size_t left_out = lines.size() - most_lines + 1;
    lines.resize(most_lines - 1);
    lines.push_back(fmt::format("({} more lines)", left_out));
  }
  return lines;
}

}  // namespace rankshim::outcome
