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

/// StallClock tells for how long no collective of a job has ended, and what is due then. Before a number has
/// moved in an attempt (an import, a compiler, the first step) nothing counts. Whether the ranks hang then,
/// or compute without each other, only a look at them can tell (outcome/hang.h). Pure: times come in.
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
  /// When to look next: soon at the beginning, to know that the numbers move, then ever more rarely.
  [[nodiscard]] Time next() const { return next_; }
  /// The numbers of the workers that run, by rank; none of one that does not tell them. Returns the time that
  /// the job had stood still after a notice, if it goes on now.
  std::optional<Milliseconds> saw(const std::map<unsigned, Collectives>& workers, Time now);

  /// For how long no number has moved.
  [[nodiscard]] Milliseconds stalled(Time now) const;
  /// Whether a notice is due: after Rules::notice, and after two, four, eight times that.
  [[nodiscard]] bool notices(Time now) const {
    return rules_.notice != Milliseconds::zero() && stalled(now) >= notice_;
  }
  void noticed() { notice_ *= 2; }
  /// Whether the job is to be ended. `works`: who is waited for computes, reads or writes.
  [[nodiscard]] bool ends(Time now, bool works) const;

  /// The ranks that were the last in nine of the last ten looks at a job that moves, alone among those that
  /// wait: slow, not hung.
  [[nodiscard]] std::vector<unsigned> stragglers() const;

 private:
  void count_last(const std::map<unsigned, Collectives>& workers);

  Rules rules_;
  Milliseconds interval_;
  Milliseconds pause_{20'000};  ///< to the next look, as long as that is sooner than interval_
  Time next_;
  std::map<unsigned, Collectives> workers_;
  Time since_;                               ///< when these numbers were seen first
  bool has_moved_ = false;                   ///< in this attempt
  Milliseconds notice_;                      ///< the next is due after that
  std::vector<std::vector<unsigned>> last_;  ///< who was last, in the last looks that saw the job move
};

}  // namespace rankshim::run
