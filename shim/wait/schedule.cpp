#include "wait/schedule.h"

#include <algorithm>

namespace rankshim::wait {

namespace {

using Duration = Schedule::Duration;

constexpr unsigned small = 64;  // nodes of a job that no name server notices
constexpr unsigned most_questions = 2500;
constexpr std::size_t families = 2;

Duration times(Duration time, double factor) { return std::chrono::duration_cast<Duration>(time * factor); }

}  // namespace

bool Schedule::is_large() const { return nodes_ > small; }

/// The time in which each node may ask so many questions.
Duration Schedule::share(std::size_t questions) const {
  return is_large() ? Duration(std::chrono::seconds(questions * nodes_)) / most_questions : Duration(0);
}

/// It asks two questions if the name exists.
/// A tenth more than their share, because by chance some seconds get more.
Duration Schedule::before_first_look(double chance) const { return times(share(families), 1.1 * chance); }

/// A look asks one or two questions, two thirds of the job's share. A third is for the searches.
Duration Schedule::between_looks(Duration waited, double chance, Duration valid_for) const {
  const bool is_late = is_large() && waited >= timing_.late;
  const Duration longest = is_late ? timing_.late_interval : timing_.longest_interval;
  const Duration usual = std::clamp<Duration>(waited / 20, timing_.shortest_interval, longest);
  const Duration least = share(3);
  // The nodes of a large job begin at one moment; until they are spread over the interval they come in waves.
  const double most_by_chance = least > usual ? 0.5 : 0.1;
  return times(std::max({usual, least, std::min(valid_for, longest)}), 1 + most_by_chance * (2 * chance - 1));
}

Duration Schedule::before_first_search(std::size_t names, double chance) const {
  return is_large() ? times(between_searches(names), chance) : Duration(0);
}

/// A quarter of the job's share.
Duration Schedule::between_searches(std::size_t names) const {
  return std::max<Duration>(timing_.search_interval, share(4 * families * names));
}

Duration Schedule::between_checks(Duration usual) const {
  constexpr std::size_t questions = 10;  // a name with three search domains has 8
  return std::max(usual, share(questions));
}

}  // namespace rankshim::wait
