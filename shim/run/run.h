#pragma once

#include <boost/asio/io_context.hpp>

#include "node/node.h"
#include "run/monitor.h"
#include "settings/settings.h"
#include "supervise/signal_queue.h"

namespace rankshim {

/// What every step of a run needs, from the pre-start hook to the hold after a failure.
struct Run {
  boost::asio::io_context& io;
  supervise::SignalQueue& signals;
  const Settings& settings;
  const Node& node;
  Monitor& monitor;
  bool only_wait = false;  ///< `rankshim wait`, which has no hooks and is not held
  bool preflight = false;  ///< the command is the check of `rankshim preflight`
};

}  // namespace rankshim
