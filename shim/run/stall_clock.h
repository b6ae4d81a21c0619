#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace rankshim::run {

/// How many collectives a worker has entered, and how many of them have ended.
struct Collectives {
  std::uint64_t entered = 0;
  std::uint64_t ended = 0;

  [[nodiscard]] bool waits() const { return entered > ended; }
  bool operator==(const Collectives&) const = default;
};

/// StallClock measures for how long no collective of a job has ended, and tells what is due. Until a number
/// has moved in an attempt (an import, a compiler, the first step) nothing counts. Whether stalled ranks hang
/// or compute on their own, only a look at them can tell (outcome/hang.h). Pure: times are passed in.
class StallClock {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Milliseconds = std::chrono::milliseconds;

  struct Rules {
    Milliseconds notice{0};   ///< --hang-notice; 0: off
    Milliseconds timeout{0};  ///< --hang-timeout; 0: off
  };

  StallClock(Rules rules, Time now);

  /// Whether there is anything to look for.
  [[nodiscard]] bool is_on() const { return interval_ != Milliseconds::zero(); }
  /// When to look next: soon at first, to learn that the numbers move, then less and less often.
  [[nodiscard]] Time next() const { return next_; }
  /// Takes the numbers of the running workers, by rank, except those that do not report them. If the job has
  /// resumed after a notice, returns for how long it had stalled.
  std::optional<Milliseconds> saw(const std::map<unsigned, Collectives>& workers, Time now);

  /// For how long no number has moved.
  [[nodiscard]] Milliseconds stalled(Time now) const;
  /// Whether a notice is due: after Rules::notice, and after two, four, eight times that.
  [[nodiscard]] bool notices(Time now) const {
    return rules_.notice != Milliseconds::zero() && stalled(now) >= notice_;
  }
  void noticed() { notice_ *= 2; }
  /// Whether the job is to be ended: after Rules::timeout, or after four times that with `more_time`.
  [[nodiscard]] bool ends(Time now, bool more_time) const;

  /// The ranks that, in at least nine of the last ten looks at a moving job, were among the few that did not
  /// wait: slow, but not hung.
  [[nodiscard]] std::vector<unsigned> stragglers() const;

 private:
  void count_last(const std::map<unsigned, Collectives>& workers);

  Rules rules_;
  Milliseconds interval_;
  Milliseconds pause_{20'000};  ///< until the next look, while that is shorter than interval_
  Time next_;
  std::map<unsigned, Collectives> workers_;  ///< as they last reported
  Time since_;                               ///< when these numbers were first seen
  bool has_moved_ = false;                   ///< in this attempt
  Milliseconds notice_;                      ///< the next notice is due after this time
  std::vector<std::vector<unsigned>> last_;  ///< who was last, in the latest looks that saw the job move
};

}  // namespace rankshim::run
