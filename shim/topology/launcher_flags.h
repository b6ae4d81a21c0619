#pragma once

#include <string>

#include "base/fact.h"
#include "base/fault.h"

namespace rankshim {

/// The topology according to the flags of a command that is a launcher itself.
struct LauncherFlags {
  /// Each option is named as it is in the command, "torchrun --nnodes". For a launcher that meets no other
  /// node this has nnodes 1 and nothing else about the rendezvous.
  Facts facts;
  bool meets_itself = false;  ///< it makes a rendezvous for one node
  bool names_nnodes = false;  ///< by the flag for that, not by one that implies 1 (--standalone)
};

/// The fault of a flag ("torchrun --nnodes=1") that cannot be true together with `other` ("PET_NNODES=2"),
/// whose name is `name`.
Fault flag_contradicts(const std::string& flag, const std::string& other, const std::string& name);

}  // namespace rankshim
