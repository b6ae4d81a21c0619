#pragma once

#include <cstdint>

namespace rankshim::supervise {

/// Which processes get a signal that rankshim passes on.
enum class SignalScope : std::uint8_t {
  /// A stop goes down the command's tree to the processes that handle it (stop_walk.h); any other signal goes
  /// to the command's process group, or to a launcher that stops its workers itself alone.
  handlers,
  child,  ///< the command alone
  group,  ///< the command's process group
  tree,   ///< everything that the command started, in other sessions too
};

}  // namespace rankshim::supervise
