#pragma once

#include <chrono>
#include <csignal>
#include <optional>

#include "base/signal_scope.h"
#include "base/signal_text.h"

namespace rankshim::supervise {

class Launcher;
class Observer;

/// How a command is supervised.
struct Policy {
  SignalScope scope = SignalScope::group;
  /// After a stop signal was passed on: how long until everything left is killed. Nothing: as long as the
  /// platform allows.
  std::optional<std::chrono::milliseconds> grace;
  /// After the command's own end: how long what it left has between TERM and KILL.
  std::chrono::milliseconds leftover_grace{5000};
  /// What the command starts workers by; null: a program that has none.
  Launcher* launcher = nullptr;
  /// It is no job but a hook or a question of ours: a signal that comes while it runs is also told of as
  /// Ending::late_signal, and the last resort does not care for it.
  bool hook = false;
  /// How long the command may run before everything is killed; nothing: for ever.
  std::optional<std::chrono::milliseconds> time_limit;
  /// Told what happens; may be null.
  Observer* observer = nullptr;
  /// What is passed on in the place of what arrives. A signal stops if what arrived or what is passed on asks
  /// to stop; one that is not passed on does nothing at all.
  SignalMap rewrite;
  /// What we send ourselves to what the command left behind.
  int term_signal = SIGTERM;
  /// Between a TERM and its passing on, part of the grace; any further stop signal ends it.
  std::chrono::milliseconds pre_stop_delay{0};
  /// What did not stop shows its stacks before it is killed (stacks.h).
  bool stacks = false;
  bool subreaper = true;      ///< where we are not PID 1
  bool warn_on_reap = false;  ///< a line for each orphan that was reaped
  /// The command gets a session of its own, with stdin as its controlling terminal.
  bool ctty = false;
  bool no_new_privs = false;   ///< the command can gain no privileges by execve(2): PR_SET_NO_NEW_PRIVS
  int child_death_signal = 0;  ///< what the command gets when we end; 0: nothing
};

}  // namespace rankshim::supervise
