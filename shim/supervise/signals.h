#pragma once

#include <csignal>
#include <cstdint>

#include "base/signals.h"

/// Signals by the kernel's numbers, 1 to 64. musl hides 32 to 34 from its functions and numbers SIGRTMIN 35,
/// so sets are plain 64 bits and the calls bypass libc. RTMIN here is 34, as for kill(1), systemd and
/// container engines.
namespace rankshim::supervise {

/// One that was received, or that is to be sent.
struct Signal {
  int number = 0;
  int code = 0;             ///< si_code
  std::int64_t sender = 0;  ///< pid; 0 if it is outside this PID namespace or the kernel
  std::uint32_t user = 0;   ///< the sender's uid
  std::uint64_t value = 0;  ///< si_value of a queued signal

  /// Whether it is sent with a sender and a value, by sigqueue(3) or a similar call.
  [[nodiscard]] bool is_queued() const { return code < 0 && code != SI_TKILL; }
};

/// The inherited mask of blocked signals, stored before main and all other initialisers, when all signals
/// were blocked.
SignalSet inherited_mask();

/// Whether the signal was ignored when rankshim was started; it is ignored for the command too. One system
/// call.
bool inherited_as_ignored(int signal);

/// Sets an ignored SIGCHLD to its default, because otherwise no child's end could be waited for.
/// inherited_as_ignored() still returns the inherited setting.
void stop_ignoring_children();

/// Whether the signal's default action ends a process (signal(7)).
bool ends_by_default(int signal);

/// TERM, INT, HUP and QUIT: the signals by which platforms, terminals and people ask to stop.
bool asks_to_stop(int signal);

/// Whether a log line of rankshim caused it: a write into a broken pipe, or into a file that is full.
bool is_of_our_own_making(const Signal& signal);

/// From now on the kernel sends rankshim this signal when its parent ends; it is then passed on like any
/// other. A parent that ended during the call counts. A refusal is logged as a warning.
void end_with_parent(int signal);

}  // namespace rankshim::supervise
