#include "base/glob.h"

#include <cstddef>

namespace rankshim {

bool fits(std::string_view text, std::string_view glob) {
  constexpr auto none = std::string_view::npos;
  std::size_t t = 0, g = 0, star = none, retry = 0;
  while (t < text.size()) {
    if (g < glob.size() && glob[g] == '*') {
      star = g++;
      retry = t;
    } else if (g < glob.size() && (glob[g] == '?' || glob[g] == text[t])) {
      ++g;
      ++t;
    } else if (star != none) {
      g = star + 1;
      t = ++retry;
    } else {
      return false;
    }
  }
  return glob.find_first_not_of('*', g) == none;
}

}  // namespace rankshim
