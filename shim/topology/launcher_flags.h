#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/fact.h"
#include "base/fault.h"
#include "node/environment.h"

namespace rankshim {

/// What a command that is a launcher itself says of the topology, by its own flags.
struct LauncherFlags {
  /// Each option is named as it stands in the command, "torchrun --nnodes". A launcher that meets nobody says
  /// nnodes 1 and nothing else of the rendezvous.
  Facts facts;
  bool meets_itself = false;  ///< it makes a rendezvous of its own for one node
  bool names_nnodes = false;  ///< by a flag for that, and not by one that means 1 (--standalone)
};

/// The fault of a flag ("torchrun --nnodes=1") that cannot be true beside `other` ("PET_NNODES=2"), which is
/// named `name`.
Fault flag_contradicts(const std::string& flag, const std::string& other, const std::string& name);

/// A fault if RANK and WORLD_SIZE can be true beside the launcher's own flags neither as numbers of nodes nor
/// as numbers of processes. `known` are the facts so far, the flags' among them; `unit` is that of
/// --rank-unit.
std::optional<Fault> check_beside_ranks(const LauncherFlags& flags, const Facts& known, std::string_view unit,
                                        const Environment& environment);

}  // namespace rankshim
