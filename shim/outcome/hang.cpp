#include "outcome/hang.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <ranges>
#include <set>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "outcome/wording.h"

namespace rankshim::outcome {
namespace {

using Looks = std::vector<WorkerLook>;
using Ranks = std::set<unsigned>;

std::vector<RankRange> ranges_of(const Ranks& ranks) { return to_ranges({ranks.begin(), ranks.end()}); }

// ---- places ----

/// Whether the frame's file belongs to Python or torch. rankshim's own files in a worker count too: they
/// record its exception once it has left the user's code, and wait for torch's store
/// (launchers/torchrun/python).
bool is_of_python(const Frame& frame) {
  constexpr auto signs = std::to_array<std::string_view>({"/lib/python3", "/lib64/python3", "/torch/"});
  const std::string_view file = frame.file;
  if (file.starts_with("<frozen") || file.ends_with("/sitecustomize.py") ||
      file.ends_with("/rankshim_store.py"))
    return true;
  const std::size_t packages = file.rfind("-packages/");  // site-packages, dist-packages
  if (packages != file.npos) return file.find("/torch/", packages) != file.npos;
  return std::ranges::any_of(signs, [file](std::string_view sign) { return file.find(sign) != file.npos; });
}

/// Whether the frame's file belongs to a library or the interpreter. A command without an extension is a
/// package's entry point: "/usr/local/bin/accelerate".
bool is_of_library(const Frame& frame) {
  const std::string_view file = frame.file;
  const bool is_command = file.find("/bin/") != file.npos && !file.ends_with(".py");
  return is_of_python(frame) || is_command || file.starts_with('<') || file.find("-packages/") != file.npos;
}

/// Whether the frame is one of the functions in which torch wraps each collective and each module's call, and
/// which only log, check or forward.
bool is_wrapper(const Frame& frame) {
  constexpr auto functions =
      std::to_array<std::string_view>({"decorate_context", "_wrapped_call_impl", "_call_impl", "inner",
                                       "wrapper", "_fn", "_call_with_frames_removed"});
  return frame.file.ends_with("/c10d_logger.py") || frame.file.ends_with("/contextlib.py") ||
         contains(functions, frame.function);
}

/// The innermost frame of the user's code, or, if the program is itself a package, of the code that calls
/// torch. The stack's end if there is none.
std::vector<Frame>::const_iterator users_frame(const std::vector<Frame>& stack) {
  const auto users = std::ranges::find_if_not(stack, is_of_library);
  if (users != stack.end()) return users;
  const auto caller = std::ranges::find_if_not(stack, is_of_python);
  // A process of multiprocessing's runs as `-c "from multiprocessing.spawn import …"`
  // (multiprocessing/spawn.py).
  const bool is_multiprocessings = caller != stack.end() && caller != stack.begin() &&
                                   caller->file == "<string>" &&
                                   std::prev(caller)->file.find("/multiprocessing/") != std::string::npos;
  return is_multiprocessings ? stack.end() : caller;
}

/// Whether the user's code is inside one of torch.distributed's own functions that wait for other ranks: a
/// collective, init_process_group, new_group.
bool is_in_distributed(const WorkerLook& look) {
  return std::any_of(look.stack.begin(), users_frame(look.stack), [](const Frame& frame) {
    return frame.file.ends_with("/torch/distributed/distributed_c10d.py") ||
           frame.file.ends_with("/torch/distributed/rendezvous.py");
  });
}

/// What is known of the job.
struct JobLooks {
  std::map<unsigned, const WorkerLook*> looks;   ///< of those that run, by rank
  Ranks ended;                                   ///< the ranks that exited 0
  std::map<unsigned, Place> waited_at;           ///< by the victims' ranks
  std::map<unsigned, const WorkerLook*> before;  ///< looks at victims before they ended

  [[nodiscard]] Ranks victims() const {
    const auto ranks = waited_at | std::views::keys;
    return {ranks.begin(), ranks.end()};
  }

