#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <numeric>
#include <random>
#include <vector>

#include "wait/schedule.h"

namespace rankshim::wait::test {

/// What the nodes of a job ask a name server while they wait.
struct Questions {
  std::vector<unsigned> asked;  ///< in each second, by all nodes
  std::vector<double> found;    ///< after how many seconds each node found the record; sorted

  [[nodiscard]] unsigned most() const { return *std::max_element(asked.begin(), asked.end()); }
  [[nodiscard]] unsigned mean(unsigned from, unsigned to) const {
    return std::accumulate(asked.begin() + from, asked.begin() + to, 0U) / (to - from);
  }
};

/// Simulates nodes that start at the same moment, with the real schedule and reproducible chances. A short
/// name with a search list of four appears after `there`, and the server answers at once.
inline Questions simulate_questions(unsigned nodes, std::chrono::seconds there) {
  using Duration = Schedule::Duration;
  using std::chrono::seconds;
  constexpr std::size_t names = 4;
  const Schedule schedule({}, nodes);
  std::minstd_rand random(nodes);
  const auto chance = [&] { return std::uniform_real_distribution<double>()(random); };
  Questions questions;
  const auto ask = [&](Duration when, unsigned count) {
    const auto second = static_cast<std::size_t>(when / seconds(1));
    questions.asked.resize(std::max(questions.asked.size(), second + 1));
    questions.asked[second] += count;
  };
  for (unsigned rank = 0; rank < nodes; ++rank) {
    const double place = rank == 0 ? 0 : chance();
    Duration when = schedule.before_first_look(place);
    Duration search = when + schedule.before_first_search(names, place);
    for (; when < there; when += schedule.between_looks(when, chance())) {
      const bool all = when >= search;
      ask(when, all ? 2 * names : 1);
      if (all) search = when + schedule.between_searches(names);
    }
    ask(when, 2);
    questions.found.push_back(std::chrono::duration<double>(when - there).count());
  }
  std::sort(questions.found.begin(), questions.found.end());
  return questions;
}

}  // namespace rankshim::wait::test
