#pragma once

#include <charconv>
#include <concepts>
#include <cstddef>
#include <optional>
#include <string_view>
#include <system_error>

namespace rankshim {

/// Cuts the number at the start of a text off it. Returns nothing if there is none that the type can hold.
template <std::integral Number>
std::optional<Number> take_number(std::string_view& text, int base = 10) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  if (error != std::errc{}) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

/// The number at the start of a text; nothing if there is none that the type can hold.
template <std::integral Number>
std::optional<Number> first_number(std::string_view text) {
  return take_number<Number>(text);
}

/// The number that the whole text is, without blanks and without "+". Returns nothing if it is no number that
/// the type can hold.
template <std::integral Number>
std::optional<Number> parse_number(std::string_view text, int base = 10) {
  const std::optional<Number> number = take_number<Number>(text, base);
  return text.empty() ? number : std::nullopt;
}

}  // namespace rankshim
