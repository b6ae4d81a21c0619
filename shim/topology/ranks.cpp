#include "topology/ranks.h"

#include <algorithm>

#include "topology/topology.h"

namespace rankshim::topology {
namespace {

/// The number of processes per node; 0 if it differs between nodes.
unsigned per_node(const RankVariables& ranks, const KnownNode& node) {
  if (node.workers) return *node.workers;
  const bool even = ranks.world_size && *ranks.world_size % *node.nnodes == 0;
  return even ? *ranks.world_size / *node.nnodes : 0;
}

/// Whether WORLD_SIZE can be the number of nodes, or of their processes.
bool agrees_with_nnodes(const RankVariables& ranks, const KnownNode& node) {
  return !ranks.world_size || ranks.world_size == node.nnodes ||
         *ranks.world_size == *node.nnodes * per_node(ranks, node);
}

/// Whether RANK can be that of the node or of its first process. If it is that of another process, a first
/// one exists already, or the rank belongs to another node.
bool agrees_with_node_rank(const RankVariables& ranks, const KnownNode& node) {
  if (!ranks.rank || ranks.rank == node.node_rank) return true;
  const unsigned each = per_node(ranks, node);
  return each != 0 && *ranks.rank == *node.node_rank * each;
}

/// Whether another variable shows that RANK and WORLD_SIZE count processes.
bool count_processes(const RankVariables& ranks, const KnownNode& node) {
  return ranks.has_local_rank || ranks.local_world_size ||
         (node.nnodes && ranks.world_size && ranks.world_size != node.nnodes);
}

/// Whether a process with all three variables can be on this node, with ranks in blocks or round-robin over
/// the nodes.
bool can_be_process_of(const RankVariables& ranks, const KnownNode& node) {
  if (!node.nnodes || *node.nnodes == 0 || !node.node_rank) return true;
  const unsigned world = *ranks.world_size, rank = *ranks.rank, local = *ranks.local_rank;
  const unsigned nodes = *node.nnodes, node_rank = *node.node_rank;
  if (world % nodes != 0 || (ranks.local_world_size && *ranks.local_world_size * nodes != world))
    return nodes <= world;
  return rank == node_rank * (world / nodes) + local || rank == local * nodes + node_rank;
}

/// The input of the tables' conditions.
struct Question {
  const RankVariables& ranks;
  const KnownNode& node;
  RankUnit unit = RankUnit::any;
  std::optional<unsigned> workers_by_unit;  ///< per node, for clash_with_flags()

