#pragma once

#include <boost/asio/awaitable.hpp>

#include "plan/launch.h"
#include "report/verdict.h"
#include "run/run.h"
#include "supervise/ending.h"

namespace rankshim {

/// How a command ended that was to be started.
struct CommandEnd {
  supervise::Ending ending;
  Details details;
};

/// Publishes a verdict, whatever it is: the last line on stderr, the report, the termination log, the
/// post-stop hook, and the hold of a failed container. `job` is null if there was none yet, `command` if
/// nothing was to be started. Returns the exit code.
boost::asio::awaitable<int> conclude(const Run& run, Verdict verdict, const Job* job = nullptr,
                                     const CommandEnd* command = nullptr);

}  // namespace rankshim
