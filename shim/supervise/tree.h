#pragma once

#include <sys/types.h>

#include <optional>
#include <vector>

#include "base/signals.h"
#include "node/process.h"
#include "supervise/kernel.h"

/// Signals to processes that /proc shows, and what these do with them.
namespace rankshim::supervise {

/// Sends a signal to this process, and never to another one that has got its number since. Returns 0 or
/// −errno.
int send_to(const Process& process, int signal, const kernel::Payload* payload);

/// Sends a signal to each of these, and never to another process that has got one's number since. Processes
/// that have ended are skipped. Returns the first refusal as −errno, else 0.
int send_each(const std::vector<Process>& processes, int signal, const kernel::Payload* payload);

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

}  // namespace rankshim::supervise
