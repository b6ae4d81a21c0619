#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "platform/profile.h"

/// The language of a profile's places.
///
///     place    = call | template
///     template = { text | "${" NAME "}" | "${" NAME ":-" place "}" }
///     call     = FUNCTION "(" [ place { "," place } ] ")"
///
/// `${A}-${B:-0}` puts texts together; `first_host(${HOSTS})` calls a function of functions.h, and so does
/// `join(…)`, which puts together what contains calls. A variable that is not set (or empty) has no text, and
/// then what contains it has none either, unless there is a default. Blanks around a place do not count. Text
/// may not contain `$`, nor, within a call, commas and parentheses, nor, within a default, a closing brace.
namespace rankshim::platform {

/// The tables of profiles, and the memory they lie in.
struct OwnedTables {
  std::vector<Step> steps;
  std::vector<std::uint16_t> children;
  std::vector<Piece> texts;
  std::vector<Condition> conditions;
  std::vector<Alternative> alternatives;
  std::vector<Place> places;
  std::vector<Role> roles;
  std::string pool;

  /// Good until something is added.
  [[nodiscard]] Tables view() const {
    return {steps, children, texts, conditions, alternatives, places, roles, pool};
  }
};

/// Adds a text; nothing where an index cannot name it any more.
std::optional<TextIndex> add_text(std::string_view text, OwnedTables& tables);

/// Calls may be nested this deep.
inline constexpr unsigned deepest_nesting = 16;

/// Parses a place and appends its steps. The index of its root; or nothing, with what is wrong in `error`.
std::optional<std::uint16_t> parse_place(std::string_view place, OwnedTables& tables, std::string& error);

/// Parses a condition: `[!]EXPR` or `[!]EXPR=GLOB`, EXPR being a variable's name or a call.
std::optional<Condition> parse_condition(std::string_view condition, OwnedTables& tables, std::string& error);

}  // namespace rankshim::platform
