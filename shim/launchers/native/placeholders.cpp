#include "launchers/native/placeholders.h"

#include <algorithm>

namespace rankshim::native {

std::string filled_in(std::string_view word, const Placeholders& placeholders) {
  std::string out;
  for (auto brace = word.find('{'); brace != std::string_view::npos; brace = word.find('{')) {
    const std::string_view rest = word.substr(brace + 1);
    const bool doubled = rest.starts_with('{');
    const std::string_view end = doubled ? "}}" : "}";
    const auto at = rest.find(end, doubled ? 1 : 0);
    const std::string_view name = at == std::string_view::npos
                                      ? std::string_view()
                                      : rest.substr(doubled ? 1 : 0, at - (doubled ? 1 : 0));
    const auto found = std::ranges::find(placeholders, name, &Placeholders::value_type::first);
    const bool of_shell = brace > 0 && word[brace - 1] == '$';
    const bool macro = of_shell && !doubled && name == "local_rank";
    out += word.substr(0, macro ? brace - 1 : brace);
    if (found == placeholders.end() || (of_shell && !macro)) {
      out += '{';
      word = rest;
      continue;
    }
    out += doubled ? "{" + std::string(name) + "}" : found->second;
    word = rest.substr(at + end.size());
  }
  return out += word;
}

}  // namespace rankshim::native
