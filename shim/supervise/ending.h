#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "supervise/launcher.h"

namespace rankshim::supervise {

/// How the command ended.
struct Ending {
  enum class Kind : std::uint8_t {
    exited,       ///< `number` is its exit code
    signalled,    ///< `number` is the signal that ended it
    not_started,  ///< `failure` says why; `number` is its errno
    withheld,     ///< it ran, and the kernel does not report how it ended; `number` is the errno of wait4
  };
  Kind kind = Kind::exited;
  int number = 0;
  SpawnFailure failure;
  std::string interpreter;  ///< the one that is missing (SpawnFailure::interpreter), if it is known
  /// The first signal that requested a stop while the command ran, before Policy::rewrite.
  std::optional<int> stop_signal;
  std::string stopped_because;  ///< why an order stopped it, as if stop_signal had come; empty: a signal did
  std::optional<int> signal_after_order;  ///< a stop signal that came after that order
  /// The first signal after the command's end that would have ended rankshim, or a stop signal that was not
  /// passed on before the end; for a hook, also one that came while it ran.
  std::optional<int> late_signal;
  bool killed_by_us = false;  ///< rankshim ended the command itself: by KILL, or when asking for its stacks
  unsigned leftovers = 0;     ///< processes that still existed when the command had ended
  unsigned leftovers_killed = 0;  ///< of these, how many had to be killed
  /// The processes that had not stopped in time, before stacks and KILL: "worker 0 (rank 8, pid 17, state S,
  /// in futex_do_wait) did not stop in 1.6 s".
  std::string did_not_stop;
  std::string left_behind;  ///< what not even KILL ended, for messages: "PID (NAME, WAIT CHANNEL), …"
  pid_t pid = 0;            ///< the command's; 0 if it was not started
  std::chrono::milliseconds ran{0};
  std::chrono::steady_clock::time_point started_at;                 ///< just before the command was started
  std::optional<std::chrono::steady_clock::time_point> ended_at;    ///< when the command had ended
  std::optional<std::chrono::steady_clock::time_point> stopped_at;  ///< when stop_signal was passed on
  WorkerRecord workers;
};

/// The exit code that tells of this end: the command's own, 128 + its signal, 127 or 126 if it was not found
/// or cannot be executed, 71 if the system refused to start it or does not report how it ended.
int exit_code_of(const Ending& ending);

/// The same for a wait status, as wait(2) gives it.
int exit_code_of_status(int status);

}  // namespace rankshim::supervise
