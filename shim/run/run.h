#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>

#include "node/node.h"
#include "plan/launch.h"
#include "report/verdict.h"
#include "run/monitor.h"
#include "settings/settings.h"
#include "supervise/ending.h"
#include "supervise/signals.h"

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

/// Publishes a verdict, whatever it is: the last line on stderr, the report, the termination log, the
/// post-stop hook, and the hold of a failed container. `job` is null if there was none yet, `ending` if
/// nothing was to be started. Returns the exit code.
boost::asio::awaitable<int> conclude(const Run& run, Verdict verdict, const Job* job,
                                     const supervise::Ending* ending = nullptr, const Details& details = {});

/// Runs `rankshim COMMAND`, `wait` and `preflight`: resolves, waits, launches, supervises, and reports how it
/// ended. Returns the exit code.
int run_job(const Invocation& invocation, const Node& node);

}  // namespace rankshim
