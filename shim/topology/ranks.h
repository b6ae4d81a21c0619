#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/fact.h"
#include "node/environment.h"

/// The meaning of RANK, WORLD_SIZE and LOCAL_RANK, which count nodes on one platform and processes on another
/// (training-operator has done both). Only these functions read them and decide it, by what else is known of
/// the node; rank_unit.cpp takes and checks facts by them, and has the messages.
namespace rankshim::topology {

/// The variables as numbers; nullopt if one is not set or is not a number.
struct RankVariables {
  std::optional<unsigned> rank, world_size, local_rank, local_world_size;
  bool has_local_rank = false;  ///< set, possibly to a list (Ascend's operator writes LOCAL_RANK="0,1,2,3")
  bool has_pet_node_rank = false;  ///< PET_NODE_RANK is set: training-operator from 1.7 on
  bool has_local_size = false;     ///< LOCAL_SIZE is set: DeepSpeed's launcher, for its processes
  /// As they are set, in the order of facts_of_process; nullopt if one is not set.
  std::array<std::optional<std::string>, 4> texts = {};

  /// For a fact of a process. As it is set, even where the number has been dropped as left over.
  [[nodiscard]] const std::optional<std::string>& text(Fact fact) const {
    return texts.at(static_cast<std::size_t>(fact) - static_cast<std::size_t>(Fact::rank));
  }
};

/// Reads the variables of an environment: nothing else reads them.
RankVariables rank_variables(const node::Environment& environment);

/// --rank-unit: what RANK and WORLD_SIZE count. `any`: the rest of what is known decides.
enum class RankUnit : std::uint8_t { any, node, process };
RankUnit rank_unit(std::string_view option);

/// What other sources tell about the node: the user, the platform, generic names, a launcher's flags.
struct KnownNode {
  std::optional<unsigned> nnodes, node_rank, workers;  ///< `workers` is for one node
  unsigned accelerators = 0;                           ///< that are visible; 0 where it does not matter
  bool has_nnodes = false;                             ///< true for a range too
  bool nnodes_is_certain = false;                      ///< the user set it: nothing contradicts it
  bool node_rank_is_certain = false;                   ///< likewise
  bool is_numbered_by_platform = false;                ///< by variables of its own
  bool is_read_from_rank = false;                      ///< the platform's RANK is its node_rank
};

/// What the variables say, or what is wrong with them.
enum class RankMeaning : std::uint8_t {
  nothing,          ///< they are not set, do not concern this node, or add nothing to what is known about it
  nodes,            ///< they count nodes
  this_process,     ///< they number this process, which something (DeepSpeed, Ray Train) has started
  first_worker,     ///< they number the first worker of this node, which is to be started
  left_over,        ///< RANK and WORLD_SIZE are the node's, and LOCAL_RANK=0 is left over
  unclear,          ///< nodes or processes: this node alone cannot tell
  wrong_nnodes,     ///< WORLD_SIZE is neither the number of nodes nor of their processes
  wrong_node_rank,  ///< RANK is neither this node's nor its first process's
  wrong_process,    ///< LOCAL_RANK shows one of several processes, and not of this node
};

/// How the variables are read where the platform has none of its own: ranks.cpp has the table.
RankMeaning meaning_of(const RankVariables& ranks, const KnownNode& node, RankUnit unit);

/// What is wrong beside a platform's own variables: RANK and WORLD_SIZE must be the node's, or those of its
/// first process. Nothing unless nnodes and node_rank are known. Like clash_with_flags(), a table in
/// ranks.cpp.
RankMeaning clash_of(const RankVariables& ranks, const KnownNode& node);

/// What is wrong beside torchrun's flags: the variables must be the node's, or those of any of its processes.
/// The number of nodes is certain if a flag sets it. `workers_by_unit`: on a node, with --rank-unit=process.
RankMeaning clash_with_flags(const RankVariables& ranks, const KnownNode& node,
                             std::optional<unsigned> workers_by_unit);

/// RANK, WORLD_SIZE and LOCAL_RANK together number this process, with ranks in blocks or in turn over the
/// nodes. But LOCAL_RANK=0 is also what images and scripts leave behind, so alone it shows no process where
/// RANK is the node's and the node has several workers; LOCAL_WORLD_SIZE=1 beside it adds nothing. ranks.cpp
/// has the table.
RankMeaning started_process(const RankVariables& ranks, const KnownNode& node);

/// Whether RANK counts nodes but WORLD_SIZE their processes: env:// would wait for ranks that nobody has.
bool units_differ(const RankVariables& ranks, const KnownNode& node);

}  // namespace rankshim::topology