  [[nodiscard]] unsigned rank() const { return ranks.rank.value_or(0); }
  [[nodiscard]] unsigned world() const { return ranks.world_size.value_or(1); }
  [[nodiscard]] unsigned nodes() const { return node.nnodes.value_or(0); }
  [[nodiscard]] unsigned workers() const { return node.workers.value_or(1); }
  [[nodiscard]] bool is_divided_by(unsigned number) const { return number != 0 && world() % number == 0; }
};

/// A row of a table. The first one whose condition holds counts.
struct Row {
  bool (*when)(const Question&);
  RankUse use;
};

template <std::size_t rows>
RankUse first_of(const std::array<Row, rows>& table, const Question& question) {
  return std::ranges::find_if(table, [&](const Row& row) { return row.when(question); })->use;
}

bool always(const Question&) { return true; }

// Conditions of use_of().

bool says_nothing(const Question& q) { return !q.ranks.rank && !q.ranks.world_size; }

bool operator_says_no_nnodes(const Question& q) {
  return q.unit == RankUnit::any && !q.node.has_nnodes && q.ranks.has_pet_node_rank;
}

/// The node has a rank, and only WORLD_SIZE could tell how many nodes there are.
bool only_world_tells_nnodes(const Question& q) {
  return q.unit == RankUnit::any && !q.node.has_nnodes && q.node.node_rank && q.world() > 1;
}

bool has_world_without_rank(const Question& q) {
  return only_world_tells_nnodes(q) && !q.ranks.rank && q.node.workers != 1U;
}

bool may_be_processes_on_accelerators(const Question& q) {
  const unsigned each = q.node.accelerators;
  return only_world_tells_nnodes(q) && each > 1 && q.world() > each && q.is_divided_by(each);
}

bool is_rank_of_first_worker(const Question& q) {
  return only_world_tells_nnodes(q) && q.workers() > 1 && q.is_divided_by(q.workers()) &&
         !q.node.node_rank_is_certain && q.ranks.rank == *q.node.node_rank * q.workers();
}

bool is_rank_of_first_worker_of_node_0(const Question& q) {
  return is_rank_of_first_worker(q) && q.rank() == 0;
}

bool unit_is_process(const Question& q) { return q.unit == RankUnit::process; }
bool unit_is_process_of_node(const Question& q) { return unit_is_process(q) && q.ranks.local_rank; }

bool count_nodes(const Question& q) { return q.unit == RankUnit::node || !count_processes(q.ranks, q.node); }

/// WORLD_SIZE is the number of nodes, but RANK is not this node's.
bool is_another_nodes(const Question& q) {
  const std::optional<unsigned> nnodes = q.node.has_nnodes ? q.node.nnodes : q.ranks.world_size;
  return nnodes.value_or(0) != 0 && q.ranks.world_size == nnodes && !q.node.node_rank_is_certain &&
         q.ranks.rank && q.node.node_rank && q.ranks.rank != q.node.node_rank;
}

bool count_nodes_and_is_another(const Question& q) { return count_nodes(q) && is_another_nodes(q); }

bool has_rank_above_only_node(const Question& q) {
  return q.nodes() == 1 && q.rank() != 0 && !q.node.nnodes_is_certain && !q.ranks.has_local_rank &&
         !q.ranks.local_world_size;
}

bool disagrees_with_nnodes(const Question& q) {
  return q.nodes() != 0 && !q.node.nnodes_is_certain && !agrees_with_nnodes(q.ranks, q.node);
}

bool disagrees_with_node_rank(const Question& q) {
  return q.nodes() != 0 && q.node.node_rank && !q.ranks.local_rank && !q.node.node_rank_is_certain &&
         !agrees_with_node_rank(q.ranks, q.node);
}

bool node_is_known(const Question& q) { return q.node.nnodes && q.node.node_rank; }
bool is_first_process(const Question& q) { return q.node.nnodes && q.ranks.rank == 0U; }

bool is_world_of_only_node(const Question& q) {
  return q.node.nnodes == 1U && !q.ranks.rank && !q.ranks.has_local_rank;
}

bool is_single_process(const Question& q) { return q.ranks.world_size == 1U && q.rank() == 0; }
bool is_single_process_of_another(const Question& q) { return is_single_process(q) && is_another_nodes(q); }

constexpr auto meaning_rows = std::to_array<Row>({
    {says_nothing, RankUse::nothing},
    // WORLD_SIZE counts processes even if PET_NNODES is missing, so the number of nodes is unknown.
    {operator_says_no_nnodes, RankUse::nothing},
    {has_world_without_rank, RankUse::unclear},  // MosaicML, Lightning
    // On node 0, two nodes of eight processes look like sixteen nodes.
    {may_be_processes_on_accelerators, RankUse::unclear},
    {is_rank_of_first_worker_of_node_0, RankUse::unclear},
    {is_rank_of_first_worker, RankUse::first_worker},
    {unit_is_process_of_node, RankUse::this_process},
    {unit_is_process, RankUse::first_worker},
    {count_nodes_and_is_another, RankUse::wrong_node_rank},
    {count_nodes, RankUse::nodes},
    // From here on RANK and WORLD_SIZE count processes.
    {has_rank_above_only_node, RankUse::wrong_nnodes},
    {disagrees_with_nnodes, RankUse::wrong_nnodes},
    {disagrees_with_node_rank, RankUse::wrong_node_rank},
    {node_is_known, RankUse::nothing},
    {is_first_process, RankUse::nodes},  // on the first node
    // The rank of the only node needs no variable; alone.cpp weighs what its WORLD_SIZE means.
    {is_world_of_only_node, RankUse::nothing},
    // A single process is the same in both units.
    {is_single_process_of_another, RankUse::wrong_node_rank},
    {is_single_process, RankUse::nodes},
    {always, RankUse::unclear},
});

// Conditions of started_process(). From its second row on, RANK, WORLD_SIZE and LOCAL_RANK are known.

bool is_incomplete(const Question& q) { return !q.ranks.rank || !q.ranks.world_size || !q.ranks.local_rank; }

bool is_lone_process_of_image(const Question& q) {
  return q.world() == 1 && q.node.nnodes != 1U && q.node.is_numbered_by_platform && !q.ranks.has_local_size;
}

/// Whether more than LOCAL_RANK=0 shows a process. Images also have LOCAL_WORLD_SIZE=1.
bool shows_a_process(const Question& q) {
  return *q.ranks.local_rank != 0 || q.ranks.local_world_size.value_or(0) > 1 || q.ranks.has_local_size;
}

bool has_nodes_rank(const Question& q) { return q.ranks.rank == q.node.node_rank; }

bool has_nodes_numbers(const Question& q) {
  return has_nodes_rank(q) && q.ranks.world_size == q.node.nnodes && *q.ranks.local_rank == 0;
}

/// RANK is the node's, but WORLD_SIZE counts more than one process per node.
bool is_the_only_one_of_several(const Question& q) {
  return q.ranks.local_world_size == 1U && !shows_a_process(q) && has_nodes_rank(q) &&
         !q.node.is_numbered_by_platform && q.nodes() > 1 && q.world() > q.nodes() &&
         q.is_divided_by(q.nodes()) && q.workers() == 1;
}

bool has_nodes_numbers_from_rank(const Question& q) {
  return has_nodes_numbers(q) && q.node.is_read_from_rank && !shows_a_process(q) && q.node.workers != 1U;
}

bool has_platforms_numbers(const Question& q) {
  return has_nodes_numbers(q) && q.node.is_numbered_by_platform;
}

bool is_shown(const Question& q) { return shows_a_process(q) || (q.node.node_rank && !has_nodes_rank(q)); }
bool can_be_here(const Question& q) {
  RankVariables ranks = q.ranks;
  if (*ranks.local_rank == 0 && ranks.local_world_size.value_or(0) <= 1) ranks.local_world_size.reset();
  return can_be_process_of(ranks, q.node);
}
bool is_shown_here(const Question& q) { return is_shown(q) && can_be_here(q); }

bool has_no_node_rank(const Question& q) { return !q.node.node_rank; }
bool is_process_of_one_worker(const Question& q) { return has_no_node_rank(q) && q.workers() <= 1; }

/// RANK may be that of a node's first worker, with ranks in blocks or round-robin over the nodes.
bool may_be_first_worker(const Question& q) {
  const unsigned workers = q.workers();
  return has_no_node_rank(q) && q.is_divided_by(workers) &&
         (q.rank() % workers == 0 || q.rank() < q.world() / workers);
}

bool world_is_nnodes(const Question& q) { return !q.node.nnodes || q.world() == *q.node.nnodes; }
bool world_is_nnodes_of_workers(const Question& q) { return world_is_nnodes(q) && q.workers() > 1; }

bool is_uneven(const Question& q) { return !q.is_divided_by(q.nodes()); }
bool is_uneven_here(const Question& q) { return is_uneven(q) && can_be_here(q); }

bool is_rank_0(const Question& q) { return q.rank() == 0; }
bool is_operators_rank_0(const Question& q) { return is_rank_0(q) && q.ranks.has_pet_node_rank; }
bool is_platforms_rank_0(const Question& q) { return is_rank_0(q) && q.node.is_numbered_by_platform; }

bool is_nodes_beside_processes(const Question& q) {
  return q.node.is_numbered_by_platform || q.world() / q.nodes() == q.workers();
}

constexpr auto process_rows = std::to_array<Row>({
    {is_incomplete, RankUse::nothing},
    // With a platform, the leftovers of a lone process do not show a process among several nodes.
    {is_lone_process_of_image, RankUse::nothing},
    {is_the_only_one_of_several, RankUse::unclear},
    {has_nodes_numbers_from_rank, RankUse::left_over},
    {has_platforms_numbers, RankUse::nothing},
    {is_shown_here, RankUse::this_process},
    {is_shown, RankUse::nothing},
    {is_process_of_one_worker, RankUse::this_process},
    {may_be_first_worker, RankUse::unclear},
    {has_no_node_rank, RankUse::left_over},
    // From here on RANK is the node's.
    {world_is_nnodes_of_workers, RankUse::left_over},
    {world_is_nnodes, RankUse::this_process},
    {is_uneven_here, RankUse::this_process},
    {is_uneven, RankUse::nothing},
    {is_operators_rank_0, RankUse::left_over},
    {is_platforms_rank_0, RankUse::unclear},
    {is_rank_0, RankUse::this_process},
    {is_nodes_beside_processes, RankUse::left_over},
    {always, RankUse::this_process},
});

// Conditions of clash_of(). From its second row on, the number of nodes and the node's rank are known.

bool is_node_unknown(const Question& q) { return q.nodes() == 0 || !q.node.node_rank; }
bool contradicts_nnodes(const Question& q) { return !agrees_with_nnodes(q.ranks, q.node); }
bool counts_these_nodes(const Question& q) { return q.ranks.world_size == q.node.nnodes; }

bool is_of_another_node(const Question& q) {
  return counts_these_nodes(q) && q.ranks.rank && !has_nodes_rank(q);
}

bool is_one_of_several_processes(const Question& q) {
  return !is_incomplete(q) && (!counts_these_nodes(q) || *q.ranks.local_rank != 0);
}

bool is_not_first_process(const Question& q) { return !agrees_with_node_rank(q.ranks, q.node); }

constexpr auto clash_rows = std::to_array<Row>({
    {is_node_unknown, RankUse::nothing},
    {contradicts_nnodes, RankUse::wrong_nnodes},
    {is_of_another_node, RankUse::wrong_node_rank},
    {is_one_of_several_processes, RankUse::wrong_process},  // of this node or another
    {is_not_first_process, RankUse::wrong_node_rank},
    {always, RankUse::nothing},
});

// Conditions of clash_with_flags().

bool has_no_valid_nnodes(const Question& q) { return q.node.has_nnodes && q.nodes() == 0; }
bool knows_both_sizes(const Question& q) { return q.node.nnodes && q.ranks.world_size; }

/// WORLD_SIZE can be the number of processes on all nodes.
bool counts_their_processes(const Question& q) {
  return q.node.workers ? q.nodes() * q.workers() == q.world() : q.nodes() > 1 && q.is_divided_by(q.nodes());
}

bool contradicts_flags(const Question& q) {
  return knows_both_sizes(q) && q.node.nnodes_is_certain && !counts_these_nodes(q) &&
         !counts_their_processes(q);
}

/// RANK is that of a process, but too little is known to compare it.
bool is_of_unknown_process(const Question& q) {
  return !knows_both_sizes(q) && (q.ranks.has_local_rank || q.ranks.local_world_size);
}

bool lacks_workers_of_unit(const Question& q) { return !knows_both_sizes(q) && q.workers_by_unit == 0U; }
bool has_no_ranks_to_compare(const Question& q) { return !q.node.node_rank || !q.ranks.rank; }

/// The number of processes per node, if RANK can be that of a process; else 1.
unsigned processes_each(const Question& q) {
  if (!knows_both_sizes(q)) return q.workers_by_unit.value_or(1);
  return counts_their_processes(q) ? q.world() / q.nodes() : 1;
}

bool is_of_a_process_of_this_node(const Question& q) {
  const unsigned each = processes_each(q);
  return each > 1 && q.rank() / each == *q.node.node_rank;
}

constexpr auto flag_rows = std::to_array<Row>({
    {has_no_valid_nnodes, RankUse::nothing},
    {contradicts_flags, RankUse::wrong_nnodes},
    {is_of_unknown_process, RankUse::nothing},
    {lacks_workers_of_unit, RankUse::nothing},
    {has_no_ranks_to_compare, RankUse::nothing},
    {has_nodes_rank, RankUse::nothing},
    {is_of_a_process_of_this_node, RankUse::nothing},
    {always, RankUse::wrong_node_rank},
});

}  // namespace

RankVariables rank_variables(const node::Environment& environment) {
  RankVariables ranks;
  std::ranges::transform(facts_of_process, ranks.texts.begin(), [&](Fact fact) -> std::optional<std::string> {
    const auto text = environment.get(variable_of(fact));
    return text ? std::optional(std::string(*text)) : std::nullopt;
  });
  const auto number = [&](Fact fact) { return parse_count(ranks.text(fact).value_or("")); };
  ranks.rank = number(Fact::rank);
  ranks.world_size = number(Fact::world_size);
  ranks.local_rank = number(Fact::local_rank);
  ranks.local_world_size = number(Fact::local_world_size);
  ranks.has_local_rank = ranks.text(Fact::local_rank).has_value();
  ranks.has_pet_node_rank = environment.get("PET_NODE_RANK").has_value();
  ranks.has_local_size = environment.get("LOCAL_SIZE").has_value();
  return ranks;
}

RankUse use_of(const RankVariables& ranks, const KnownNode& node, RankUnit unit) {
  return first_of(meaning_rows, {ranks, node, unit});
}

RankUse started_process(const RankVariables& ranks, const KnownNode& node) {
  return first_of(process_rows, {ranks, node});
}

RankUse clash_of(const RankVariables& ranks, const KnownNode& node) {
  return first_of(clash_rows, {ranks, node});
}

RankUse clash_with_flags(const RankVariables& ranks, const KnownNode& node,
                         std::optional<unsigned> workers_by_unit) {
  return first_of(flag_rows, {ranks, node, RankUnit::any, workers_by_unit});
}

bool units_differ(const RankVariables& ranks, const KnownNode& node) {
  const unsigned nodes = node.nnodes.value_or(0), workers = node.workers.value_or(0);
  return nodes > 1 && workers > 1 && ranks.world_size == nodes * workers && ranks.rank &&
         ranks.rank == node.node_rank;
}

}  // namespace rankshim::topology