  [[nodiscard]] Ranks running() const {
    const auto ranks = looks | std::views::keys;
    return {ranks.begin(), ranks.end()};
  }
  /// The place of the first of these ranks that is in the user's code; otherwise that of the first victim, or
  /// of the first that runs.
  [[nodiscard]] Place place(const Ranks& ranks) const {
    const WorkerLook* runs = nullptr;
    for (const unsigned rank : ranks) {
      const auto found = looks.find(rank);
      if (found == looks.end()) continue;
      if (users_frame(found->second->stack) != found->second->stack.end()) return place_of(*found->second);
      if (runs == nullptr) runs = found->second;
    }
    for (const unsigned rank : ranks)
      if (const auto found = waited_at.find(rank); found != waited_at.end()) return found->second;
    return runs == nullptr ? Place() : place_of(*runs);
  }
};

Culprit hang_of(HangKind kind, const JobLooks& job, const Ranks& ranks, const Ranks& waiting) {
  Culprit culprit{.cause = Cause::hang, .ranks = ranges_of(ranks), .victims = ranges_of(waiting)};
  if (ranks.size() == 1) culprit.rank = *ranks.begin();
  culprit.hang = Hang{.kind = kind, .place = job.place(ranks), .waits_at = job.place(waiting)};
  return culprit;
}

/// "/app/train.py:37".
std::string line_of(const Place& place) { return fmt::format("{}:{}", place.line.file, place.line.line); }

Ranks without(const Ranks& ranks, const Ranks& others) {
  Ranks rest;
  std::ranges::set_difference(ranks, others, std::inserter(rest, rest.end()));
  return rest;
}

// ---- who waits for whom ----

/// A process group, as its members report it.
struct Group {
  std::string description;
  Ranks members;                                      ///< that are known
  std::uint64_t size = 0;                             ///< 0: nobody has named all its members
  std::map<unsigned, const GroupProgress*> progress;  ///< by rank
  std::uint64_t next = 1;                             ///< the collective after the last that has ended
  Ranks victims;                                      ///< members that waited, and have ended
  std::map<unsigned, const GroupProgress*> before;    ///< that of victims, when they failed

