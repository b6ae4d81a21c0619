#pragma once

#include <cstdint>

namespace rankshim::supervise {

/// Who gets a signal that we pass on.
enum class SignalScope : std::uint8_t {
  child,  ///< the command alone (torchrun passes signals to its workers itself)
  group,  ///< the command's process group
  tree,   ///< everything the command started, sessions of their own too
};

}  // namespace rankshim::supervise
