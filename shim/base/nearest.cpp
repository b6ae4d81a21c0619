#include "base/nearest.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <vector>

#include "base/text.h"

namespace rankshim {
namespace {

/// Whether two characters are the same in an option's name, in either spelling.
bool same(char a, char b) {
  if (a == '_') a = '-';
  if (b == '_') b = '-';
  return to_lower(a) == to_lower(b);
}

/// The Levenshtein distance.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (same(a[i - 1], b[j - 1]) ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row[b.size()];
}

bool begins_with(std::string_view name, std::string_view begin) {
  return name.size() >= begin.size() && std::equal(begin.begin(), begin.end(), name.begin(), same);
}

}  // namespace

std::string_view nearest(std::string_view wrong, std::span<const std::string_view> known) {
  constexpr std::size_t longest = 64;  // a longer name is no typing mistake, and the time is quadratic
  if (wrong.size() > longest) return {};
  constexpr std::size_t shortest_beginning = 3;  // a shorter one begins too many names
  std::string_view best;
  bool best_begins = false;
  std::size_t best_distance = wrong.size() / 3 + 2;
  for (const std::string_view candidate : known) {
    const bool begins = wrong.size() >= shortest_beginning && begins_with(candidate, wrong);
    if (best_begins && !begins) continue;
    const std::size_t d = distance(wrong, candidate);
    if (d < best_distance || (begins && !best_begins)) {
      best_distance = d;
      best = candidate;
      best_begins = begins;
    }
  }
  return best;
}

}  // namespace rankshim
