#include "topology/ranks.h"

#include "topology/topology.h"

namespace rankshim {
namespace {

/// The number of processes on one node; 0 if it is not the same on each.
unsigned per_node(const RankVariables& ranks, const KnownNode& node) {
  if (node.workers) return *node.workers;
  const bool even = ranks.world_size && *ranks.world_size % *node.nnodes == 0;
  return even ? *ranks.world_size / *node.nnodes : 0;
}

/// Whether WORLD_SIZE can be the number of nodes, or of their processes.
bool fits_nnodes(const RankVariables& ranks, const KnownNode& node) {
  return !ranks.world_size || ranks.world_size == node.nnodes ||
         *ranks.world_size == *node.nnodes * per_node(ranks, node);
}

/// Whether RANK can be that of the node or of its first process. If it is another process's, there is a first
/// one already, or the rank belongs to another node.
bool fits_node_rank(const RankVariables& ranks, const KnownNode& node) {
  if (!ranks.rank || ranks.rank == node.node_rank) return true;
  const unsigned each = per_node(ranks, node);
  return each != 0 && *ranks.rank == *node.node_rank * each;
}

/// Whether another variable shows that they count processes.
bool count_processes(const RankVariables& ranks, const KnownNode& node) {
  return ranks.has_local_rank || ranks.local_world_size ||
         (node.nnodes && ranks.world_size && ranks.world_size != node.nnodes);
}

RankMeaning as_nodes(const RankVariables& ranks, const KnownNode& node) {
  const std::optional<unsigned> nnodes = node.has_nnodes ? node.nnodes : ranks.world_size;
  const bool is_checked = nnodes.value_or(0) != 0 && ranks.world_size == nnodes && !node.node_rank_is_certain;
  const bool differs = ranks.rank && node.node_rank && ranks.rank != node.node_rank;
  return is_checked && differs ? RankMeaning::wrong_node_rank : RankMeaning::nodes;
}

/// Whether a complete process can be on this node, with ranks in blocks or in turn over the nodes.
bool can_be_process_of(const RankVariables& ranks, const KnownNode& node) {
  if (!node.nnodes || *node.nnodes == 0 || !node.node_rank) return true;
  const unsigned world = *ranks.world_size, rank = *ranks.rank, local = *ranks.local_rank;
  const unsigned nodes = *node.nnodes, node_rank = *node.node_rank;
  if (world % nodes != 0 || (ranks.local_world_size && *ranks.local_world_size * nodes != world))
    return nodes <= world;
  return rank == node_rank * (world / nodes) + local || rank == local * nodes + node_rank;
}

}  // namespace

RankVariables rank_variables(const Environment& environment) {
  const auto number = [&](std::string_view name) { return parse_count(environment.get(name).value_or("")); };
  return {number("RANK"),
          number("WORLD_SIZE"),
          number("LOCAL_RANK"),
          number("LOCAL_WORLD_SIZE"),
          environment.get("LOCAL_RANK").has_value(),
          environment.get("PET_NODE_RANK").has_value(),
          environment.get("LOCAL_SIZE").has_value()};
}

RankMeaning meaning_of(const RankVariables& ranks, const KnownNode& node, std::string_view unit) {
  const bool by_itself = unit == "auto";
  if (!ranks.rank && !ranks.world_size) return RankMeaning::nothing;
  // WORLD_SIZE counts processes even if PET_NNODES is missing, so the number of nodes is not known.
  if (by_itself && !node.has_nnodes && ranks.has_pet_node_rank) return RankMeaning::nothing;
  const bool asks = by_itself && !node.has_nnodes && node.node_rank && ranks.world_size.value_or(1) > 1;
  if (asks && !ranks.rank && node.workers != 1U) return RankMeaning::unclear;  // MosaicML, Lightning, ClearML
  // ClearML gives node 0 the same numbers for several nodes and for their processes.
  const unsigned devices = node.accelerators;
  if (asks && devices > 1 && *ranks.world_size > devices && *ranks.world_size % devices == 0)
    return RankMeaning::unclear;
  // The rank of the node's first process, which is node 0's number too.
  const unsigned each = node.workers.value_or(1);
  if (asks && each > 1 && *ranks.world_size % each == 0 && !node.node_rank_is_certain &&
      ranks.rank == *node.node_rank * each)
    return ranks.rank == 0U ? RankMeaning::unclear : RankMeaning::first_worker;
  if (unit == "process") return ranks.local_rank ? RankMeaning::this_process : RankMeaning::first_worker;
  if (unit == "node" || !count_processes(ranks, node)) return as_nodes(ranks, node);
  if (node.nnodes && *node.nnodes != 0) {
    if (node.nnodes == 1U && ranks.rank.value_or(0) != 0 && !node.nnodes_is_certain &&
        !ranks.has_local_rank && !ranks.local_world_size)
      return RankMeaning::wrong_nnodes;
    if (!node.nnodes_is_certain && !fits_nnodes(ranks, node)) return RankMeaning::wrong_nnodes;
    if (node.node_rank && !ranks.local_rank && !node.node_rank_is_certain && !fits_node_rank(ranks, node))
      return RankMeaning::wrong_node_rank;
  }
  if (node.nnodes && node.node_rank) return RankMeaning::nothing;
  if (node.nnodes && ranks.rank == 0U)
    return as_nodes(ranks, node);  // the first process is on the first node
  // The rank of the only node needs no variable; what its WORLD_SIZE means is weighed where it is alone.
  if (node.nnodes == 1U && !ranks.rank && !ranks.has_local_rank) return RankMeaning::nothing;
  // A single process is the same in both units.
  if (ranks.world_size == 1U && ranks.rank.value_or(0) == 0) return as_nodes(ranks, node);
  return RankMeaning::unclear;
}

RankMeaning clash_of(const RankVariables& ranks, const KnownNode& node) {
  if (!node.nnodes || *node.nnodes == 0 || !node.node_rank) return RankMeaning::nothing;
  if (!fits_nnodes(ranks, node)) return RankMeaning::wrong_nnodes;
  const bool counts_nodes = ranks.world_size == node.nnodes;
  if (counts_nodes && ranks.rank && ranks.rank != node.node_rank) return RankMeaning::wrong_node_rank;
  // This is one of several processes, of this node or another.
  const bool is_complete = ranks.rank && ranks.world_size && ranks.local_rank;
  if (is_complete && (!counts_nodes || *ranks.local_rank != 0)) return RankMeaning::wrong_process;
  return fits_node_rank(ranks, node) ? RankMeaning::nothing : RankMeaning::wrong_node_rank;
}

RankMeaning clash_with_flags(const RankVariables& ranks, const KnownNode& node,
                             std::optional<unsigned> workers_by_unit) {
  if (node.has_nnodes && node.nnodes.value_or(0) == 0) return RankMeaning::nothing;
  unsigned each = 1;  // processes on each node, if RANK can be that of a process
  if (node.nnodes && ranks.world_size) {
    const unsigned world = *ranks.world_size, nodes = *node.nnodes;
    const bool processes = node.workers ? nodes * *node.workers == world : nodes > 1 && world % nodes == 0;
    if (node.nnodes_is_certain && world != nodes && !processes) return RankMeaning::wrong_nnodes;
    if (processes) each = world / nodes;
  } else if (ranks.has_local_rank || ranks.local_world_size) {
    return RankMeaning::nothing;  // RANK is that of a process, and too little is known of it
  } else if (workers_by_unit) {
    each = *workers_by_unit;
    if (each == 0) return RankMeaning::nothing;
  }
  if (!node.node_rank || !ranks.rank || ranks.rank == node.node_rank) return RankMeaning::nothing;
  return each > 1 && *ranks.rank / each == *node.node_rank ? RankMeaning::nothing
                                                           : RankMeaning::wrong_node_rank;
}

RankMeaning started_process(RankVariables ranks, const KnownNode& node) {
  using enum RankMeaning;
  if (!ranks.rank || !ranks.world_size || !ranks.local_rank) return nothing;
  // What a lone process leaves behind beside a platform shows no process among several nodes.
  if (*ranks.world_size == 1 && node.nnodes != 1U && node.is_numbered_by_platform && !ranks.has_local_size)
    return nothing;
  const bool is_only_one = ranks.local_world_size == 1U;
  // Images have LOCAL_WORLD_SIZE=1 beside LOCAL_RANK=0, and it says no more.
  if (*ranks.local_rank == 0 && ranks.local_world_size.value_or(0) <= 1) ranks.local_world_size.reset();
  const unsigned rank = *ranks.rank, world = *ranks.world_size;
  const bool is_nodes_rank = ranks.rank == node.node_rank;
  const bool is_the_nodes = is_nodes_rank && ranks.world_size == node.nnodes && *ranks.local_rank == 0;
  const bool shows_it = *ranks.local_rank != 0 || ranks.local_world_size || ranks.has_local_size;
  // The node's RANK beside a WORLD_SIZE of more processes than one per node.
  const unsigned num_nodes = node.nnodes.value_or(0);
  if (is_only_one && !shows_it && is_nodes_rank && !node.is_numbered_by_platform && num_nodes > 1 &&
      world > num_nodes && world % num_nodes == 0 && node.workers.value_or(1) == 1)
    return unclear;
  if (is_the_nodes && node.is_read_from_rank && !shows_it && node.workers != 1U) return left_over;
  if (is_the_nodes && node.is_numbered_by_platform) return nothing;  // as the platform has it
  if (shows_it || (node.node_rank && !is_nodes_rank))
    return can_be_process_of(ranks, node) ? this_process : nothing;
  const unsigned workers = node.workers.value_or(1);
  if (!node.node_rank) {
    if (workers <= 1) return this_process;
    const bool in_blocks = rank % workers == 0, in_turn = rank < world / workers;
    return world % workers == 0 && (in_blocks || in_turn) ? unclear : left_over;
  }
  if (!node.nnodes || world == *node.nnodes) return workers > 1 ? left_over : this_process;
  if (*node.nnodes == 0 || world % *node.nnodes != 0)
    return can_be_process_of(ranks, node) ? this_process : nothing;
  if (rank == 0)
    return ranks.has_pet_node_rank ? left_over : node.is_numbered_by_platform ? unclear : this_process;
  return node.is_numbered_by_platform || world / *node.nnodes == workers ? left_over : this_process;
}

bool units_differ(const RankVariables& ranks, const KnownNode& node) {
  const unsigned nodes = node.nnodes.value_or(0), workers = node.workers.value_or(0);
  return nodes > 1 && workers > 1 && ranks.world_size == nodes * workers && ranks.rank &&
         ranks.rank == node.node_rank;
}

}  // namespace rankshim
