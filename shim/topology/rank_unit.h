#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/fact.h"
#include "base/fault.h"
#include "node/node.h"
#include "platform/profile.h"
#include "topology/claim.h"
#include "topology/ranks.h"

namespace rankshim {

/// Reads RANK and WORLD_SIZE into `facts`, if they are needed: for nnodes and node_rank if those are not
/// known yet, or, if they number processes that exist already, for rank, world_size, local_rank and
/// local_world_size (then `granularity` becomes process). `unit` is --rank-unit. If this node alone cannot
/// decide what they count, the fault names --rank-unit; if they contradict known facts, the fault names both.
void read_ranks(std::string_view unit, const RankVariables& ranks, const Node& node, Facts& facts,
                platform::Granularity& granularity, Faults& faults);

/// Checks whether RANK, WORLD_SIZE, LOCAL_RANK and LOCAL_WORLD_SIZE can be true together with the facts of a
/// platform that has its own variables: they must be the same numbers or, in granularity node, those of one
/// of the node's processes. A contradiction is a fault that names both sides: the variables may be left over
/// from an outer platform, or this is one of several processes that exist already.
void check_ranks(const RankVariables& ranks, const Node& node, const Facts& facts,
                 platform::Granularity granularity, std::string_view platform, Faults& faults);

/// The variables in the form that ranks.h takes.
RankVariables rank_variables(const Environment& environment);

/// Returns a fault if RANK and WORLD_SIZE agree with torchrun's flags neither as numbers of nodes nor as
/// numbers of processes. `known` has the facts so far, including those of the flags; `unit` is --rank-unit.
std::optional<Fault> check_beside_flags(const LauncherFlags& flags, const Facts& known, std::string_view unit,
                                        const RankVariables& ranks);

}  // namespace rankshim
