#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>

#include "init/ending.h"
#include "init/policy.h"
#include "init/signal_queue.h"
#include "init/spawn.h"

namespace rankshim::supervise {

/// Starts the command, passes signals on, reaps whatever ends, and winds down until nothing that the command
/// started is left. Works as PID 1 and, as child subreaper, not as PID 1; what kernel
/// or seccomp lacks (pidfd, subreaper, /proc) is done without, with a warning. Nothing after the start ends
/// it early. Children that we had before (of a shell that became us) are reaped, but neither signalled nor
/// waited for.
///
/// A stop signal that we inherited as ignored (nohup) is passed on and stops nothing; to a launcher that
/// would stop all the same, it is not passed on. Once the command has ended, a TERM or HUP can only
/// shorten what is left, to Policy::grace, for everything has got its TERM by then; INT or QUIT, from a
/// person who does not want to wait, kills what is left. On a terminal that the command had, the end by INT
/// or QUIT is a stop. `command` and `policy` must live until then.
boost::asio::awaitable<Ending> supervise(boost::asio::io_context& io, SignalQueue& signals,
                                         const Command& command, const Policy& policy);

}  // namespace rankshim::supervise
