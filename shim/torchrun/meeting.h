#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>

namespace rankshim::torchrun {

/// What an agent waits for that starts its workers only when other nodes are there.
struct MeetingPlan {
  std::uint16_t port = 0;  ///< of the store, where they meet
  /// From the agent's start; then it is to be killed. Nothing: until the agent gives up itself, as in an
  /// elastic job, where nobody can see from outside whether enough nodes are there.
  std::optional<std::chrono::milliseconds> limit;
  std::chrono::milliseconds told_every{30'000};  ///< a line that says so
};

/// An agent's wait for the other nodes, of which torch says nothing. Nobody answers for torch's store: that
/// the agent is there and has no worker is all that can be known.
class Meeting {
 public:
  using Clock = std::chrono::steady_clock;

  Meeting(const MeetingPlan& plan, pid_t agent, Clock::time_point started);

  /// When to look next.
  [[nodiscard]] Clock::time_point due() const { return due_; }

  /// Looks, and says what it waits for where that is due. Returns whether the time is over: never while the
  /// agent has not come to its rendezvous, for on a cold image it imports torch for minutes.
  bool is_over(Clock::time_point now);

 private:
  const MeetingPlan plan_;
  const pid_t agent_;
  const Clock::time_point started_;
  Clock::time_point told_;  // when a line last told of it, or the agent's start
  Clock::time_point due_;
};

}  // namespace rankshim::torchrun
