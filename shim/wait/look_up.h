#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

namespace rankshim::wait {

/// What came of looking a name up for a while.
struct LookedUp {
  std::vector<std::string> addresses;  ///< literal addresses; empty: there is none yet
  std::string why;                     ///< one line for a person, where there is none
};

/// Looks `host` up as a node that waits for its master does (hosts file, then DNS, again and again), at most
/// for `timeout`. Blocks. An error of the kernel's is a `why`, too.
LookedUp look_up(std::string_view host, std::chrono::milliseconds timeout);

}  // namespace rankshim::wait
