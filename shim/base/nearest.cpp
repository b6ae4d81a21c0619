#include "base/nearest.h"

#include <algorithm>
#include <compare>
#include <cstddef>
#include <numeric>
#include <utility>
#include <vector>

#include "base/text.h"

namespace rankshim {
namespace {

constexpr std::size_t shortest_beginning = 3;  // a shorter one begins too many names

/// Whether two characters are the same in an option's name, in either spelling.
bool same(char a, char b) {
  if (a == '_') a = '-';
  if (b == '_') b = '-';
  return to_lower(a) == to_lower(b);
}

/// How far a known name is. Of two that take the same steps, a whole name is nearer.
struct Distance {
  std::size_t steps = 0;
  bool to_beginning = false;

  auto operator<=>(const Distance&) const = default;
};

/// For each beginning of `known`, the steps to it from `wrong`: a character too much, one too few, another
/// one, or two neighbours in the wrong order.
std::vector<std::size_t> steps_to_beginnings(std::string_view wrong, std::string_view known) {
  std::vector<std::size_t> before, last(known.size() + 1), row(known.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= wrong.size(); ++i) {
    before = std::exchange(last, row);
    row[0] = i;
    for (std::size_t j = 1; j <= known.size(); ++j) {
      const std::size_t replaced = last[j - 1] + (same(wrong[i - 1], known[j - 1]) ? 0 : 1);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, replaced});
      const bool swapped =
          i > 1 && j > 1 && same(wrong[i - 1], known[j - 2]) && same(wrong[i - 2], known[j - 1]);
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row;
}

/// The distance to `known`, or to its first words if that takes one step only.
Distance distance(std::string_view wrong, std::string_view known) {
  const auto steps = steps_to_beginnings(wrong, known);
  Distance least{steps.back()};
  if (wrong.size() < shortest_beginning) return least;
  for (std::size_t end = 0; end < known.size(); ++end)
    if (same(known[end], '-') && steps[end] <= 1) least = std::min(least, Distance{steps[end], true});
  return least;
}

bool begins_with(std::string_view name, std::string_view begin) {
  return name.size() >= begin.size() && std::equal(begin.begin(), begin.end(), name.begin(), same);
}

}  // namespace

std::string_view nearest(std::string_view wrong, std::span<const std::string_view> known,
                         std::optional<std::size_t> most_steps) {
  constexpr std::size_t longest = 64;  // a longer name is no typing mistake, and the time is quadratic
  if (wrong.size() > longest) return {};
  std::string_view best;
  bool best_begins = false;
  Distance best_distance{most_steps.value_or(wrong.size() / 3 + 1) + 1};
  for (const std::string_view candidate : known) {
    const bool begins = wrong.size() >= shortest_beginning && begins_with(candidate, wrong);
    if (best_begins && !begins) continue;
    const Distance far = distance(wrong, candidate);
    if (far < best_distance || (begins && !best_begins)) {
      best_distance = far;
      best = candidate;
      best_begins = begins;
    }
  }
  return best;
}

}  // namespace rankshim
