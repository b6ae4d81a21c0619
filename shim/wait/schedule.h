#pragma once

#include <chrono>
#include <cstddef>

namespace rankshim::wait {

using Clock = std::chrono::steady_clock;  // CLOCK_MONOTONIC in libstdc++ and libc++

/// The intervals and timeouts of the waiting. One struct, so that tests can shorten all of them.
struct Timing {
  using Time = std::chrono::milliseconds;
  Time shortest_interval{100};     ///< between looks, at the beginning …
  Time longest_interval{2000};     ///< … and at the end; in between it is a 20th of the time waited
  Time search_interval{5000};      ///< between looks at every name of the search list; more in a large job
  Time query_timeout{1000};        ///< for a name server's first answer; the second try has twice as long
  Time connect_timeout{3000};      ///< so that dropped SYNs do not delay the wait by two minutes
  Time settle_time{250};           ///< how long a connection must stay open to count
  Time sidecar_settle_time{3000};  ///< the same behind a mesh's sidecar, which asks another one first
  Time report_interval{30000};     ///< between log lines while nothing changes
};

/// When a node asks for the master's name: a back-off with a cap and jitter, in which no node asks more often
/// than its share of the 2,500 questions a second that all nodes of a job may ask. Pure: scripts/scale.cpp
/// simulates thousands of nodes with it. A `chance` is a random number from 0 to 1.
class Schedule {
 public:
  using Duration = std::chrono::microseconds;

  Schedule(const Timing& timing, unsigned nodes = 1) : timing_(timing), nodes_(nodes) {}
  [[nodiscard]] const Timing& timing() const { return timing_; }

  /// How long a node waits before its first question, which is only for the likeliest name, so that the
  /// nodes, which were started at the same moment, do not ask at the same moment.
  [[nodiscard]] Duration before_first_look(double chance) const;

  /// From a look at the name that found nothing to the next. A denial that is `valid_for` a time extends it,
  /// but not beyond the longest interval: another replica of the name server has a cache of its own, and may
  /// have the new record already.
  [[nodiscard]] Duration between_looks(Duration waited, double chance, Duration valid_for = {}) const;

  /// Before the first look that queries every name of the search list, and between two of them.
  [[nodiscard]] Duration before_first_search(std::size_t names, double chance) const;
  [[nodiscard]] Duration between_searches(std::size_t names) const;

  /// Between two looks at a name that has an address, of which `usual` is for a small job.
  [[nodiscard]] Duration between_checks(Duration usual) const;

 private:
  [[nodiscard]] Duration share(double questions) const;

  Timing timing_;
  unsigned nodes_;
};

}  // namespace rankshim::wait
