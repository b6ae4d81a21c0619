#pragma once

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <optional>

#include "init/signal_queue.h"

namespace rankshim {

/// Lets `io` work until what it does sets `over`: not until it has nothing left to do, for questions about
/// our status may always come.
void run_until(boost::asio::io_context& io, const bool& over);

/// Lets `time` pass, with everything else on `io` going on. A signal that would have ended us ends the pause:
/// it is returned, and reaches nobody else. Only while no command runs.
std::optional<supervise::Received> pause(boost::asio::io_context& io, supervise::SignalQueue& signals,
                                         std::chrono::milliseconds time);

}  // namespace rankshim
