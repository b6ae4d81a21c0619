#pragma once

#include <optional>
#include <vector>

#include "supervise/kernel.h"
#include "supervise/tree.h"

namespace rankshim::supervise {

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
  int pass(const std::vector<Process>& all, const std::vector<Process>& roots, int signal,
           const kernel::Payload* payload);

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
