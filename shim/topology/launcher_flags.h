#pragma once

#include <string>

#include "base/fact.h"
#include "base/fault.h"

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

}  // namespace rankshim
