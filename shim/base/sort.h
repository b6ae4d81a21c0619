#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace rankshim {

/// Sorts a short or almost sorted range, by insertion; stable. Each use of std::sort would add 3 KiB to the
/// binary.
template <class T, class Before>
void insertion_sort(std::vector<T>& values, Before before) {
  for (std::size_t i = 1; i < values.size(); ++i)
    for (std::size_t at = i; at > 0 && before(values[at], values[at - 1]); --at)
      std::swap(values[at], values[at - 1]);
}

}  // namespace rankshim
