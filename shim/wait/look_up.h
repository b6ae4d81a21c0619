#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

namespace rankshim::wait {

/// The result of looking a name up for a while.
struct LookedUp {
  std::vector<std::string> addresses;  ///< literal addresses; empty: there is none yet
  std::string why;                     ///< one line for messages, if there is no address
};

/// Looks `host` up as a node does that waits for its master (hosts file, then DNS, repeatedly), for `timeout`
/// at most. Blocks. If the kernel refuses to wait, that is a `why`, too.
LookedUp look_up(std::string_view host, std::chrono::milliseconds timeout);

}  // namespace rankshim::wait
