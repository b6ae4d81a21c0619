#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "platform/profile.h"

/// The language of a profile's places.
///
///     place    = call | template
///     template = { text | "$" LET | "${" NAME "}" | "${" NAME ":-" place "}" }
///     call     = FUNCTION "(" [ place { "," place } ] ")"
///
/// `${A}-${B:-0}` puts texts together; `first_host(${HOSTS})` calls a function of functions.h, and so does
/// `join(…)`, which puts together what contains calls. `$table` is the expression that [let] calls so. A
/// variable that is not set (or empty) has no text, and then what contains it has none either, unless there
/// is a default. Blanks around a place do not count. Text may not contain `$`, nor, within a call, commas,
/// parentheses, semicolons and quotes, nor, within a default, a closing brace.
namespace rankshim::platform {

/// The tables of profiles, and the memory they lie in.
struct OwnedTables {
  std::vector<Step> steps;
  std::vector<std::uint16_t> sizes;  ///< of each step: how many steps its evaluation takes at most
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

/// The expressions of [let]: their roots, by name.
using Lets = std::map<std::string, std::uint16_t, std::less<>>;

/// Adds a text; nothing where an index cannot name it any more.
std::optional<TextIndex> add_text(std::string_view text, OwnedTables& tables);

/// Adds a step over others, or nothing with `error` where the tables or the expression become too large.
std::optional<std::uint16_t> add_step(Op op, Function function, const std::vector<std::uint16_t>& children,
                                      OwnedTables& tables, std::string& error);

/// Calls may be nested this deep.
inline constexpr unsigned deepest_nesting = 16;

/// An expression may have so many steps, those of the [let]s that it uses included: it bounds the work and
/// the depth of evaluating it.
inline constexpr std::uint16_t largest_expression = 1000;

/// Parses a place and appends its steps. The index of its root; or nothing, with what is wrong in `error`.
std::optional<std::uint16_t> parse_place(std::string_view place, const Lets& lets, OwnedTables& tables,
                                         std::string& error);

/// Parses a condition: `[!]EXPR` or `[!]EXPR=GLOB`, EXPR being a variable's name, a call or a `$LET`.
std::optional<Condition> parse_condition(std::string_view condition, const Lets& lets, OwnedTables& tables,
                                         std::string& error);

}  // namespace rankshim::platform
