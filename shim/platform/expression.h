#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "platform/profile.h"

/// The language of a profile's expressions.
///
///     expression = call | template
///     template   = { text | "$" LET | "${" NAME "}" | "${" NAME ":-" expression "}" }
///     call       = FUNCTION "(" [ expression { "," expression } ] ")"
///
/// `${A}-${B:-0}` joins texts. `first_host(${HOSTS})` calls a function of functions.h, and so does `join(…)`,
/// which joins texts that contain calls. `$table` is the expression of that name in [let]. A variable that is
/// not set (or is empty) yields nothing, and then whatever contains it yields nothing either, unless there is
/// a default. Blanks around an expression are ignored. A text may not contain `$`, nor, within a call,
/// commas, parentheses, semicolons and quotes, nor, within a default, a closing brace.
namespace rankshim::platform {

/// The tables of profiles, and the memory that holds them.
struct OwnedTables {
  std::vector<Step> steps;
  std::vector<std::uint16_t> sizes;  ///< for each step, the most steps that its evaluation takes
  std::vector<std::uint16_t> children;
  std::vector<Piece> texts;
  std::vector<Condition> conditions;
  std::vector<Alternative> alternatives;
  std::vector<FactExpression> expressions;
  std::vector<Role> roles;
  std::string pool;

  /// Valid until something is added.
  [[nodiscard]] Tables view() const {
    return {steps, children, texts, conditions, alternatives, expressions, roles, pool};
  }
};

/// The expressions of [let]: their roots, by name.
using Lets = std::map<std::string, std::uint16_t, std::less<>>;

/// Whether a plain text is spelt as a variable with several words (A_SIZE), or as a function.
bool was_meant_as_value(std::string_view text);

/// Adds a text; nothing if there are more texts than an index can count.
std::optional<TextIndex> add_text(std::string_view text, OwnedTables& tables);

/// Adds a step over others. Returns nothing, and sets `error`, if the tables or the expression become too
/// large.
std::optional<std::uint16_t> add_step(Op op, Function function, const std::vector<std::uint16_t>& children,
                                      OwnedTables& tables, std::string& error);

/// The limit on the nesting of calls.
inline constexpr unsigned deepest_nesting = 16;

/// The limit on the steps of an expression, including those of the [let]s that it uses: it bounds the work
/// and the depth of evaluation.
inline constexpr std::uint16_t largest_expression = 1000;

/// Parses an expression and appends its steps. Returns the index of its root, or nothing and a message in
/// `error`.
std::optional<std::uint16_t> parse_expression(std::string_view expression, const Lets& lets,
                                              OwnedTables& tables, std::string& error);

/// Parses a condition: `[!]EXPR` or `[!]EXPR=GLOB`, where EXPR is a variable's name, a call or a `$LET`.
std::optional<Condition> parse_condition(std::string_view condition, const Lets& lets, OwnedTables& tables,
                                         std::string& error);

}  // namespace rankshim::platform
