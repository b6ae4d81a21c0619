#include "supervise/event_loop.h"

#include <cstring>

#include "base/log.h"
#include "wait/event_loop_step.h"

namespace rankshim::supervise {

void run_until(boost::asio::io_context& io, SignalQueue& signals, const bool& over) {
  bool failed = false;  // and is never reset
  while (!over) {
    if (failed) {
      if (!poll_one(io)) signals.wait_without_loop();
    } else if (const int error = run_one(io)) {
      failed = true;
      log::warn(
          "the system refuses to wait for events ({}): from now on rankshim follows only signals and the "
          "ends of processes",
          std::strerror(error));
    }
  }
}

}  // namespace rankshim::supervise
