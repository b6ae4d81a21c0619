#pragma once

#include <system_error>

namespace rankshim {

/// The event loop cannot wait any more: the kernel has refused it for a second (a sandbox that forbids
/// epoll_wait(2) and similar calls, a broken kernel). Thrown by io_context's run, and at each further call.
struct LoopFailed : std::system_error {
  using std::system_error::system_error;
};

}  // namespace rankshim
