#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace rankshim::torchrun {

/// How an agent waits that starts its workers only when other nodes are there.
struct MeetingPlan {
  std::uint16_t port = 0;  ///< of the store where they meet
  /// The time from the agent's start after which it is killed. Nothing: until the agent gives up, as in an
  /// elastic job, where only the agent can know whether enough nodes are there.
  std::optional<std::chrono::milliseconds> limit;
  std::chrono::milliseconds log_interval{30'000};  ///< the interval of log lines
};

/// Whether a launcher's agent waits for the other nodes, as far as it can be seen from outside: the agent, or
/// a process that it started, listens at the port of the store or is connected to it. Before that it imports
/// torch, which on a cold image takes minutes. False if /proc does not show it.
bool is_in_rendezvous(pid_t agent, std::uint16_t port);

/// The numbers (inodes) of the sockets that listen at `port` or are connected to it, from a table of
/// /proc/PID/net (tcp, tcp6; proc(5)).
std::vector<std::uint64_t> sockets_at(std::string_view table, std::uint16_t port);

/// An agent's wait for the other nodes, about which torch logs nothing. It cannot be asked: all that can be
/// seen is that the agent runs and has no worker.
class Meeting {
 public:
  using Clock = std::chrono::steady_clock;

  Meeting(const MeetingPlan& plan, pid_t agent, Clock::time_point started);

  /// When to look next.
  [[nodiscard]] Clock::time_point due() const { return due_; }

  /// Looks, and logs what the agent waits for if that is due. Returns whether the time is over. It is never
  /// over before the agent has reached its rendezvous, because on a cold image importing torch takes minutes.
  bool is_over(Clock::time_point now);

 private:
  const MeetingPlan plan_;
  const pid_t agent_;
  const Clock::time_point started_;
  Clock::time_point logged_at_;  // the last log line, or the agent's start
  Clock::time_point due_;
};

}  // namespace rankshim::torchrun
