#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/fact.h"
#include "node/environment.h"
#include "settings/options.h"

/// Decides what RANK, WORLD_SIZE and LOCAL_RANK mean. They count nodes on one platform and processes on
/// another (training-operator has done both). Only these functions read the variables, and decide by what
/// else is known of the node; rank_unit.cpp uses the result to take and check facts, and has the messages.
namespace rankshim::topology {

/// The variables as numbers; nullopt for one that is not set or is not a number.
struct RankVariables {
  std::optional<unsigned> rank, world_size, local_rank, local_world_size;
  bool has_local_rank = false;     ///< set, possibly to a list (Ascend's operator sets LOCAL_RANK="0,1,2,3")
  bool has_pet_node_rank = false;  ///< PET_NODE_RANK is set: training-operator from 1.7 on
  bool has_local_size = false;     ///< LOCAL_SIZE is set: DeepSpeed's launcher, for its processes
  /// The texts as set, in the order of facts_of_process; nullopt for one that is not set.
  std::array<std::optional<std::string>, 4> texts = {};

  /// The text of a process's fact, as set, even if the number was dropped as left over.
  [[nodiscard]] const std::optional<std::string>& text(Fact fact) const {
    return texts.at(static_cast<std::size_t>(fact) - static_cast<std::size_t>(Fact::rank));
  }
};

/// Reads the variables from an environment. Nothing else reads them.
RankVariables rank_variables(const node::Environment& environment);

/// --rank-unit: what RANK and WORLD_SIZE count. `any`: decided by what else is known.
enum class RankUnit : std::uint8_t { any, node, process };
static_assert(settings::info(settings::Option::rank_unit).argument == "auto|node|process");

/// What other sources say about the node: the user, the platform, generic names, a launcher's flags.
struct KnownNode {
  std::optional<unsigned> nnodes, node_rank, workers;  ///< `workers` is per node
  unsigned accelerators = 0;                           ///< visible ones; 0 if they do not matter
  bool has_nnodes = false;                             ///< known, possibly as a range
  bool nnodes_is_certain = false;                      ///< the user set it, so nothing can contradict it
  bool node_rank_is_certain = false;                   ///< likewise
  bool is_numbered_by_platform = false;                ///< by its own variables
  bool is_read_from_rank = false;                      ///< the platform's RANK is its node_rank
};

/// What the platform uses the variables for, or what is wrong with them.
enum class RankUse : std::uint8_t {
  nothing,          ///< they are not set, do not concern this node, or add nothing to what is known
  nodes,            ///< they count nodes
  this_process,     ///< they number this process, which something (DeepSpeed, Ray Train) started
  first_worker,     ///< they number the first worker that this node will start
  left_over,        ///< RANK and WORLD_SIZE are the node's, and LOCAL_RANK=0 is left over
  unclear,          ///< nodes or processes: this node cannot tell
  wrong_nnodes,     ///< WORLD_SIZE is neither the number of nodes nor that of their processes
  wrong_node_rank,  ///< RANK is neither this node's nor that of its first process
  wrong_process,    ///< LOCAL_RANK shows one of several processes, but not one of this node
};

/// What the variables are used for if the platform has none of its own, by a table in ranks.cpp.
RankUse use_of(const RankVariables& ranks, const KnownNode& node, RankUnit unit);

/// How the variables contradict a platform's own, by a table in ranks.cpp: RANK and WORLD_SIZE must be the
/// node's, or those of its first process. `nothing` unless nnodes and node_rank are known.
RankUse clash_of(const RankVariables& ranks, const KnownNode& node);

/// How the variables contradict torchrun's flags, by a table in ranks.cpp: they must be the node's, or those
/// of any of its processes. The number of nodes is certain if a flag sets it. `workers_by_unit`: the workers
/// per node, with --rank-unit=process.
RankUse clash_with_flags(const RankVariables& ranks, const KnownNode& node,
                         std::optional<unsigned> workers_by_unit);

/// Whether something started this process, by a table in ranks.cpp: RANK, WORLD_SIZE and LOCAL_RANK together
/// number it, with ranks in blocks or round-robin over the nodes. But images and scripts also leave
/// LOCAL_RANK=0 behind, so that alone proves nothing if RANK is the node's and the node has several workers;
/// nor does LOCAL_WORLD_SIZE=1 beside it.
RankUse started_process(const RankVariables& ranks, const KnownNode& node);

/// Whether RANK counts nodes but WORLD_SIZE counts their processes, so that env:// would wait for ranks that
/// nobody has.
bool units_differ(const RankVariables& ranks, const KnownNode& node);

}  // namespace rankshim::topology
