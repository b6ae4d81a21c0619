#include "init/event_loop.h"

#include <exception>
#include <utility>

#include "base/log.h"
#include "wait/loop_failed.h"

namespace rankshim::supervise {
namespace {

/// Runs a handler that needs no waiting; false if there is none. The operation that waits, which the kernel
/// refuses, is in the same queue and goes to its end.
bool run_handler(boost::asio::io_context& io) {
  for (int attempt = 0; attempt < 2; ++attempt) {
    try {
      return io.poll_one() != 0;
    } catch (const LoopFailed&) {
      continue;
    }
  }
  return false;
}

}  // namespace

void run_until(boost::asio::io_context& io, SignalQueue& signals, const bool& over) {
  bool failed = false;  // and is never reset
  bool warned = false;
  while (!over) {
    try {
      if (!failed)
        io.run_one();
      else if (!run_handler(io))
        signals.wait_without_loop();
    } catch (const LoopFailed& error) {
      failed = true;
      log::warn(
          "the system refuses to wait for events ({}): from now on rankshim follows only signals and the "
          "ends of processes",
          error.code().message());
    } catch (const std::exception& error) {
      if (!std::exchange(warned, true))
        log::warn("rankshim continues after an internal error: {}", error.what());
    }
  }
}

}  // namespace rankshim::supervise
