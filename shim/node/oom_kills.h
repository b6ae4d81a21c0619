#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

namespace rankshim::node {

/// How the end of a process may be related to the kernel's kills at the memory limit.
struct OomEvidence {
  bool own = false;       ///< the process itself was killed at the limit
  bool of_child = false;  ///< another one was killed there shortly before, which may be why this one ended
};

/// Tracks the kernel's kills at the memory limit in one attempt, and which processes outlived the last of
/// them. The cgroup counts kills, but does not say which process was killed. The kernel counts before it
/// sends the signal (linux:mm/oom_kill.c, __oom_kill_process), so a process that runs after the counter has
/// risen, with no KILL pending, was not the one. Pure: the caller reads the counter and the processes.
class OomKills {
 public:
  using Clock = std::chrono::steady_clock;

  /// Takes the counter's value, counted from the start of the attempt. Returns whether it has risen.
  bool count(std::uint64_t kills, Clock::time_point now);
  /// Takes the processes that were running, and not being killed, after the counter had reached that value.
  /// Ignored if it has risen since.
  void outlived(std::uint64_t kills, std::vector<pid_t> processes);

  [[nodiscard]] std::uint64_t kills() const { return kills_; }
  /// The evidence about a process that has just ended. Call count() first. If `started` is nullopt, the
  /// process is taken as killed only if the counter rose shortly before.
  [[nodiscard]] OomEvidence evidence(pid_t process, std::optional<Clock::time_point> started,
                                     Clock::time_point now) const;

 private:
  std::uint64_t kills_ = 0;
  Clock::time_point rose_;
  std::vector<pid_t> outlived_;
};

}  // namespace rankshim::node
