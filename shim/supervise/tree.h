#pragma once

#include <sys/types.h>

#include <optional>
#include <vector>

#include "base/signals.h"
#include "node/process.h"
#include "supervise/signals.h"

/// Signals to processes that /proc shows, and what these do with them.
namespace rankshim::supervise {

/// Sends a signal to this process, and never to another one that has got its number since. Returns 0 or
/// −errno.
int send_to(const Process& process, const Signal& signal);

/// Sends a signal to each of these, and never to another process that has got one's number since. Processes
/// that have ended are skipped. Returns the first refusal as −errno, else 0.
int send_each(const std::vector<Process>& processes, const Signal& signal);

/// What a process does with signals (proc(5), SigCgt, SigIgn, SigBlk).
struct SignalMasks {
  SignalSet caught = 0;
  SignalSet ignored = 0;
  SignalSet blocked = 0;
  /// Whether the signal does not end the process at once: who blocks it waits for it by sigwait(3).
  [[nodiscard]] bool take(int signal) const { return ((caught | ignored | blocked) & bit(signal)) != 0; }
};

/// Nothing if the process is gone, or /proc does not show it (gVisor).
std::optional<SignalMasks> signal_masks(pid_t pid);

/// Whether this process can take the signal: it has a handler for it, or ignores or blocks it. A Python
/// script installs its handlers only when it has imported what it needs; one that is older than a minute and
/// has none will have none.
bool can_take(const Process& worker, int signal);

/// A stop's way down the command's tree. A process that does not handle the signal is ended by it, and the
/// signal goes on to its children. One that catches, ignores or blocks it answers for its children: a script
/// that saves when it is asked to stop keeps the helpers that it needs for that.
///
/// A shell is no answer for the command that runs in its foreground, because it runs its trap only when that
/// has ended. And for INT and QUIT, which a terminal sends to the whole group, a process that ignores them
/// may only be waiting for a child that does not (system(3), time(1)).
class StopWalk {
 public:
  /// Whether /proc shows what processes do with signals.
  static bool is_possible();

  /// Begins at the roots, which are among `all`. A process that has got this signal on an earlier walk since
  /// forget() is left out. Returns the first refusal by a root as −errno, −ESRCH if there is none of them any
  /// more, else 0.
  int pass(const std::vector<Process>& all, const std::vector<Process>& roots, const Signal& signal);

  /// The signal may go to the same processes once more.
  void forget(int signal);

  /// Whether a stop has reached this process already, by whatever signal.
  [[nodiscard]] bool has_reached(const Process& process) const;

 private:
  struct Reached {
    Process process;
    int signal = 0;
  };
  std::vector<Reached> reached_;
};

}  // namespace rankshim::supervise
