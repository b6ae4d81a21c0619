#pragma once

#include <cstdint>

namespace rankshim::supervise {

/// Which processes get a signal that rankshim passes on.
enum class SignalScope : std::uint8_t {
  child,  ///< the command alone (torchrun passes signals to its workers itself)
  group,  ///< the command's process group
  tree,   ///< everything that the command started, in other sessions too
};

}  // namespace rankshim::supervise
