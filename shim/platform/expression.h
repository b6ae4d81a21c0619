#pragma once

#include <cstddef>
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
/// a default. Blanks around an expression are ignored. A text may not contain `$` and `{`, nor, within a
/// call, commas, parentheses, semicolons and quotes, nor, within a default, a closing brace.
namespace rankshim::platform {

/// The expressions of [let], by name.
using Lets = std::map<std::string, Expression, std::less<>>;

/// Adds the variables that the expression mentions, each once, whether they are set or not.
void add_variables(const Expression& expression, std::vector<std::string>& names);

/// Whether a plain text is spelt as a variable with several words (A_SIZE), or as a function.
bool was_meant_as_value(std::string_view text);

/// The limit on the nesting of calls and defaults.
inline constexpr unsigned deepest_nesting = 16;

/// The function on those children.
Expression combined(Function function, std::vector<Expression> children, Store& store);

/// Whether it has more than 1000 parts, including those of the [let]s that it uses: the limit bounds the work
/// and the depth of evaluation.
bool is_too_large(const Expression& expression);
inline constexpr const char* too_large = "the expression takes more than 1000 steps";

/// Parses an expression. Returns nothing and a message in `error` if it is wrong.
std::optional<Expression> parse_expression(std::string_view expression, const Lets& lets, Store& store,
                                           std::string& error);

/// Parses a condition: `[!]EXPR` or `[!]EXPR=GLOB`, where EXPR is a variable's name, a call or a `$LET`.
std::optional<Expression> parse_condition(std::string_view condition, const Lets& lets, Store& store,
                                          std::string& error);

}  // namespace rankshim::platform
