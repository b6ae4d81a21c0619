#include "base/toml_nesting.h"

#include <algorithm>

namespace rankshim {

std::optional<std::size_t> line_of_too_many_dots(std::string_view document) {
  constexpr std::size_t most = 256;
  std::size_t dots = 0, line = 1;
  for (std::size_t i = 0; i < document.size(); ++i) {
    const char c = document[i];
    if (c == '\n') ++line;
    if (c == '.' && ++dots > most) return line;
    if (c == '#') {
      i = std::min(document.find('\n', i), document.size()) - 1;
    } else if (c == '"' || c == '\'') {
      const std::string_view three = document.substr(i, 3);
      const bool multi = three.size() == 3 && three[1] == c && three[2] == c;
      i += multi ? 3 : 1;
      while (i < document.size()) {
        if (document[i] == '\\' && c == '"') {
          i += 2;
          continue;
        }
        if (document[i] == '\n') {
          ++line;
          if (!multi) break;
        }
        if (document[i] == c && (!multi || document.substr(i, 3) == three)) {
          i += multi ? 2 : 0;
          break;
        }
        ++i;
      }
    }
  }
  return std::nullopt;
}

}  // namespace rankshim
