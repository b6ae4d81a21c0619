#pragma once

#include <chrono>
#include <cstddef>

#include "wait/timing.h"

namespace rankshim::wait {

/// When a node asks for the master's name, so that all nodes of a large job together ask fewer than 2,500
/// questions in a second. A small job asks as often as it likes. Pure: scripts/scale.cpp simulates thousands
/// of nodes with it. A `chance` is a random number from 0 to 1.
class Schedule {
 public:
  using Duration = std::chrono::microseconds;

  // NOLINTNEXTLINE(google-explicit-constructor): a lone node has nothing but its timing
  Schedule(const Timing& timing, unsigned nodes = 1) : timing_(timing), nodes_(nodes) {}
  [[nodiscard]] const Timing& timing() const { return timing_; }

  /// How long a large job's node waits before its first question, which is only for the likeliest name, so
  /// that the nodes, which were started at the same moment, do not ask at the same moment.
  [[nodiscard]] Duration before_first_look(double chance) const;

  /// From a look at the name that found nothing to the next. The interval is short at first, when a record is
  /// about to appear, and grows, because a job that has waited minutes can wait some seconds more. It differs
  /// a little on each node, so that thousands do not query at the same moment. A negative answer that is
  /// `valid_for` a time extends it, but never beyond the longest interval: several replicas behind one
  /// address have separate caches, and another one may have the new record already.
  [[nodiscard]] Duration between_looks(Duration waited, Duration valid_for, double chance) const;

  /// From a try of the port, which no name server notices, to the next.
  [[nodiscard]] Duration between_tries(Duration waited, double chance) const;

  /// Before the first look that queries every name of the search list, and between two of them.
  [[nodiscard]] Duration before_first_search(std::size_t names, double chance) const;
  [[nodiscard]] Duration between_searches(std::size_t names) const;

  /// Between two looks at a name that has an address, of which `usual` is for a small job.
  [[nodiscard]] Duration between_checks(Duration usual) const;
  [[nodiscard]] bool is_large() const;

 private:
  [[nodiscard]] Duration share(std::size_t questions) const;

  Timing timing_;
  unsigned nodes_;
};

}  // namespace rankshim::wait
