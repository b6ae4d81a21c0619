#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

/// What a profile's expressions consist of: mostly functions that they call by name. Each yields a text or
/// nothing; if an argument is nothing, so is the result. Lists are separated by commas, blanks or newlines.
namespace rankshim::platform {

/// Those that other files know. The rest depends on the texts alone: its numbers are the places in
/// `signatures`, which begins with `hostname`.
enum class Function : std::uint8_t {
  text,      ///< the text itself; the first three have no name: expression.h has the grammar
  variable,  ///< the environment variable of that name
  either,    ///< the first child that yields something: ${NAME:-…}, or a list of expressions

  // These read from the node.

  hostname,        ///< hostname()           this node's host name
  domain,          ///< domain()             what follows its first label, in the name or in /etc/hosts
  address,         ///< address()            this node's address on its default route
  file,            ///< file(PATH)           the file's content, without blanks around it; PATH is absolute
  named_variable,  ///< variable(NAME)       the variable of a name that is put together: variable(A_${B}_C)
  only_variable,   ///< only_variable(GLOB)  the variable whose name matches the glob, if it is the only one
  variables,       ///< variables(GLOB)      the names of the variables that match and are not 0, by comma

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
  /// What a message says of the first argument if the function yields nothing; {} is the second. Nothing is
  /// said of one that decides whether an expression applies at all.
  std::string_view complaint;
  /// What the function makes of its arguments' texts; null if evaluation.cpp evaluates it.
  std::optional<std::string> (*compute)(std::span<const std::string> texts) = nullptr;
  std::uint8_t first_number = any_count;  ///< the first argument that has to be a number if it is a text

  static constexpr std::uint8_t any_count = 32;
};

/// By their functions' numbers.
extern const std::span<const Signature> signatures;

inline const Signature& signature(Function function) {
  return signatures[static_cast<std::size_t>(function) - static_cast<std::size_t>(Function::hostname)];
}

/// The function of that name; nothing if there is none.
std::optional<Function> function_named(std::string_view name);

}  // namespace rankshim::platform
