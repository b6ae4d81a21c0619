#pragma once

#include <algorithm>
#include <functional>

namespace rankshim {

/// Sorts the range, by the standard library's heap: a use of it adds 1 kB to the binary, one of std::sort 4
/// kB (scripts/bench shows the size). Not stable.
template <class Range, class Projection = std::identity, class Before = std::ranges::less>
void heap_sort(Range& values, Before before = {}, Projection projection = {}) {
  std::ranges::make_heap(values, before, projection);
  std::ranges::sort_heap(values, before, projection);
}

}  // namespace rankshim
