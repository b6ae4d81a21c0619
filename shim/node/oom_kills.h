#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

namespace rankshim::node {

/// How an end may be connected with the kernel's kills at the memory limit.
struct OomEvidence {
  bool own = false;       ///< the process that ended was killed for it
  bool of_child = false;  ///< a process was killed for it shortly before, which may be why this one ended
};

/// The kernel's kills at the memory limit in one attempt, and which processes outlived the last of them. The
/// cgroup counts kills, and does not say whose they were. It counts before it sends the signal
/// (linux:mm/oom_kill.c, __oom_kill_process), so that a process which runs after the counter has risen, and
/// for which no KILL is on its way, was not the one. All of it is pure: the caller reads counter and
/// processes.
class OomKills {
 public:
  using Clock = std::chrono::steady_clock;

  /// The counter's value, from the attempt's beginning. Returns whether it has risen.
  bool count(std::uint64_t kills, Clock::time_point now);
  /// The processes that ran, not being killed, after the counter had reached that value. Ignored if it has
  /// risen since.
  void outlived(std::uint64_t kills, std::vector<pid_t> processes);

  [[nodiscard]] std::uint64_t kills() const { return kills_; }
  /// For a process that ran since `started`, at its end, after count(). If that is not known, it was killed
  /// for it only if the counter rose shortly before.
  [[nodiscard]] OomEvidence evidence(pid_t process, std::optional<Clock::time_point> started,
                                     Clock::time_point now) const;

 private:
  std::uint64_t kills_ = 0;
  Clock::time_point rose_;
  std::vector<pid_t> outlived_;
};

}  // namespace rankshim::node
