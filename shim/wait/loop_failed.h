#pragma once

#include <system_error>

namespace rankshim {

/// The event loop cannot wait any more: for a second the kernel has refused (a sandbox that forbids
/// epoll_wait(2) and its kin, a broken kernel). Thrown by io_context's run, and at each further call.
struct LoopFailed : std::system_error {
  using std::system_error::system_error;
};

}  // namespace rankshim
