#include "launchers/by_name/flags.h"

#include <algorithm>

#include "base/text.h"

namespace rankshim::by_name {
namespace {

bool same_spelling(std::string_view a, std::string_view b) {
  const auto dash = [](char c) { return c == '_' ? '-' : c; };
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (dash(a[i]) != dash(b[i])) return false;
  return true;
}

bool begins_script(std::string_view word) {
  return word.ends_with(".py") || word == "-m" || word == "--module" || word == "--";
}

}  // namespace

DescribedFlag::DescribedFlag(std::string_view text) {
  const auto end = std::min(text.find_first_of("= "), text.size());
  spellings = text.substr(0, end);
  name = spellings.substr(spellings.rfind('|') + 1);
  if (end == text.size()) return;
  between = text[end];
  value = text.substr(end + 1);
}

std::string_view DescribedFlag::placeholder() const {
  const bool whole = value.starts_with('{') && value.find('}') == value.size() - 1;
  return whole ? value.substr(1, value.size() - 2) : std::string_view();
}

GivenFlags::GivenFlags(const std::vector<std::string>& words, std::size_t from)
    : words_(words), from_(from), to_(from) {
  while (to_ < words.size() && !begins_script(words[to_])) ++to_;
}

std::optional<std::string_view> GivenFlags::value(const DescribedFlag& flag) const {
  std::optional<std::string_view> found;
  for (std::size_t at = from_; at < to_; ++at) {
    const std::string_view word = words_[at];
    const std::string_view name = word.substr(0, word.find('='));
    for (std::string_view rest = flag.spellings; !rest.empty();) {
      const std::string_view spelling = take_part(rest, "|");
      if (same_spelling(name, spelling)) {
        const bool is_next = name.size() == word.size() && flag.between != 0 && at + 1 < to_;
        found =
            is_next ? std::string_view(words_[at + 1]) : word.substr(std::min(name.size() + 1, word.size()));
      } else if (spelling.size() == 2 && word.starts_with(spelling) && all_digits(word.substr(2))) {
        found = word.substr(2);
      }
    }
  }
  return found;
}

}  // namespace rankshim::by_name
