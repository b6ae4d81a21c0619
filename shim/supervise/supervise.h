#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>

#include "supervise/ending.h"
#include "supervise/policy.h"
#include "supervise/signal_queue.h"
#include "supervise/spawn.h"

namespace rankshim::supervise {

/// Starts the command, passes signals on, reaps every process that ends, and winds down until nothing that
/// the command started is left. It works as PID 1 and, as child subreaper, also otherwise. If the kernel or
/// seccomp lacks something (pidfd, subreaper, /proc), it works without it and logs a warning. After the start
/// nothing ends it early. Children that rankshim had before (of a shell that executed it) are reaped, but
/// neither signalled nor waited for.
///
/// A stop signal that was inherited as ignored (nohup) is passed on and stops nothing; a launcher that would
/// stop nevertheless does not get it. Once the command has ended, a TERM or HUP can only shorten the
/// remaining time, to Policy::grace, because everything has got its TERM by then; INT (Ctrl-C) or QUIT
/// kills what is left at once. If the command had the terminal, its end by INT or QUIT
/// counts as a stop. `command` and `policy` must live until the end.
boost::asio::awaitable<Ending> supervise(boost::asio::io_context& io, SignalQueue& signals,
                                         const Command& command, const Policy& policy);

}  // namespace rankshim::supervise
