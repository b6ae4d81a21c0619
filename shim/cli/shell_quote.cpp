#include "cli/shell_quote.h"

#include "base/text.h"

namespace rankshim {

std::string shell_quote(std::string_view word) {
  constexpr std::string_view plain =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-./:=,+@%";
  const bool is_plain = !word.empty() && word.find_first_not_of(plain) == std::string_view::npos;
  return is_plain ? std::string(word) : in_single_quotes(word);
}

std::string shell_quote(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& word : words) {
    if (!line.empty()) line += ' ';
    line += shell_quote(word);
  }
  return line;
}

}  // namespace rankshim
