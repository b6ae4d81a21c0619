#pragma once

#include <cstdint>

#include "base/signal_text.h"

/// Signals as the kernel counts them: 1 to 64. musl hides 32 to 34 from its own functions and numbers
/// SIGRTMIN 35, so sets are our own 64 bits and the calls are raw system calls; RTMIN here is 34, as kill(1),
/// systemd and container engines mean it.
namespace rankshim::supervise {

struct Received {
  int number = 0;
  int code = 0;             ///< si_code
  std::int64_t sender = 0;  ///< pid, 0 from outside our PID namespace or from the kernel
  std::uint32_t user = 0;   ///< the sender's uid
  std::uint64_t value = 0;  ///< si_value of a queued one
};

/// The mask of blocked signals that we inherited, taken when all were blocked: before main and any other
/// initialiser.
SignalSet inherited_mask();

/// Whether the signal was ignored when we were started; the command gets it so again. One system call.
bool inherited_as_ignored(int signal);

/// Sets an ignored SIGCHLD to its default, without which no child's end could be waited for.
/// inherited_as_ignored() still tells what it was.
void stop_ignoring_children();

/// Whether the signal's default action ends a process (signal(7)).
bool ends_by_default(int signal);

/// TERM, INT, HUP and QUIT: what platforms, terminals and people ask to stop with.
bool asks_to_stop(int signal);

/// Whether it came of a line of ours: into a broken pipe, or into a file that is full.
bool is_of_our_own_making(const Received& signal);

/// From now on the kernel sends us this signal when our parent ends; it is then passed on like any other. A
/// parent that ended during the call counts. A refusal is a warning.
void end_with_parent(int signal);

}  // namespace rankshim::supervise
