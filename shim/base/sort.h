#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace rankshim {

/// Sorts what is short, or in order but for a few: by insertion, stable. Each std::sort is 3 KiB of the
/// binary.
template <class T, class Before>
void insertion_sort(std::vector<T>& values, Before before) {
  for (std::size_t i = 1; i < values.size(); ++i)
    for (std::size_t at = i; at > 0 && before(values[at], values[at - 1]); --at)
      std::swap(values[at], values[at - 1]);
}

}  // namespace rankshim
