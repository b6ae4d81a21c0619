#pragma once

#include <chrono>
#include <cstddef>

namespace rankshim::wait {

using Clock = std::chrono::steady_clock;  // CLOCK_MONOTONIC in libstdc++ and libc++

/// The intervals and timeouts of the wait. One struct, so that tests can shorten all of them.
struct Timing {
  using Time = std::chrono::milliseconds;
  Time shortest_interval{100};     ///< between looks, at first …
  Time longest_interval{2000};     ///< … and in the end; in between it is a 50th of the time waited
  Time search_interval{5000};      ///< between looks at every name of the search list; more in a large job
  Time query_timeout{1000};        ///< for a name server's first answer; a second try has twice as long
  Time connect_timeout{3000};      ///< so that dropped SYNs do not delay the wait by two minutes
  Time settle_time{250};           ///< how long a connection must stay open to count
  Time sidecar_settle_time{3000};  ///< the same behind a mesh's sidecar, which asks another proxy first
  Time report_interval{30000};     ///< between log lines while nothing changes
};

/// Decides when a node asks for the master's name: a capped back-off with jitter, in which no node asks more
/// often than its share of the 2,500 questions a second that all nodes of a job may ask. A look asks for the
/// likeliest name, a search for every name of the search list, and a check for one that has an address. Pure:
/// scripts/scale.cpp simulates thousands of nodes with it. A `chance` is a random number from 0 to 1.
class Schedule {
 public:
  using Duration = std::chrono::microseconds;

  Schedule(const Timing& timing, unsigned nodes = 1) : timing_(timing), nodes_(nodes) {}
  [[nodiscard]] const Timing& timing() const { return timing_; }

  /// The delay before a node's first question, which is only for the likeliest name. Nodes that were started
  /// at the same moment must not ask at the same moment.
  [[nodiscard]] Duration before_first_look(double chance) const;

  /// The interval after a look that found nothing. A negative answer that stays `valid_for` a time extends
  /// it, but not beyond the longest interval: another replica of the name server has its own cache, and may
  /// already have the new record.
  [[nodiscard]] Duration between_looks(Duration waited, double chance, Duration valid_for = {}) const;

  /// The delay before the first look that queries every name of the search list, and the interval between
  /// such looks.
  [[nodiscard]] Duration before_first_search(std::size_t names, double chance) const;
  [[nodiscard]] Duration between_searches(std::size_t names) const;

  /// The interval between looks at a name that already has an address; `usual` is that of a small job.
  [[nodiscard]] Duration between_checks(Duration usual) const;

 private:
  [[nodiscard]] Duration share(double questions) const;

  Timing timing_;
  unsigned nodes_;
};

}  // namespace rankshim::wait
