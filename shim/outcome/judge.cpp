#include "outcome/judge.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <map>
#include <ranges>
#include <set>
#include <utility>

#include "base/fault.h"
#include "base/text.h"
#include "outcome/hang.h"

namespace rankshim::outcome {
namespace {

using std::chrono::duration_cast;
using std::chrono::milliseconds;

/// The nodes that reported a failure, earliest first.
std::vector<const NodeEvidence*> failed_nodes(const Evidence& evidence) {
  std::vector<const NodeEvidence*> failed;
  for (const NodeEvidence& node : evidence.nodes)
    if (node.failure) failed.push_back(&node);
  std::ranges::sort(failed, {}, [](const NodeEvidence* node) { return std::pair(node->failed, node); });
  return failed;
}

unsigned rank_of(const Evidence& evidence, const NodeEvidence& node) {
  return static_cast<unsigned>(&node - evidence.nodes.data());
}

/// The node with this address, if there is exactly one.
std::optional<unsigned> node_at(const std::vector<NodeEvidence>& nodes, const std::string& address) {
  if (address.empty()) return std::nullopt;
  const auto found = std::ranges::find(nodes, address, &NodeEvidence::address);
  if (found == nodes.end() || std::ranges::count(nodes, address, &NodeEvidence::address) != 1)
    return std::nullopt;
  return static_cast<unsigned>(found - nodes.begin());
}

/// Whether a launcher killed the worker because another one on its node had failed: until then it ran, and
/// had raised nothing.
bool killed_by_launcher(const NodeEvidence& node, const WorkerEvidence& worker) {
  return node.failure && !worker.waited && node.failure->rank != worker.rank && worker.ended >= node.failed &&
         (worker.code == exit_code::signal_base + SIGTERM || worker.code == exit_code::signal_base + SIGKILL);
}

bool runs(const NodeEvidence&, const WorkerEvidence& worker) { return !worker.code; }

/// The ranks of all workers, on all nodes, for which the condition holds.
template <class Condition>
std::vector<unsigned> ranks_with(const Evidence& evidence, Condition condition) {
  std::vector<unsigned> ranks;
  for (const NodeEvidence& node : evidence.nodes)
    for (const WorkerEvidence& worker : node.workers)
      if (condition(node, worker)) ranks.push_back(worker.rank);
  return ranks;
}

/// The ranks that failed because of a peer, in order. A node's first failure is known even if the node did
/// not report how its workers are.
std::vector<unsigned> victims_of(const Evidence& evidence) {
  std::set<unsigned> ranks;
  for (const NodeEvidence& node : evidence.nodes) {
    if (node.failure && node.failure->rank) ranks.insert(*node.failure->rank);
    for (const WorkerEvidence& worker : node.workers)
      if (worker.code.value_or(0) != 0 && !killed_by_launcher(node, worker)) ranks.insert(worker.rank);
  }
  return {ranks.begin(), ranks.end()};
}

/// Where a worker waited, according to its exception; null if unknown.
const Hang* wait_of(const NodeEvidence& node, const WorkerEvidence& worker) {
  if (worker.waited) return &*worker.waited;
  const bool is_first = node.failure && node.failure->rank == worker.rank && node.failure->hang;
  return is_first ? &*node.failure->hang : nullptr;
}

/// The node that has the worker with this rank.
const NodeEvidence& node_with(const Evidence& evidence, unsigned rank) {
  const auto has_it = [rank](const NodeEvidence& node) {
    return std::ranges::find(node.workers, rank, &WorkerEvidence::rank) != node.workers.end();
  };
  return *std::ranges::find_if(evidence.nodes, has_it);
}

const WorkerEvidence& worker_of(const Evidence& evidence, unsigned rank) {
  return *std::ranges::find(node_with(evidence, rank).workers, rank, &WorkerEvidence::rank);
}

/// A culprit for these ranks and this cause.
Culprit blame(const Evidence& evidence, Cause cause, const std::vector<unsigned>& ranks) {
  const unsigned first = std::ranges::min(ranks);
  const NodeEvidence& node = node_with(evidence, first);
  return {.rank = ranks.size() == 1 ? std::optional(first) : std::nullopt,
          .cause = cause,
          .node = rank_of(evidence, node),
          .host = node.host,
          .ranks = to_ranges(ranks),
          .victims = to_ranges(victims_of(evidence))};
}

/// Adds where the victims waited, and for how long, as far as their exceptions say.
void add_waits(const Evidence& evidence, Culprit& culprit) {
  for (const NodeEvidence* node : failed_nodes(evidence)) {
    const std::optional<Hang>& known = node->failure->hang;
    if (!known) continue;
    if (!culprit.hang) culprit.hang = Hang{.kind = HangKind::ended, .place = {}, .waits_at = {}};
    if (culprit.hang->waits_at.line.file.empty()) culprit.hang->waits_at = known->waits_at;
    if (!culprit.hang->timeout) culprit.hang->timeout = known->timeout;
    if (culprit.hang->number == 0 && culprit.hang->operation.empty()) {
      culprit.hang->number = known->number;
      culprit.hang->operation = known->operation;
    }
  }
}

/// Blames a node that is lost.
Culprit blame(const Evidence& evidence, const NodeEvidence& node, const Loss& loss) {
  return {.cause = Cause::node_lost, .node = rank_of(evidence, node), .host = node.host, .loss = loss};
}

/// Blames the hub, whose own process or network is the reason why nodes are out of its reach.
Culprit blame_hub(const Evidence& evidence, const Loss& loss) {
  return blame(evidence, evidence.nodes[evidence.hub], loss);
}

/// The ranks that lost a peer, for a lost node.
std::vector<RankRange> bereft(const Evidence& evidence) { return to_ranges(victims_of(evidence)); }

// ---- the rows ----

using Row = std::optional<Culprit> (*)(const Evidence&);

std::optional<Culprit> own_failure(const Evidence& evidence) {
  for (const NodeEvidence* node : failed_nodes(evidence))
    if (!is_inconclusive(*node->failure)) return node->failure;
  return std::nullopt;
}

/// Each rank compares its collective with the others' and names the first that differs from its own, so most
/// name the one that differs from most.
std::optional<Culprit> found_to_differ(const Evidence& evidence) {
  std::vector<const NodeEvidence*> failed = failed_nodes(evidence);
  std::erase_if(failed, [](const NodeEvidence* node) {
    return node->failure->cause != Cause::exception || node->failure->ranks.empty();
  });
  if (failed.empty()) return std::nullopt;
  const auto times_named = [&](const NodeEvidence* one) {
    return std::ranges::count_if(failed, [&](const NodeEvidence* other) {
      return one->failure->rank == other->failure->ranks.front().first;
    });
  };
  const NodeEvidence* most = *std::ranges::max_element(failed, {}, times_named);
  const bool is_only = std::ranges::count(failed, times_named(most), times_named) == 1;
  return (is_only ? most : failed.front())->failure;
}

bool is_lost(const NodeEvidence& node) { return node.lost.has_value(); }

/// Whether something has come through the network from the node's machine since the node was lost.
bool was_reached(const Loss& loss) {
  return loss.then == Loss::Then::not_listening || loss.then == Loss::Then::restarted;
}

std::optional<Culprit> outvoted(const Evidence& evidence) {
  if (!evidence.is_outvoted) return std::nullopt;
  return blame_hub(evidence, {.sign = Loss::Sign::outvoted});
}

std::optional<Culprit> asleep(const Evidence& evidence) {
  if (evidence.slept == milliseconds(0) || std::ranges::none_of(evidence.nodes, is_lost)) return std::nullopt;
  return blame_hub(evidence, {.sign = Loss::Sign::suspended, .time = evidence.slept});
}

std::optional<Culprit> cut_off(const Evidence& evidence) {
  unsigned others = 0;
  for (const NodeEvidence& node : evidence.nodes) {
    if (&node == &evidence.nodes[evidence.hub] || !node.took_part) continue;
    if (!is_lost(node) || was_reached(*node.lost)) return std::nullopt;
    ++others;
  }
  if (others < 2) return std::nullopt;
  return blame_hub(evidence, {.sign = Loss::Sign::cut_off, .others = others});
}

std::optional<Culprit> lost_node(const Evidence& evidence) {
  auto lost = evidence.nodes | std::views::filter(is_lost);
  if (lost.empty()) return std::nullopt;
  const NodeEvidence& first = *std::ranges::min_element(lost, {}, &NodeEvidence::lost_since);
  Culprit culprit = blame(evidence, first, *first.lost);
  culprit.victims = bereft(evidence);
  return culprit;
}

std::optional<Culprit> exited_early(const Evidence& evidence) {
  const auto failed = failed_nodes(evidence);
  if (failed.empty()) return std::nullopt;
  const Time first = failed.front()->failed;
  Time last_exit = evidence.launched;
  const auto ranks = ranks_with(evidence, [&](const NodeEvidence&, const WorkerEvidence& worker) {
    const bool early = worker.code == 0 && worker.ended < first;
    if (early) last_exit = std::max(last_exit, worker.ended);
    return early;
  });
  if (ranks.empty()) return std::nullopt;
  Culprit culprit = blame(evidence, Cause::exited_early, ranks);
  culprit.after =
      static_cast<std::uint32_t>(duration_cast<milliseconds>(last_exit - evidence.launched).count());
  add_waits(evidence, culprit);
  return culprit;
}

std::optional<Culprit> further_failure(const Evidence& evidence) {
  for (const NodeEvidence* node : failed_nodes(evidence))
    if (node->further) return node->further;
  return std::nullopt;
}

std::optional<Culprit> silent_node(const Evidence& evidence) {
  auto silent = evidence.nodes |
                std::views::filter([](const NodeEvidence& node) { return node.is_silent && !node.failure; });
  const auto count = static_cast<std::size_t>(std::ranges::distance(silent));
  if (count == 0 || count > failed_nodes(evidence).size()) return std::nullopt;
  Culprit culprit = blame(evidence, *silent.begin(), {.sign = Loss::Sign::unanswered});
  culprit.victims = bereft(evidence);
  return culprit;
}

bool has_timed_out(const NodeEvidence* node) { return node->failure->cause == Cause::timed_out; }

/// Whether the worker's numbers show that it waits in a collective.
bool is_inside(const WorkerLook& look) {
  return std::ranges::any_of(look.groups,
                             [](const GroupProgress& group) { return group.entered > group.ended; });
}

/// Who hangs, according to the looks at all running workers, and at those that their launchers have killed
/// meanwhile. nullopt if one that runs could not be looked at, or if the looks do not show who hangs.
std::optional<Culprit> seen_to_hang(const Evidence& evidence) {
  std::vector<WorkerLook> looks;
  std::map<unsigned, Place> victims;
  for (const unsigned rank : victims_of(evidence)) victims[rank];
  const bool all_have_ended = ranks_with(evidence, runs).empty();
  for (const NodeEvidence& node : evidence.nodes) {
    for (const WorkerEvidence& worker : node.workers) {
      const bool counts = runs(node, worker) || (all_have_ended && killed_by_launcher(node, worker));
      if (counts && !worker.look) return std::nullopt;
      const Hang* wait = wait_of(node, worker);
      if (wait != nullptr && victims.contains(worker.rank)) victims[worker.rank] = wait->waits_at;
      if (!worker.look || worker.code == 0) continue;
      looks.push_back(*worker.look);
      if (wait == nullptr && is_inside(*worker.look)) victims.erase(worker.rank);  // it was still inside
    }
  }
  const auto succeeded = ranks_with(
      evidence, [](const NodeEvidence&, const WorkerEvidence& worker) { return worker.code == 0; });
  auto found = find_hang(looks, succeeded, victims);
  if (!found || found->hang->kind == HangKind::undecided || found->hang->kind == HangKind::elsewhere)
    return std::nullopt;
  const NodeEvidence& node =
      found->ranks.empty() ? evidence.nodes[evidence.hub] : node_with(evidence, found->ranks.front().first);
  found->node = rank_of(evidence, node);
  found->host = node.host;
  if (!found->ranks.empty()) found->code = worker_of(evidence, found->ranks.front().first).code.value_or(0);
  add_waits(evidence, *found);
  return found;
}

/// How many workers were killed by SIGABRT: NCCL's watchdog aborts a worker that waited in vain, and one that
/// lost a peer.
std::size_t count_aborted(const Evidence& evidence) {
  return ranks_with(evidence,
                    [](const NodeEvidence&, const WorkerEvidence& worker) {
                      return worker.code == exit_code::signal_base + SIGABRT;
                    })
      .size();
}

/// Whether the aborted workers confirm the hang that was found. A single one may have aborted by a fault of
/// its own, while the ones that seem to hang wait for it.
bool is_shown_by(std::size_t aborted, const Culprit& found) {
  std::size_t to_blame = 0;
  for (const RankRange& range : found.ranks) to_blame += range.size();
  return to_blame != 0 && to_blame < aborted;
}

std::optional<Culprit> still_running(const Evidence& evidence) {
  const bool have_timed_out = std::ranges::any_of(failed_nodes(evidence), has_timed_out);
  const std::size_t aborted = count_aborted(evidence);
  if (!have_timed_out && aborted == 0) return std::nullopt;
  auto found = seen_to_hang(evidence);
  if (found && (have_timed_out || is_shown_by(aborted, *found))) return found;
  if (!have_timed_out) return std::nullopt;
  std::vector<unsigned> ranks = ranks_with(evidence, runs);
  const bool still = !ranks.empty();
  if (!still) {
    // A launcher may also have killed workers that were waiting, before they timed out.
    ranks = ranks_with(evidence, killed_by_launcher);
    if (ranks.size() != 1) return std::nullopt;
  }
  if (ranks.size() > victims_of(evidence).size()) return std::nullopt;
  Culprit culprit = blame(evidence, Cause::hang, ranks);
  if (!still) culprit.code = exit_code::signal_base + SIGTERM;
  return culprit;
}

/// Where the victims waited, by rank; nullopt unless all workers are victims and that is known of each. Those
/// that a launcher killed are left out.
std::optional<std::map<unsigned, const Hang*>> waits_by_rank(const Evidence& evidence) {
  std::map<unsigned, const Hang*> waits;
  for (const NodeEvidence& node : evidence.nodes) {
    if (!node.failure) return std::nullopt;
    for (const WorkerEvidence& worker : node.workers) {
      const Hang* wait = wait_of(node, worker);
      if (killed_by_launcher(node, worker)) continue;
      if (wait == nullptr || wait->waits_at.call.empty()) return std::nullopt;
      waits[worker.rank] = wait;
    }
  }
  return waits;
}

/// All nodes have failed, and the tracebacks end in different collectives.
std::optional<Culprit> in_different_collectives(const Evidence& evidence) {
  const auto waits = waits_by_rank(evidence);
  if (!waits || std::ranges::none_of(failed_nodes(evidence), has_timed_out)) return std::nullopt;
  std::map<std::string, std::vector<unsigned>> by_call;
  std::vector<unsigned> all, senders;
  for (const auto& [rank, wait] : *waits) {
    by_call[wait->waits_at.call].push_back(rank);
    all.push_back(rank);
    if (is_point_to_point(wait->waits_at.call)) senders.push_back(rank);
  }
  if (by_call.size() < 2 && senders.empty()) return std::nullopt;
  const auto size = [](const auto& entry) { return entry.second.size(); };
  const auto most = std::ranges::max_element(by_call, {}, size);
  const bool is_majority = std::ranges::count(by_call, most->second.size(), size) == 1;
  HangKind kind = HangKind::mismatch;
  std::vector<unsigned> ranks, others = all;  // who is to blame, and who waits
  if (!senders.empty()) {
    kind = senders.size() == all.size() ? HangKind::order : HangKind::missing;
    if (kind == HangKind::missing) ranks = senders;
  } else if (is_majority) {
    std::ranges::set_difference(all, most->second, std::back_inserter(ranks));
  }
  if (!ranks.empty()) std::erase_if(others, [&](unsigned rank) { return contains(ranks, rank); });
  const Hang& hang =
      *waits->at(contains(others, most->second.front()) ? most->second.front() : others.front());
  const auto differs = [&](unsigned rank) { return waits->at(rank)->waits_at.call != hang.waits_at.call; };
  const std::vector<unsigned>& candidates = ranks.empty() ? all : ranks;
  const auto other = std::ranges::find_if(candidates, differs);
  const Place& place = other == candidates.end() ? hang.waits_at : waits->at(*other)->waits_at;
  const NodeEvidence& node = node_with(evidence, ranks.empty() ? all.front() : ranks.front());
  return Culprit{
      .rank = ranks.size() == 1 ? std::optional(ranks.front()) : std::nullopt,
      .cause = Cause::hang,
      .code = ranks.empty() ? node.failure->code : worker_of(evidence, ranks.front()).code.value_or(0),
      .node = rank_of(evidence, node),
      .host = node.host,
      .ranks = to_ranges(ranks),
      .victims = to_ranges(others),
      .hang = Hang{.kind = kind,
                   .place = place,
                   .waits_at = hang.waits_at,
                   .operation = hang.waits_at.call,
                   .other_operation = place.call,
                   .further = kind == HangKind::mismatch ? by_call.size() - 2 : 0,
                   .timeout = hang.timeout}};
}

std::optional<Culprit> first_victim(const Evidence& evidence) {
  const auto failed = failed_nodes(evidence);
  if (failed.empty()) return std::nullopt;
  // A victim that lost a peer on its own node is the best witness.
  const auto own = std::ranges::find_if(failed, [&](const NodeEvidence* node) {
    return node_at(evidence.nodes, node->failure->peer) == rank_of(evidence, *node);
  });
  return (own == failed.end() ? failed.front() : *own)->failure;
}

constexpr std::array<Row, 12> rows = {own_failure,
                                      found_to_differ,
                                      outvoted,
                                      asleep,
                                      cut_off,
                                      lost_node,
                                      exited_early,
                                      further_failure,
                                      silent_node,
                                      still_running,
                                      in_different_collectives,
                                      first_victim};

// ---- the rows for a node that has lost the hub ----

using HubRow = std::optional<Culprit> (*)(const HubLoss&);

std::optional<Culprit> own_failure_before(const HubLoss& evidence) {
  const bool counts = evidence.failure && !is_inconclusive(*evidence.failure);
  return counts ? evidence.failure : std::nullopt;
}

std::optional<Culprit> asleep_here(const HubLoss& evidence) {
  if (evidence.slept == milliseconds(0)) return std::nullopt;
  return Culprit{
      .cause = Cause::node_lost,
      .node = evidence.node,
      .host = evidence.host,
      .loss = Loss{.sign = Loss::Sign::suspended, .then = evidence.loss.then, .time = evidence.slept}};
}

std::optional<Culprit> lost_hub(const HubLoss& evidence) {
  return Culprit{
      .cause = Cause::node_lost, .node = evidence.hub, .host = evidence.hub_host, .loss = evidence.loss};
}

constexpr std::array<HubRow, 3> hub_rows = {own_failure_before, asleep_here, lost_hub};

/// What the first row finds that finds somebody.
std::optional<Culprit> first_found(const auto& table, const auto& evidence) {
  for (const auto row : table)
    if (auto culprit = row(evidence)) return culprit;
  return std::nullopt;
}

}  // namespace

bool ended_by_itself(const Culprit& culprit) {
  constexpr std::array stops = {SIGTERM, SIGKILL, SIGINT, SIGHUP, SIGQUIT};
  const bool has_crashed = culprit.cause == Cause::signalled && !contains(stops, culprit.signal.value_or(0));
  return has_crashed || culprit.cause == Cause::exception || culprit.cause == Cause::out_of_memory;
}

std::optional<Culprit> judge(const Evidence& evidence) { return first_found(rows, evidence); }

Culprit judge_hub_loss(const HubLoss& evidence) { return *first_found(hub_rows, evidence); }

}  // namespace rankshim::outcome
