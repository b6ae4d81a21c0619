#pragma once

#include <chrono>
#include <optional>

#include "base/signals.h"

namespace rankshim::supervise {

class Launcher;
class Observer;

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

}  // namespace rankshim::supervise
