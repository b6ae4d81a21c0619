#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

/// What RANK, WORLD_SIZE and LOCAL_RANK mean. Some platforms and launchers number nodes by them and some
/// processes (training-operator has done both), so they are read beside what else is known of the node. Only
/// these functions decide it: rank_unit.cpp reads and checks by them, and has the messages.
namespace rankshim {

/// The variables as numbers; nothing where one is not set, or is none.
struct RankVariables {
  std::optional<unsigned> rank, world_size, local_rank, local_world_size;
  bool has_local_rank = false;     ///< set, be it to a list (Ascend's operator writes LOCAL_RANK="0,1,2,3")
  bool has_pet_node_rank = false;  ///< PET_NODE_RANK is set: training-operator from 1.7 on
};

/// What else says of the node: the user, the platform, generic names, a launcher's flags.
struct KnownNode {
  std::optional<unsigned> nnodes, node_rank, workers;  ///< `workers` of one node
  bool has_nnodes = false;                             ///< a range too, which is no one number
  bool nnodes_is_certain = false;                      ///< the user has said it: nothing contradicts it
  bool node_rank_is_certain = false;                   ///< likewise
  bool is_node_rank_by_hand = false;                   ///< node_rank is the variable NODE_RANK
};

enum class RankMeaning : std::uint8_t {
  nothing,             ///< they are not there, or say nothing of this node
  nodes,               ///< they count nodes
  known_processes,     ///< they count processes, and add nothing to what is known of the node
  this_process,        ///< they number this process, which exists already
  first_worker,        ///< they number the first worker of this node, which is to be started
  unclear,             ///< nodes or processes: this node alone cannot tell
  unclear_world_size,  ///< WORLD_SIZE beside NODE_RANK alone: MosaicML, Lightning and ClearML count processes
  wrong_nnodes,        ///< WORLD_SIZE can be neither the number of nodes nor of their processes
  wrong_node_rank,     ///< RANK can be neither this node's nor its first process's
};

/// What the variables are read as. `unit` is --rank-unit: auto, node or process.
RankMeaning meaning_of(const RankVariables& ranks, const KnownNode& node, std::string_view unit);

/// Which known fact the variables cannot be true beside.
enum class RankClash : std::uint8_t { none, nnodes, node_rank };

/// Checks the variables beside a platform that has words of its own for the node, whose nnodes and node_rank
/// have to be known: they are the node's, or those of its first process.
RankClash clash_of(const RankVariables& ranks, const KnownNode& node);

/// Checks the variables beside what torchrun's own flags say: they are the node's, or those of any of its
/// processes. The number of nodes can be known from elsewhere; it is certain where a flag says it.
/// `workers_by_unit` are the processes of a node where --rank-unit=process says that RANK counts them.
RankClash clash_with_flags(const RankVariables& ranks, const KnownNode& node,
                           std::optional<unsigned> workers_by_unit);

/// Whether RANK, WORLD_SIZE and LOCAL_RANK, which are all there, can be a process that something (DeepSpeed,
/// Ray Train) has started on this node: in blocks or spread over the nodes in turn.
bool can_be_process_of(const RankVariables& ranks, const KnownNode& node);

}  // namespace rankshim
