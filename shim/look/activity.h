#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

/// What a worker is doing, as far as /proc shows.
namespace rankshim::look {

/// A process at one moment. All but `bytes` is about its main thread, because other threads (gloo's, NCCL's)
/// poll while it waits. The counters only grow.
struct Activity {
  char state = '?';            ///< of the main thread, as in proc(5)
  std::string kernel;          ///< the kernel function in which it waits; empty if it runs, or unknown
  std::uint64_t switches = 0;  ///< context switches, voluntary and not
  std::uint64_t ticks = 0;     ///< of CPU time
  std::uint64_t bytes = 0;     ///< read and written by the whole process and its descendants
};

/// Reads a process's activity, as far as /proc shows it.
Activity read_activity(pid_t pid);

/// What a process was doing between two readings.
enum class Work : std::uint8_t {
  none,   ///< it waits, or is stuck
  polls,  ///< more than one switch a second, but nothing else: it checks something again and again, or waits
          ///< for a slow network
  works,  ///< more than 1 % of a CPU, or 10 kB/s: an evaluation, a checkpoint; an endless loop looks the same
};

/// Judges two readings of one process, which were taken this far apart.
Work work_between(const Activity& before, const Activity& after, std::chrono::milliseconds between);

/// A descendant that a worker may be waiting for, and what that descendant is doing: "python3 (pid 81), which
/// is in __getitem__ (data.py:12)", "dd (pid 82) in state D". Empty if the worker has no descendants, or all
/// of them wait for work.
std::string describe_below(pid_t pid);

}  // namespace rankshim::look
