#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// The language of a profile's expressions.
///
///     expression = call | template
///     template   = { text | "$" LET | "${" NAME "}" | "${" NAME ":-" expression "}" }
///     call       = FUNCTION "(" [ expression { "," expression } ] ")"
///
/// `${A}-${B:-0}` joins texts. `first_host(${HOSTS})` calls a function (they are in functions.cpp), and so
/// does `join(…)`, which joins texts that contain calls. `$table` is the expression of that name in [let]. A
/// variable that is not set (or is empty) yields nothing, and whatever contains it then yields nothing
/// either, unless there is a default. List entries are separated by commas, blanks or newlines. Blanks around
/// an expression are ignored. A text must not contain `$` or `{`; within a call, also no commas, parentheses,
/// semicolons or quotes; within a default, also no closing brace.
namespace rankshim::platform {

/// The functions that other files refer to. The others depend only on their arguments' texts; their numbers
/// follow from their place in `signatures()`, which begins with `hostname`.
enum class Function : std::uint8_t {
  text,      ///< the text itself; the first three are part of the grammar and have no name
  variable,  ///< the environment variable of that name
  either,    ///< the first child that yields something: ${NAME:-…}, or a list of expressions

  // These read from the node.

  hostname,        ///< hostname()           this node's host name
  domain,          ///< domain()             what follows the first label, in the name or in /etc/hosts
  address,         ///< address()            this node's address on its default route
  file,            ///< file(PATH)           the file's content, without blanks around it; PATH is absolute
  named_variable,  ///< variable(NAME)       the variable whose name is composed: variable(A_${B}_C)
  only_variable,   ///< only_variable(GLOB)  the variable whose name matches the glob, if only one does
  variables,       ///< variables(GLOB)      the names of the matching variables that are not 0, by comma

  join,      ///< join(A, B, …)                 the texts one after the other; ${A}-${B} is one too
  only_if,   ///< only_if(TEXT, GLOB [,RESULT]) RESULT, or TEXT itself, if TEXT matches the glob
  unless,    ///< unless(EXPRESSION, RESULT)    RESULT if EXPRESSION yields nothing
  field,     ///< field(JSON, PATH)             base/json.h
  positive,  ///< positive(A)                   A if it is a number above 0
  differ,    ///< differ(A, B)                  A if the two are neither the same text nor the same number
};

/// A function's name and arguments.
struct Signature {
  std::string_view name;
  std::uint8_t least;
  std::uint8_t most;
  /// What a message says about the first argument if the function yields nothing; {} is the second. Empty for
  /// a function that decides whether an expression applies at all.
  std::string_view complaint;
  /// Computes the result from the arguments' texts; null if evaluation.cpp evaluates the function.
  std::optional<std::string> (*compute)(std::span<const std::string> texts) = nullptr;
  std::uint8_t first_number = any_count;  ///< from this argument on, a plain text must be a number

  static constexpr std::uint8_t any_count = 32;
};

/// All signatures, indexed by the function's number minus that of `hostname`.
std::span<const Signature> signatures();

inline const Signature& signature(Function function) {
  return signatures()[static_cast<std::size_t>(function) - static_cast<std::size_t>(Function::hostname)];
}

/// The function of that name; nullopt if there is none.
std::optional<Function> function_named(std::string_view name);

/// Owns what expressions and profiles are views of.
class Arena {
 public:
  template <class Thing>
  const Thing& keep(Thing thing) {
    auto kept = std::make_shared<const Thing>(std::move(thing));
    things_.push_back(kept);
    return *kept;
  }

 private:
  std::vector<std::shared_ptr<const void>> things_;
};

/// A parsed expression. A condition is an expression too, and holds if it yields something: NAME is the
/// variable, EXPR=GLOB is only_if(EXPR, GLOB), and !EXPR is unless(EXPR, yes).
struct Expression {
  Function function = Function::text;
  std::string_view text;  ///< for Function::text; for Function::variable, its name
  std::span<const Expression> children;

  /// Whether this is the condition that something is absent.
  [[nodiscard]] bool is_negative() const { return function == Function::unless; }
};

/// Adds the variables that the expression mentions, set or not, each once.
void add_variables(const Expression& expression, std::vector<std::string>& names);

/// Whether a plain text is spelt like a variable with several words (A_SIZE), or like a function.
bool was_meant_as_value(std::string_view text);

/// The limit on the nesting of calls and defaults.
inline constexpr unsigned deepest_nesting = 16;

/// An expression that applies the function to those children.
Expression combined(Function function, std::vector<Expression> children, Arena& arena);

/// Whether the expression has more than 1000 parts, including those of its [let]s. The limit bounds the work
/// of evaluation.
bool is_too_large(const Expression& expression);
inline constexpr const char* too_large = "the expression takes more than 1000 steps";

/// The expressions of [let], by name.
using Lets = std::map<std::string, Expression, std::less<>>;

/// Parses an expression. Returns nullopt and a message in `error` if it is invalid.
std::optional<Expression> parse_expression(std::string_view expression, const Lets& lets, Arena& arena,
                                           std::string& error);

/// Parses a condition: `[!]EXPR` or `[!]EXPR=GLOB`, where EXPR is a variable's name, a call or a `$LET`.
std::optional<Expression> parse_condition(std::string_view condition, const Lets& lets, Arena& arena,
                                          std::string& error);

}  // namespace rankshim::platform
