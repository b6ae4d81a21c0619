#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "init/kernel.h"

/// What /proc knows of processes. /proc may be missing, or show another PID namespace's numbers: then nothing
/// is known.
namespace rankshim::supervise {

struct Process {
  pid_t pid = 0;
  pid_t parent = 0;
  pid_t group = 0;
  char state = '?';         ///< proc(5): R S D Z T …
  std::uint64_t start = 0;  ///< in clock ticks since boot; with pid it names a process for ever
  [[nodiscard]] bool alive() const { return state != 'Z' && state != 'X'; }
};

/// One line of /proc/PID/stat.
std::optional<Process> parse_stat(std::string_view line);

/// All processes that descend from `ancestor`, by number, without it, without `except` and without what
/// descends from those; nothing where /proc does not tell.
std::optional<std::vector<Process>> descendants(pid_t ancestor, const std::vector<Process>& except = {});

/// Sends a signal to each of these, and never to another process that has got one's number since. Those that
/// have ended are passed over. Returns the first refusal as −errno, else 0.
int send_each(const std::vector<Process>& processes, int signal, const kernel::Payload* payload);

/// A file of /proc/PID, at most `limit` bytes of it; nothing where it cannot be read, which errno explains.
/// What lies in the process's memory (environ, cmdline) is EBUSY while it waits in the kernel for what no
/// signal interrupts (state D): reading it could wait for ever.
std::optional<std::string> read_proc(pid_t pid, const char* file, std::size_t limit);

/// The wait status of a zombie: the last but one of /proc/PID/stat's 52 fields, which is 0 for those who may
/// not trace the process (proc(5)), so that a zero counts only where it is our own user's.
std::optional<int> zombie_status(pid_t pid);

}  // namespace rankshim::supervise
