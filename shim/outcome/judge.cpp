#include "outcome/judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <map>
#include <ranges>
#include <set>
#include <utility>

#include "base/duration.h"
#include "base/fault.h"
#include "outcome/hang.h"

namespace rankshim::outcome {
namespace {

using std::chrono::duration_cast;
using std::chrono::milliseconds;

/// The nodes that reported a failure, the first first.
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

/// Whether a launcher killed it because another worker of its node had failed: until then it ran.
bool killed_by_launcher(const NodeEvidence& node, const WorkerEvidence& worker) {
  return node.failure && node.failure->rank != worker.rank && worker.ended >= node.failed &&
         (worker.code == exit_code::signal_base + SIGTERM || worker.code == exit_code::signal_base + SIGKILL);
}

bool runs(const NodeEvidence&, const WorkerEvidence& worker) { return !worker.code; }

/// The ranks of workers for which it holds, on all nodes.
template <class Condition>
std::vector<unsigned> ranks_with(const Evidence& evidence, Condition condition) {
  std::vector<unsigned> ranks;
  for (const NodeEvidence& node : evidence.nodes)
    for (const WorkerEvidence& worker : node.workers)
      if (condition(node, worker)) ranks.push_back(worker.rank);
  return ranks;
}

/// The ranks that failed because of a peer, in their order. A node's first failure is known even where the
/// node did not say how its workers are.
std::vector<unsigned> victims_of(const Evidence& evidence) {
  std::set<unsigned> ranks;
  for (const NodeEvidence& node : evidence.nodes) {
    if (node.failure && node.failure->rank) ranks.insert(*node.failure->rank);
    for (const WorkerEvidence& worker : node.workers)
      if (worker.code.value_or(0) != 0 && !killed_by_launcher(node, worker)) ranks.insert(worker.rank);
  }
  return {ranks.begin(), ranks.end()};
}

/// ", and ranks 0 and 2 lost their peer"; empty if nobody did.
std::string lost_by(const Evidence& evidence) {
  const auto victims = victims_of(evidence);
  if (victims.empty()) return "";
  return fmt::format(", and {} lost {} peer", in_words(to_ranges(victims)),
                     victims.size() == 1 ? "its" : "their");
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

/// The workers to blame, with what they did.
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

/// Adds where the victims waited, and for how long, as far as their exceptions say it.
void add_waits(const Evidence& evidence, Culprit& culprit) {
  for (const NodeEvidence* node : failed_nodes(evidence)) {
    const std::optional<Hang>& known = node->failure->hang;
    if (!known) continue;
    if (!culprit.hang) culprit.hang = Hang{.kind = HangKind::ended, .place = {}, .waits_at = {}};
    if (culprit.hang->waits_at.line.file.empty()) culprit.hang->waits_at = known->waits_at;
    if (!culprit.hang->timeout) culprit.hang->timeout = known->timeout;
  }
}

// ---- the rows ----

using Row = std::optional<Culprit> (*)(const Evidence&);

std::optional<Culprit> own_failure(const Evidence& evidence) {
  for (const NodeEvidence* node : failed_nodes(evidence))
    if (!is_victim(node->failure->cause)) return node->failure;
  return std::nullopt;
}

bool is_lost(const NodeEvidence& node) { return !node.lost.empty(); }

std::optional<Culprit> asleep(const Evidence& evidence) {
  if (evidence.slept == milliseconds(0) || std::ranges::none_of(evidence.nodes, is_lost)) return std::nullopt;
  return Culprit{.cause = Cause::node_lost,
                 .text = fmt::format("its rankshim did not run for {}", hours_and_minutes(evidence.slept)),
                 .node = 0,
                 .host = evidence.nodes.front().host};
}

std::optional<Culprit> cut_off(const Evidence& evidence) {
  const auto others = evidence.nodes | std::views::drop(1);
  if (evidence.nodes.size() < 3 || !std::ranges::all_of(others, is_lost)) return std::nullopt;
  return Culprit{
      .cause = Cause::node_lost,
      .text = fmt::format("the connections to all {} other nodes ended: look at this node's own network",
                          evidence.nodes.size() - 1),
      .node = 0,
      .host = evidence.nodes.front().host};
}

std::optional<Culprit> lost_node(const Evidence& evidence) {
  auto lost = evidence.nodes | std::views::filter(is_lost);
  if (lost.empty()) return std::nullopt;
  const NodeEvidence& first = *std::ranges::min_element(lost, {}, &NodeEvidence::lost_since);
  return Culprit{.cause = Cause::node_lost,
                 .text = first.lost + lost_by(evidence),
                 .node = rank_of(evidence, first),
                 .host = first.host};
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

std::optional<Culprit> silent_node(const Evidence& evidence) {
  auto silent = evidence.nodes |
                std::views::filter([](const NodeEvidence& node) { return node.is_silent && !node.failure; });
  const auto count = static_cast<std::size_t>(std::ranges::distance(silent));
  if (count == 0 || count > failed_nodes(evidence).size()) return std::nullopt;
  const NodeEvidence& first = *silent.begin();
  return Culprit{.cause = Cause::node_lost,
                 .text = "its rankshim does not answer" + lost_by(evidence),
                 .node = rank_of(evidence, first),
                 .host = first.host};
}

bool has_timed_out(const NodeEvidence* node) { return node->failure->cause == Cause::timed_out; }

/// Who hangs by the looks at all that run, and at those that their launchers killed meanwhile. nullopt if
/// one that runs could not be looked at, or if the looks do not show it.
std::optional<Culprit> seen_to_hang(const Evidence& evidence) {
  std::vector<WorkerLook> looks;
  const bool all_have_ended = ranks_with(evidence, runs).empty();
  for (const NodeEvidence& node : evidence.nodes) {
    for (const WorkerEvidence& worker : node.workers) {
      const bool counts = runs(node, worker) || (all_have_ended && killed_by_launcher(node, worker));
      if (counts && !worker.look) return std::nullopt;
      if (worker.look && (runs(node, worker) || killed_by_launcher(node, worker)))
        looks.push_back(*worker.look);
    }
  }
  const auto succeeded = ranks_with(
      evidence, [](const NodeEvidence&, const WorkerEvidence& worker) { return worker.code == 0; });
  auto found = find_hang(looks, succeeded, victims_of(evidence));
  if (!found || found->hang->kind == HangKind::undecided || found->hang->kind == HangKind::elsewhere)
    return std::nullopt;
  const NodeEvidence& node =
      found->ranks.empty() ? evidence.nodes.front() : node_with(evidence, found->ranks.front().first);
  found->node = rank_of(evidence, node);
  found->host = node.host;
  if (!found->ranks.empty()) found->code = worker_of(evidence, found->ranks.front().first).code.value_or(0);
  add_waits(evidence, *found);
  return found;
}

std::optional<Culprit> still_running(const Evidence& evidence) {
  if (std::ranges::none_of(failed_nodes(evidence), has_timed_out)) return std::nullopt;
  if (auto found = seen_to_hang(evidence)) return found;
  std::vector<unsigned> ranks = ranks_with(evidence, runs);
  const bool still = !ranks.empty();
  if (!still) {
    // A launcher may have killed others that waited, too, before they timed out.
    ranks = ranks_with(evidence, killed_by_launcher);
    if (ranks.size() != 1) return std::nullopt;
  }
  if (ranks.size() > victims_of(evidence).size()) return std::nullopt;
  Culprit culprit = blame(evidence, Cause::hang, ranks);
  if (!still) culprit.code = exit_code::signal_base + SIGTERM;
  return culprit;
}

/// All nodes have failed, and the tracebacks of their first failures end in different collectives.
std::optional<Culprit> in_different_collectives(const Evidence& evidence) {
  const auto failed = failed_nodes(evidence);
  if (std::ranges::none_of(failed, has_timed_out) || !ranks_with(evidence, runs).empty()) return std::nullopt;
  std::map<std::string, std::vector<const NodeEvidence*>> by_call;
  for (const NodeEvidence& node : evidence.nodes) {
    if (!node.failure || !node.failure->hang || !node.failure->rank) return std::nullopt;
    const std::string& call = node.failure->hang->waits_at.call;
    if (call.empty()) return std::nullopt;
    by_call[call].push_back(&node);
  }
  if (by_call.size() != 2) return std::nullopt;
  const auto less = [](const auto& one, const auto& other) {
    return one.second.size() < other.second.size();
  };
  const auto& [first, second] = std::pair(*by_call.begin(), *by_call.rbegin());
  const auto& [call, few] = less(second, first) ? second : first;
  const auto& [most_call, most] = less(second, first) ? first : second;
  std::vector<unsigned> ranks, others;
  for (const NodeEvidence* node : few) ranks.push_back(*node->failure->rank);
  for (const NodeEvidence* node : most) others.push_back(*node->failure->rank);
  const bool is_minority = few.size() < most.size();
  if (!is_minority) others.insert(others.end(), ranks.begin(), ranks.end());
  const NodeEvidence& node = is_minority ? *few.front() : evidence.nodes.front();
  return Culprit{.rank = is_minority && ranks.size() == 1 ? std::optional(ranks.front()) : std::nullopt,
                 .cause = Cause::hang,
                 .code = node.failure->code,
                 .node = rank_of(evidence, node),
                 .host = node.host,
                 .ranks = is_minority ? to_ranges(ranks) : std::vector<RankRange>(),
                 .victims = to_ranges(others),
                 .hang = Hang{.kind = HangKind::mismatch,
                              .place = few.front()->failure->hang->waits_at,
                              .waits_at = most.front()->failure->hang->waits_at,
                              .operation = most_call,
                              .other_operation = call,
                              .timeout = most.front()->failure->hang->timeout}};
}

std::optional<Culprit> first_victim(const Evidence& evidence) {
  const auto failed = failed_nodes(evidence);
  if (failed.empty()) return std::nullopt;
  // One that lost a peer on its own node knows best.
  const auto own = std::ranges::find_if(failed, [&](const NodeEvidence* node) {
    return node_at(evidence.nodes, node->failure->peer) == rank_of(evidence, *node);
  });
  return (own == failed.end() ? failed.front() : *own)->failure;
}

constexpr std::array<Row, 9> rows = {own_failure,  asleep,      cut_off,       lost_node,
                                     exited_early, silent_node, still_running, in_different_collectives,
                                     first_victim};

}  // namespace

std::optional<Culprit> judge(const Evidence& evidence) {
  for (const Row row : rows)
    if (auto culprit = row(evidence)) return culprit;
  return std::nullopt;
}

}  // namespace rankshim::outcome
