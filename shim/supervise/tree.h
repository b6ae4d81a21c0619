#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/signals.h"
#include "supervise/kernel.h"

/// Processes by /proc. /proc may be missing, or show another PID namespace's numbers: then nothing is known.
namespace rankshim::supervise {

struct Process {
  pid_t pid = 0;
  pid_t parent = 0;
  pid_t group = 0;
  char state = '?';         ///< proc(5): R S D Z T …
  std::uint64_t start = 0;  ///< in clock ticks since boot; together with pid it identifies a process uniquely
  [[nodiscard]] bool alive() const { return state != 'Z' && state != 'X'; }
};

/// Reads /proc/PID/stat's one line.
std::optional<Process> parse_stat(std::string_view line);

/// All descendants of `ancestor`, sorted by number, without `ancestor` itself, without `except` and without
/// the descendants of those; nothing if /proc does not show them.
std::optional<std::vector<Process>> descendants(pid_t ancestor, const std::vector<Process>& except = {});

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

/// A file of /proc/PID, at most `limit` bytes of it; nothing if it cannot be read, and errno has the reason.
/// For files in the process's memory (environ, cmdline) that is EBUSY while the process waits in the kernel
/// without accepting signals (state D): reading them could block for ever.
std::optional<std::string> read_proc(pid_t pid, const char* file, std::size_t limit);

/// The process as /proc shows it now; nothing as for read_proc.
std::optional<Process> read_process(pid_t pid);

/// The environment that the process was started with, each entry ended by a zero byte; nothing as for
/// read_proc.
std::optional<std::string> read_environment(pid_t pid);

/// The wait status of a zombie: the last but one of the 52 fields of /proc/PID/stat. The field is 0 for a
/// reader that may not trace the process (proc(5)), so a zero counts only if the process has the same user.
std::optional<int> zombie_status(pid_t pid);

}  // namespace rankshim::supervise
