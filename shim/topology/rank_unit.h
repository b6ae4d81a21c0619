#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/fact.h"
#include "base/fault.h"
#include "node/node.h"
#include "platform/profile.h"
#include "topology/launcher_flags.h"
#include "topology/ranks.h"

namespace rankshim {

/// Reads RANK and WORLD_SIZE into `facts`, where they are needed: for what is not known yet of nnodes and
/// node_rank, or, where they number processes that already exist, rank, world_size, local_rank and
/// local_world_size (then `granularity` becomes process). `unit` is --rank-unit. What cannot be decided from
/// this node alone is a fault that names --rank-unit; what contradicts known facts is one that names both.
void read_ranks(std::string_view unit, const Node& node, Facts& facts, platform::Granularity& granularity,
                Faults& faults);

/// Whether RANK, WORLD_SIZE, LOCAL_RANK and LOCAL_WORLD_SIZE can be true beside the facts of a platform that
/// has words of its own: the same numbers, or, in granularity node, those of one of the node's processes.
/// What cannot is a fault that names both: left over from an outer platform, or this is one of several
/// processes that exist already.
void check_ranks(const Node& node, const Facts& facts, platform::Granularity granularity,
                 std::string_view platform, Faults& faults);

/// The variables as ranks.h takes them.
RankVariables rank_variables(const Environment& environment);

/// A fault if RANK and WORLD_SIZE can be true beside torchrun's own flags neither as numbers of nodes nor as
/// numbers of processes. `known` are the facts so far, the flags' among them; `unit` is --rank-unit.
std::optional<Fault> check_beside_flags(const LauncherFlags& flags, const Facts& known, std::string_view unit,
                                        const Environment& environment);

}  // namespace rankshim
