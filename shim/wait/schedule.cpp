#include "wait/schedule.h"

#include <algorithm>

namespace rankshim::wait {

namespace {

using Duration = Schedule::Duration;

constexpr double most_questions = 2500;  // per second, of all nodes
constexpr double of_look = 2;            // A, and AAAA if the name exists
constexpr double of_check = 10;          // a name with three search domains has 8

Duration times(Duration time, double factor) { return std::chrono::duration_cast<Duration>(time * factor); }

}  // namespace

/// The time in which every node may ask this many questions, if nobody asks anything else.
Duration Schedule::share(double questions) const {
  return times(std::chrono::seconds(1), questions * nodes_ / most_questions);
}

/// A tenth more than the share, because by chance some seconds get more.
Duration Schedule::before_first_look(double chance) const { return times(share(1.1 * of_look), chance); }

/// Looks take two thirds of the job's share, and searches a quarter. The jitter is large, because nodes that
/// start at the same moment would otherwise ask in waves.
Duration Schedule::between_looks(Duration waited, double chance, Duration valid_for) const {
  const Duration usual =
      std::clamp<Duration>(waited / 50, timing_.shortest_interval, timing_.longest_interval);
  const Duration denied = std::min<Duration>(valid_for, timing_.longest_interval);
  return times(std::max({usual, share(1.5 * of_look), denied}), 0.5 + chance);
}

/// With few nodes the search comes at once: a separate look before it pays only if the delay is longer than
/// the shortest interval.
Duration Schedule::before_first_search(std::size_t names, double chance) const {
  const Duration longest = share(4 * of_look * static_cast<double>(names));
  return longest < timing_.shortest_interval ? Duration::zero() : times(longest, chance);
}

Duration Schedule::between_searches(std::size_t names) const {
  return std::max<Duration>(timing_.search_interval, share(4 * of_look * static_cast<double>(names)));
}

Duration Schedule::between_checks(Duration usual) const { return std::max(usual, share(of_check)); }

}  // namespace rankshim::wait
