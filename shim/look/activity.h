#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

/// What /proc shows of what a worker does.
namespace rankshim::look {

/// A process at one moment. The numbers only grow; they are of its main thread, because others (gloo's,
/// NCCL's) poll while that waits.
struct Activity {
  char state = '?';            ///< of the main thread, as in proc(5)
  std::string kernel;          ///< the kernel's function in which it waits; empty if it runs, or unknown
  std::uint64_t switches = 0;  ///< context switches, voluntary and not
  std::uint64_t ticks = 0;     ///< of CPU time
  std::uint64_t bytes = 0;     ///< read and written by the process and its descendants
};

/// As far as /proc shows it to this process.
Activity read_activity(pid_t pid);

/// What a process has done for a while.
enum class Work : std::uint8_t {
  none,   ///< it waits, or is stuck
  polls,  ///< more than one switch a second, and nothing else: it looks for something again and again, or
          ///< waits for a slow network
  works,  ///< more than 1 % of a CPU, or 10 kB/s: an evaluation, a checkpoint; an endless loop looks the same
};

/// What a process has done in between.
Work work_between(const Activity& before, const Activity& after, std::chrono::milliseconds between);

/// A process below a worker that itself waits for it, and what that does: "python3 (pid 81), which is in
/// __getitem__ (data.py:12)", "dd (pid 82) in state D". Empty if the worker has no descendants, or all of
/// them wait for work.
std::string describe_below(pid_t pid);

}  // namespace rankshim::look
