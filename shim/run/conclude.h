#pragma once

#include <boost/asio/awaitable.hpp>

#include "init/ending.h"
#include "launch/job.h"
#include "report/details.h"
#include "report/verdict.h"
#include "run/run.h"

namespace rankshim {

/// How a command ended that was to be started.
struct CommandEnd {
  supervise::Ending ending;
  Details details;
};

/// What is done with a verdict, whatever it is: the last line on stderr, the report, the termination log, the
/// post-stop hook, and the hold of a failed container. `job` is null where there was none yet, `command`
/// where nothing was to be started. Returns the code to exit with.
boost::asio::awaitable<int> conclude(const Run& run, Verdict verdict, const Job* job = nullptr,
                                     const CommandEnd* command = nullptr);

/// What settings that cannot be used leave in the report and the termination log, by as much of them as was
/// understood. Returns the code to exit with.
int conclude_rejected(const Rejected& rejected, const Node& node);

}  // namespace rankshim
