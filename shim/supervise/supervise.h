#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <optional>

#include "base/signals.h"
#include "supervise/ending.h"
#include "supervise/launcher.h"
#include "supervise/signal_queue.h"
#include "supervise/spawn.h"

namespace rankshim::supervise {

/// How a command is supervised.
struct Policy {
  SignalScope scope = SignalScope::handlers;
  /// The time between passing a stop signal on and killing everything that is left. Nothing: as long as the
  /// platform allows.
  std::optional<std::chrono::milliseconds> grace;
  /// The time between TERM and KILL for what the command leaves when it ends.
  std::chrono::milliseconds leftover_grace{5000};
  /// The interface to what starts workers; null for a program that has none.
  Launcher* launcher = nullptr;
  /// The command is not the job but a hook or a helper: a signal that comes while it runs is also reported as
  /// Ending::late_signal, and the last resort does not supervise it.
  bool hook = false;
  /// How long the command may run before everything is killed; nothing: without a limit.
  std::optional<std::chrono::milliseconds> time_limit;
  /// Gets the events; may be null.
  Observer* observer = nullptr;
  /// Which signals are replaced before they are passed on. A signal stops the command if it, or its
  /// replacement, asks to stop; one that is not passed on has no effect.
  SignalMap rewrite;
  /// A process that did not stop shows its stacks before it is killed (stacks.h).
  bool stacks = false;
  bool warn_on_reap = false;  ///< a line for each orphan that was reaped
  /// The command gets a new session, with stdin as its controlling terminal.
  bool ctty = false;
};

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