  /// The collective in which a rank waits; nullopt if it is in none. With NCCL a program may enter further
  /// ones, and a rank that has sent its part of a broadcast may be ahead of the others.
  [[nodiscard]] std::optional<std::uint64_t> waits_in(unsigned rank) const {
    const auto found = progress.find(rank);
    if (found == progress.end()) return std::nullopt;
    if (found->second->entered >= next) return next;
    if (found->second->entered > found->second->ended) return found->second->ended + 1;
    return std::nullopt;
  }
  [[nodiscard]] bool has_entered(unsigned rank, std::uint64_t number) const {
    if (const auto found = before.find(rank); found != before.end()) return found->second->entered >= number;
    const auto found = progress.find(rank);
    return victims.contains(rank) || (found != progress.end() && found->second->entered >= number);
  }
  /// Whether the rank is known not to have entered that collective.
  [[nodiscard]] bool is_behind(unsigned rank, std::uint64_t number) const {
    return (progress.contains(rank) || before.contains(rank)) && !has_entered(rank, number);
  }
  /// Whether that collective is the last one that the rank has entered.
  [[nodiscard]] bool is_in(unsigned rank, std::uint64_t number) const {
    const auto found = progress.find(rank);
    return found != progress.end() && found->second->entered == number;
  }
};

/// Adds to `to` the ranks that lie in the ranges.
void add_in(const std::vector<RankRange>& ranges, const Ranks& ranks, Ranks& to) {
  for (const RankRange& range : ranges)
    std::copy_if(ranks.lower_bound(range.first), ranks.upper_bound(range.last), std::inserter(to, to.end()),
                 [&](unsigned rank) { return range.contains(rank); });
}

/// The groups by name. Some members may report nothing, because their Python does not answer or they have
/// ended.
std::map<std::string, Group> groups_of(const JobLooks& job) {
  std::map<std::string, Group> groups;
  const Ranks running = job.running(), victims = job.victims();
  const auto add = [&](unsigned rank, const WorkerLook& look, bool is_victim) {
    for (const GroupProgress& progress : look.groups) {
      Group& group = groups[progress.name];
      group.description = progress.description.empty() ? progress.name : progress.description;
      (is_victim ? group.before : group.progress)[rank] = &progress;
      // A victim's recorder reports the collective in which it failed as ended.
      if (!is_victim) group.next = std::max(group.next, progress.ended + 1);
      group.members.insert(rank);
      if (progress.members.empty() || group.size != 0) continue;
      for (const RankRange& range : progress.members) group.size += range.size();
      add_in(progress.members, running, group.members);
      add_in(progress.members, job.ended, group.members);
      add_in(progress.members, victims, group.victims);
      group.members.insert(group.victims.begin(), group.victims.end());
    }
  };
  for (const auto& [rank, look] : job.looks) add(rank, *look, false);
  for (const auto& [rank, look] : job.before) add(rank, *look, true);
  return groups;
}

/// A collective of a group in which ranks wait, and which ranks.
struct Waiters {
  const Group* group = nullptr;
  std::uint64_t number = 0;
  Ranks waiting;
  Ranks missing;         ///< the ranks that they wait for
  bool is_over = false;  ///< they waited in vain, and failed
};

Waiters waiters_in(const Group& group, std::uint64_t number, Ranks waiting) {
  Waiters waiters{.group = &group, .number = number, .waiting = std::move(waiting), .missing = {}};
  for (const unsigned rank : group.members)
    if (!group.has_entered(rank, number)) waiters.missing.insert(rank);
  return waiters;
}

/// Adds the victims' last collectives that not all members have entered. A victim does not report in which
/// one it failed, but one that others have not entered cannot have ended.
void add_waits_of_victims(const Group& group, std::vector<Waiters>& waits) {
  std::map<std::uint64_t, Ranks> by_number;
  for (const auto& [rank, progress] : group.before) by_number[progress->entered].insert(rank);
  for (auto& [number, victims] : by_number) {
    Ranks behind;
    for (const unsigned rank : group.members)
      if (group.is_behind(rank, number)) behind.insert(rank);
    if (!behind.empty())
      waits.push_back({.group = &group,
                       .number = number,
                       .waiting = std::move(victims),
                       .missing = std::move(behind),
                       .is_over = true});
  }
}

/// For each group: its next collective, the earliest one before that in which a rank still waits, and those
/// in which victims waited.
std::vector<Waiters> waits_of(const std::map<std::string, Group>& groups) {
  std::vector<Waiters> waits;
  for (const Group& group : groups | std::views::values) {
    Ranks in_next, in_earlier;
    std::uint64_t first = group.next;
    for (const unsigned rank : group.progress | std::views::keys) {
      const auto number = group.waits_in(rank);
      if (!number) continue;
      (*number == group.next ? in_next : in_earlier).insert(rank);
      first = std::min(first, *number);
    }
    if (!in_next.empty()) waits.push_back(waiters_in(group, group.next, std::move(in_next)));
    if (!in_earlier.empty()) waits.push_back(waiters_in(group, first, std::move(in_earlier)));
  }
  for (const Group& group : groups | std::views::values) add_waits_of_victims(group, waits);
  return waits;
}

bool nobody_waits(const std::vector<Waiters>& waits) { return std::ranges::all_of(waits, &Waiters::is_over); }

/// All ranks that wait, or waited in vain.
Ranks waiting_in(const JobLooks& job, const std::vector<Waiters>& waits) {
  Ranks all = job.victims();
  for (const Waiters& wait : waits) all.insert(wait.waiting.begin(), wait.waiting.end());
  return all;
}

/// The ranks for which others wait.
Ranks waited_for(const std::vector<Waiters>& waits) {
  Ranks all;
  for (const Waiters& wait : waits) all.insert(wait.missing.begin(), wait.missing.end());
  return all;
}

/// Those of waited_for() that wait for nobody themselves. They may be in a collective that all have entered.
Ranks last_of_all(const std::vector<Waiters>& waits) {
  Ranks wait_themselves;
  for (const Waiters& wait : waits)
    if (!wait.missing.empty()) wait_themselves.insert(wait.waiting.begin(), wait.waiting.end());
  return without(waited_for(waits), wait_themselves);
}

std::string operation_of(const Waiters& wait) {
  for (const auto* members : {&wait.group->progress, &wait.group->before})
    for (const GroupProgress* progress : *members | std::views::values)
      if (progress->entered == wait.number && !progress->operation.empty()) return progress->operation;
  return "";
}

void set_collective(Hang& hang, const Waiters& wait) {
  hang.group = wait.group->description;
  hang.number = wait.number;
  hang.operation = operation_of(wait);
}

/// The operation that a rank has entered, according to its recorder or else its stack.
std::string operation_of(const Waiters& wait, unsigned rank, const Place& place) {
  const std::string& told = wait.group->progress.at(rank)->operation;
  return wait.group->is_in(rank, wait.number) && !told.empty() ? told : place.call;
}

/// Groups the ranks that wait in a collective which all have entered, and the victims, by the operation and
/// the line that calls it. If the program is already past that call, only by the operation that the recorder
/// reports.
std::map<std::pair<std::string, std::string>, Ranks> by_operation(const JobLooks& job, const Waiters& wait) {
  const Group& group = *wait.group;
  const auto in_it = [&](unsigned rank) { return group.is_in(rank, wait.number); };
  const auto in_torch = [&](unsigned rank) { return is_in_distributed(*job.looks.at(rank)); };
  const bool are_in_it = std::ranges::all_of(wait.waiting, in_it);
  const bool have_lines = are_in_it && std::ranges::all_of(wait.waiting, in_torch);
  Ranks victims;
  for (const unsigned rank : group.victims)
    if (are_in_it && !job.place({rank}).call.empty()) victims.insert(rank);
  std::map<std::pair<std::string, std::string>, Ranks> ranks;
  for (const unsigned rank : wait.waiting) {
    const Place place = job.place({rank});
    const bool by_stack = !victims.empty() && !place.call.empty();
    ranks[{by_stack ? place.call : operation_of(wait, rank, place),
           have_lines || by_stack ? line_of(place) : ""}]
        .insert(rank);
  }
  for (const unsigned rank : victims) {
    const Place place = job.place({rank});
    ranks[{place.call, line_of(place)}].insert(rank);
  }
  return ranks;
}

// ---- the rows ----

using HangRow = std::optional<Culprit> (*)(const JobLooks&, const std::vector<Waiters>&);

std::optional<Culprit> stopped(const JobLooks& job, const std::vector<Waiters>& waits) {
  Ranks ranks;
  for (const auto& [rank, look] : job.looks)
    if (is_stopped(look->state) || look->state == 'D') ranks.insert(rank);
  if (ranks.empty()) return std::nullopt;
  const Ranks waiting = waiting_in(job, waits);
  Culprit culprit =
      hang_of(HangKind::stopped, job, ranks, without(waiting.empty() ? job.running() : waiting, ranks));
  for (const Waiters& wait : waits)
    if (culprit.hang->number == 0 && !wait.missing.empty()) set_collective(*culprit.hang, wait);
  return culprit;
}

std::optional<Culprit> missing(const JobLooks& job, const std::vector<Waiters>& waits) {
  const bool is_missing =
      std::ranges::any_of(waits, [](const Waiters& wait) { return !wait.missing.empty(); });
  if (!is_missing) return std::nullopt;
  const Ranks waiting = waiting_in(job, waits), last = last_of_all(waits);
  if (last.empty()) return hang_of(HangKind::order, job, {}, waited_for(waits));
  Ranks to_blame = without(last, waiting);
  if (to_blame.empty()) return std::nullopt;  // others wait for them, and they wait for a GPU or the network
  Ranks over;
  std::ranges::set_intersection(to_blame, job.ended, std::inserter(over, over.end()));
  const bool have_ended = !over.empty();  // these will never come
  if (have_ended) to_blame = std::move(over);
  Culprit culprit = hang_of(have_ended ? HangKind::ended : HangKind::missing, job, to_blame, waiting);
  const auto is_to_blame = [&](unsigned rank) { return to_blame.contains(rank); };
  const auto wait = std::ranges::find_if(
      waits, [&](const Waiters& one) { return std::ranges::any_of(one.missing, is_to_blame); });
  set_collective(*culprit.hang, *wait);
  culprit.hang->waits_at = job.place(wait->waiting);
  return culprit;
}

/// Moves on to the last collective that the waiting ranks have entered, if it is the same for all. A program
/// may enter further ones, with NCCL or in a second thread, and those may be the ones that differ.
Waiters at_last_entered(Waiters wait) {
  const auto entered = [&](unsigned rank) { return wait.group->progress.at(rank)->entered; };
  const std::uint64_t last = entered(*wait.waiting.begin());
  if (std::ranges::all_of(wait.waiting, [&](unsigned rank) { return entered(rank) == last; }))
    wait.number = last;
  return wait;
}

/// Whether no rank can end the operation before all have entered it. Others have a source or a destination.
bool is_of_all(std::string_view operation) {
  return operation.starts_with("all") || operation.starts_with("reduce_scatter") || operation == "barrier";
}

/// The idle members that have gone on, if a member has ended a collective in which others still wait.
Ranks gone_on(const JobLooks& job, const Waiters& wait) {
  Ranks further;
  bool has_ended = false;
  for (const auto& [rank, progress] : wait.group->progress) {
    if (wait.waiting.contains(rank) || job.looks.at(rank)->works != false) continue;
    has_ended = has_ended || progress->ended >= wait.number;
    if (progress->entered > wait.number || progress->ended >= wait.number) further.insert(rank);
  }
  return has_ended ? further : Ranks();
}

/// A collective that no rank can end before all have entered it, but that some have ended while others wait
/// in it: theirs was another one.
std::optional<Culprit> ended_for_some(const JobLooks& job, const Waiters& wait) {
  const Ranks further = gone_on(job, wait);
  const std::string operation = operation_of(wait);
  if (further.empty() || !is_of_all(operation)) return std::nullopt;
  const bool wait_most = wait.waiting.size() > further.size();
  const Ranks& most = wait_most ? wait.waiting : further;
  const Ranks& others = wait_most ? further : wait.waiting;
  Ranks all = most;
  all.insert(others.begin(), others.end());
  const bool is_minority = others.size() < most.size();
  Culprit culprit = is_minority ? hang_of(HangKind::mismatch, job, others, most)
                                : hang_of(HangKind::mismatch, job, {}, all);
  Hang& hang = *culprit.hang;
  hang.group = wait.group->description;
  hang.number = wait.number;
  hang.waits_at = job.place(most);
  hang.place = job.place(others);
  hang.operation = wait_most ? operation : hang.waits_at.call;
  hang.other_operation = wait_most ? hang.place.call : operation;
  return culprit;
}

/// Finds a collective that all members have entered; of several, the one whose members others wait for.
std::optional<Culprit> all_inside(const JobLooks& job, const std::vector<Waiters>& waits) {
  const Ranks last = last_of_all(waits);
  const auto is_last = [&](unsigned rank) { return last.contains(rank); };
  const Waiters* found = nullptr;
  for (const Waiters& wait : waits)
    if (wait.missing.empty() && (found == nullptr || std::ranges::any_of(wait.waiting, is_last)))
      found = &wait;
  if (found == nullptr) return std::nullopt;
  const Waiters& wait = *found;
  const Group& group = *wait.group;
  Ranks inside = wait.waiting;
  inside.insert(group.victims.begin(), group.victims.end());
  const auto of_all = [&](HangKind kind) {
    Culprit culprit = hang_of(kind, job, {}, inside);
    set_collective(*culprit.hang, wait);
    return culprit;
  };
  if (group.size > group.members.size()) return of_all(HangKind::elsewhere);
  const Waiters last_entered = at_last_entered(wait);
  const auto operations = by_operation(job, last_entered);
  if (operations.size() == 1) {
    auto differs = ended_for_some(job, wait);
    return differs ? differs : of_all(HangKind::nobody_missing);
  }
  const auto size = [](const auto& entry) { return entry.second.size(); };
  const auto largest = std::ranges::max_element(operations, {}, size);
  const auto other = std::ranges::find_if(operations, [&](const auto& entry) { return entry != *largest; });
  const bool is_minority = std::ranges::count(operations, largest->second.size(), size) == 1;
  Ranks known;
  for (const Ranks& ranks : operations | std::views::values) known.insert(ranks.begin(), ranks.end());
  Culprit culprit = is_minority
                        ? hang_of(HangKind::mismatch, job, without(known, largest->second), largest->second)
                        : hang_of(HangKind::mismatch, job, {}, known);
  Hang& hang = *culprit.hang;
  set_collective(hang, last_entered);
  hang.operation = largest->first.first;
  hang.other_operation = other->first.first;
  hang.further = operations.size() - 2;
  const bool is_further = last_entered.number != wait.number;  // than where the main thread is
  hang.waits_at = is_further ? Place() : job.place(largest->second);
  hang.place = is_further ? Place() : job.place(other->second);
  return culprit;
}

bool are_in_distributed(const JobLooks& job) {
  const auto looks = job.looks | std::views::values;
  return std::ranges::all_of(looks, [](const WorkerLook* look) { return is_in_distributed(*look); });
}

/// Whether all that run are in torch.distributed, and nobody waits in a collective.
bool are_between_collectives(const JobLooks& job, const std::vector<Waiters>& waits) {
  return nobody_waits(waits) && !job.looks.empty() && are_in_distributed(job);
}

/// The running ranks, by whether they are in torch.distributed.
struct Split {
  Ranks inside, elsewhere;
};
Split split(const JobLooks& job) {
  Split ranks;
  for (const auto& [rank, look] : job.looks)
    (is_in_distributed(*look) ? ranks.inside : ranks.elsewhere).insert(rank);
  return ranks;
}

/// Nobody waits in a collective any more, but some ranks failed while they did.
std::optional<Culprit> left_running(const JobLooks& job, const std::vector<Waiters>& waits) {
  auto [waiting, elsewhere] = split(job);
  waiting.merge(job.victims());
  if (!nobody_waits(waits) || elsewhere.empty() || elsewhere.size() > job.waited_at.size())
    return std::nullopt;
  return hang_of(HangKind::missing, job, elsewhere, waiting);
}

/// Whether the worker is in a function in which torch waits for its store
/// (torch/distributed/distributed_c10d.py, rendezvous.py).
bool waits_for_store(const WorkerLook& look) {
  constexpr auto functions = std::to_array<std::string_view>(
      {"new_group", "init_process_group", "_new_process_group_helper", "_store_based_barrier", "rendezvous",
       "_create_c10d_store", "barrier_store", "_env_rendezvous_handler", "split_group", "new_subgroups"});
  return std::ranges::any_of(look.stack, [&](const Frame& frame) {
    return is_of_library(frame) && contains(functions, frame.function);
  });
}

/// Some ranks wait in torch.distributed for something that has or reports no number, and others are
/// elsewhere.
std::optional<Culprit> not_there(const JobLooks& job, const std::vector<Waiters>& waits) {
  const auto [inside, elsewhere] = split(job);
  if (!nobody_waits(waits) || inside.empty() || elsewhere.empty()) return std::nullopt;
  return hang_of(HangKind::missing, job, elsewhere, inside);
}

/// Whether all members of all groups are known.
bool all_are_seen(const JobLooks& job) {
  Ranks known = job.running();
  known.merge(job.victims());
  known.insert(job.ended.begin(), job.ended.end());
  const auto is_seen = [&](const RankRange& range) {
    Ranks seen;
    add_in({range}, known, seen);
    return seen.size() == range.size();
  };
  return std::ranges::all_of(job.looks | std::views::values, [&](const WorkerLook* look) {
    return std::ranges::all_of(look->groups, [&](const GroupProgress& group) {
      return std::ranges::all_of(group.members, is_seen);
    });
  });
}

/// All are in torch.distributed, in no collective, and they are only one node's.
std::optional<Culprit> out_of_sight(const JobLooks& job, const std::vector<Waiters>& waits) {
  if (!are_between_collectives(job, waits) || all_are_seen(job)) return std::nullopt;
  return hang_of(HangKind::elsewhere, job, {}, job.running());
}

/// All that run are in torch.distributed, in no collective, and others exited 0: they will not come.
std::optional<Culprit> left_behind(const JobLooks& job, const std::vector<Waiters>& waits) {
  if (!are_between_collectives(job, waits) || job.ended.empty()) return std::nullopt;
  return hang_of(HangKind::ended, job, job.ended, job.running());
}

/// All ranks are in torch.distributed but in no collective, and some send or receive: each waits for another.
std::optional<Culprit> sending(const JobLooks& job, const std::vector<Waiters>& waits) {
  const auto sends = [](const WorkerLook* look) { return is_point_to_point(place_of(*look).call); };
  const auto sender = std::ranges::find_if(job.looks | std::views::values, sends).base();
  if (!are_between_collectives(job, waits) || sender == job.looks.end()) return std::nullopt;
  Ranks all = job.running();
  all.merge(job.victims());
  Culprit culprit = hang_of(HangKind::order, job, {}, all);
  culprit.hang->waits_at = place_of(*sender->second);
  culprit.hang->operation = culprit.hang->waits_at.call;
  return culprit;
}

std::optional<Culprit> store(const JobLooks& job, const std::vector<Waiters>& waits) {
  const bool all_wait = std::ranges::all_of(job.looks | std::views::values,
                                            [](const WorkerLook* look) { return waits_for_store(*look); });
  if (!nobody_waits(waits) || job.looks.size() < 2 || !all_wait) return std::nullopt;
  return hang_of(HangKind::store, job, {}, job.running());
}

/// Decides by the stacks, if there are no numbers, or nobody does anything and nobody is in a collective.
std::optional<Culprit> by_stacks(const JobLooks& job, const std::vector<Waiters>& waits) {
  std::map<std::pair<std::string, std::string>, Ranks> by_place;
  for (const auto& [rank, look] : job.looks) {
    const Place place = place_of(*look);
    const bool is_open = look->groups.empty() || look->works == false;
    if (!is_open || place.line.file.empty()) return std::nullopt;
    by_place[{line_of(place), place.call}].insert(rank);
  }
  if (!nobody_waits(waits) || by_place.empty()) return std::nullopt;
  const bool are_inside = are_in_distributed(job);
  const bool are_idle = std::ranges::all_of(job.looks | std::views::values,
                                            [](const WorkerLook* look) { return look->works == false; });
  if (by_place.size() == 1 && !are_inside && !are_idle) return std::nullopt;
  if (by_place.size() == 1)
    return hang_of(are_inside ? HangKind::nobody_missing : HangKind::undecided, job, {}, job.running());
  const Ranks& alike =
      std::ranges::max_element(by_place, {}, [](const auto& entry) { return entry.second.size(); })->second;
  const Ranks others = without(job.running(), alike);
  if (4 * others.size() <= job.looks.size()) return hang_of(HangKind::outlier, job, others, alike);
  Culprit culprit = hang_of(HangKind::undecided, job, {}, job.running());
  culprit.hang->waits_at = {};  // they are in different places
  return culprit;
}

}  // namespace

Place place_of(const WorkerLook& look) {
  Place place{.line = {},
              .call = {},
              .state = look.state,
              .kernel = look.kernel,
              .holds_gil = look.holds_gil,
              .works = look.works,
              .polls = look.polls,
              .below = look.below};
  const auto line = users_frame(look.stack);
  if (line == look.stack.end()) {
    if (!look.stack.empty()) place.line = look.stack.front();
    return place;
  }
  place.line = *line;
  for (auto frame = look.stack.begin(); frame != line; ++frame)
    if (!is_wrapper(*frame)) place.call = frame->function;
  return place;
}

void shorten(std::vector<Frame>& stack, std::size_t most) {
  if (stack.size() <= most) return;
  const auto kept = static_cast<std::ptrdiff_t>(most / 2);              // of the innermost calls
  const std::ptrdiff_t before = static_cast<std::ptrdiff_t>(most / 4);  // of the calls before the user's code
  const auto users = users_frame(stack);
  if (users != stack.end() && users - stack.begin() > kept + before)
    stack.erase(stack.begin() + kept, users - before);
  stack.resize(std::min(stack.size(), most));
}

std::vector<Frame> frames_of_traceback(std::string_view traceback) {
  std::vector<Frame> frames;
  while (!traceback.empty()) {
    std::string_view line = trimmed(next_line(traceback));
    if (line.starts_with("Traceback (most recent call last)")) frames.clear();
    if (!split_next(line, "File \"").empty() || line.empty()) continue;
    Frame& frame = frames.emplace_back();
    frame.file = split_next(line, "\", line ");
    frame.line = take_number<unsigned>(line).value_or(0);
    frame.function = text_after(line, ", in ");
  }
  std::ranges::reverse(frames);
  return frames;
}

bool is_point_to_point(std::string_view call) {
  constexpr auto calls = std::to_array<std::string_view>(
      {"send", "recv", "isend", "irecv", "send_object_list", "recv_object_list", "batch_isend_irecv"});
  return contains(calls, call);
}

std::optional<Culprit> find_hang(const Looks& looks, const std::vector<unsigned>& ended,
                                 const std::map<unsigned, Place>& victims) {
  JobLooks job{.looks = {}, .ended = {ended.begin(), ended.end()}, .waited_at = victims, .before = {}};
  for (const WorkerLook& look : looks)
    if (!job.ended.contains(look.rank))
      (victims.contains(look.rank) ? job.before : job.looks).try_emplace(look.rank, &look);
  const auto groups = groups_of(job);
  const std::vector<Waiters> waits = waits_of(groups);
  for (const HangRow row : {stopped, missing, all_inside, left_running, not_there, out_of_sight, sending,
                            left_behind, store, by_stacks})
    if (auto culprit = row(job, waits)) return culprit;
  return std::nullopt;
}

bool is_behind(const WorkerLook& look, const WorkerLook& other) {
  return std::ranges::any_of(other.groups, [&](const GroupProgress& its) {
    const auto own = std::ranges::find(look.groups, its.name, &GroupProgress::name);
    return own != look.groups.end() && own->entered < its.entered;
  });
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
  groups.reserve(sorted.size());
  for (const Alike* alike : sorted)
    groups.push_back({.ranks = to_ranges(alike->ranks), .look = *alike->first});
  return groups;
}

std::vector<Wait> find_waits(const Looks& looks, const std::vector<unsigned>& ended) {
  JobLooks job{.looks = {}, .ended = {ended.begin(), ended.end()}, .waited_at = {}, .before = {}};
  for (const WorkerLook& look : looks) job.looks.try_emplace(look.rank, &look);
  const auto groups = groups_of(job);
  std::vector<Wait> waits;
  for (const Waiters& wait : waits_of(groups))
    waits.push_back({.ranks = ranges_of(wait.waiting),
                     .for_ranks = ranges_of(wait.missing),
                     .group = wait.group->description,
                     .number = wait.number,
                     .operation = operation_of(wait)});
  return waits;
}

std::string in_words(const Wait& wait) {
  return fmt::format("{} {}{}{}, number {} of {}", in_words(wait.ranks),
                     is_one(wait.ranks) ? "waits" : "wait",
                     wait.for_ranks.empty() ? "" : " for " + in_words(wait.for_ranks),
                     wait.operation.empty() ? "" : " in " + wait.operation, wait.number, wait.group);
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
