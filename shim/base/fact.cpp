#include "base/fact.h"

#include "base/text.h"

namespace rankshim {

std::string Value::source() const {
  static constexpr std::array<std::string_view, 8> kinds = {
      "option ", "env ", "file ", "config ", "hostname", "devices ", "derived from ", "default"};
  const bool is_all = origin == Origin::hostname || origin == Origin::fallback;
  return std::string(kinds[static_cast<std::size_t>(origin)]) + (is_all ? "" : detail);
}

void Value::append_inputs(std::string_view fact, std::vector<std::string>& names) const {
  std::string_view rest = detail.empty() ? fact : std::string_view(detail);
  while (!rest.empty()) names.emplace_back(take_part(rest, ", "));
}

bool Value::from_user() const {
  return origin == Origin::option || origin == Origin::config ||
         (origin == Origin::variable && std::string_view(detail).starts_with("RANKSHIM_"));
}

std::string in_words(Fact fact, const Value& value) {
  if (value.origin == Origin::variable || value.origin == Origin::option)
    return printable(value.detail) + "=" + in_quotes(value.text);
  return std::string(name(fact)) + "=" + in_quotes(value.text) + " (" + value.source() + ")";
}

}  // namespace rankshim
