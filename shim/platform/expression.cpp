#include "platform/expression.h"

#include <algorithm>

#include "base/text.h"

namespace rankshim::platform {
namespace {

constexpr std::string_view blanks = " \t\r\n";
constexpr std::string_view no_stops;
constexpr std::string_view argument_stops = ",()";
constexpr std::string_view default_stops = "}";

bool is_name_part(char c) { return c == '_' || is_letter_or_digit(c); }

/// A part of the profile, quoted for a message.
std::string shown(std::string_view text) { return "'" + std::string(text) + "'"; }

/// Recursive-descent parser of one expression. Stops at the first mistake, by dropping the rest of the text.
class Parser {
 public:
  Parser(std::string_view text, const Lets& lets, Arena& arena, std::string& error)
      : text_(text), lets_(lets), arena_(arena), error_(error) {}

  Expression whole() {
    const Expression root = part(no_stops);
    if (at_ != text_.size()) fail("nothing may follow the function's closing parenthesis");
    return root;
  }

  /// Parses [!]EXPR or [!]EXPR=GLOB.
  Expression condition() {
    const bool is_negative = take("!");
    Expression result = tested();
    if (take("=")) result = combined(Function::only_if, {result, {Function::text, glob(), {}}}, arena_);
    if (at_ != text_.size()) fail(condition_form);
    return is_negative ? combined(Function::unless, {result, {Function::text, "yes", {}}}, arena_) : result;
  }

 private:
  static constexpr const char* condition_form =
      "a condition is a variable's name without ${}, a function call or a $LET, with ! before it or =GLOB "
      "after it, and without blanks between them";

  /// Parses what a condition tests: the name of a variable, a call or a $LET.
  Expression tested() {
    const std::string_view name = name_here();
    if (name.empty()) return take("$") && !name_here().empty() ? let(name_here()) : fail(condition_form);
    if (text_.substr(at_ + name.size()).starts_with('(')) return call(name);
    at_ += name.size();
    return {Function::variable, name, {}};
  }

  std::string_view glob() {
    const std::string_view glob = text_.substr(at_);
    constexpr std::size_t longest_glob = 256;  // limits the work of matching
    if (glob.empty())
      fail("a glob is expected after '='; write !NAME for a variable that is not set or is empty");
    else if (glob.find('$') != std::string_view::npos)
      fail("a glob cannot contain variables; differ(A, B) and only_if(A, GLOB, RESULT) compare expressions");
    else if (glob.find_first_of("\"'") != std::string_view::npos ||
             blanks.find(glob[0]) != std::string_view::npos || glob[0] == '=' || glob.size() > longest_glob)
      fail("a glob cannot contain quotes, begin with a blank or '=', or exceed 256 characters");
    at_ = text_.size();
    return glob;
  }

  /// Parses an expression up to one of the stop characters or the end.
  Expression part(std::string_view stops) {
    if (depth_ == deepest_nesting)
      return fail("this is nested more than " + std::to_string(deepest_nesting) + " deep");
    ++depth_;
    skip_blanks();
    const std::string_view name = name_here();
    const bool is_call = !name.empty() && text_.substr(at_ + name.size()).starts_with('(');
    const Expression result = is_call ? call(name) : text_and_variables(stops);
    if (is_call) skip_blanks();
    --depth_;
    return result;
  }

  Expression text_and_variables(std::string_view stops) {
    std::vector<Expression> parts;
    while (at_ < text_.size() && stops.find(text_[at_]) == std::string_view::npos)
      parts.push_back(text_[at_] == '$' ? variable() : literal(stops));
    if (!parts.empty() && parts.back().function == Function::text) {
      std::string_view& last = parts.back().text;
      last =
          last.substr(0, last.find_last_not_of(blanks) + 1);  // blanks before a stop are not part of the text
      if (last.empty()) parts.pop_back();
    }
    if (parts.empty()) return fail("an expression is expected here");
    return parts.size() == 1 ? parts.front() : combined(Function::join, std::move(parts), arena_);
  }

  Expression literal(std::string_view stops) {
    const std::size_t start = at_;
    for (; at_ < text_.size() && text_[at_] != '$' && stops.find(text_[at_]) == std::string_view::npos;
         ++at_) {
      if (text_[at_] == '{') return fail("text cannot contain a brace; write a variable as ${NAME}");
      if (stops == argument_stops && std::string_view(";\"'").find(text_[at_]) != std::string_view::npos)
        return fail("an argument cannot contain quotes or ';'; separate arguments with ','");
    }
    return {Function::text, text_.substr(start, at_ - start), {}};
  }

  Expression variable() {
    ++at_;
    if (!name_here().empty()) return let(name_here());
    if (!take("{")) return fail("'$' begins a variable: write ${NAME}");
    const std::string_view name = name_here();
    if (name.empty()) return fail("a variable's name is expected here");
    at_ += name.size();
    Expression result{Function::variable, name, {}};
    if (take(":-")) result = combined(Function::either, {result, part(default_stops)}, arena_);
    return take("}") ? result : fail("'}' or ':-' is expected here");
  }

  Expression let(std::string_view name) {
    const auto found = lets_.find(name);
    if (found == lets_.end()) {
      std::vector<std::string_view> known;
      for (const auto& [one, expression] : lets_) known.push_back(one);
      return fail("there is no " + shown(name) + " in [let] above this" + and_nearest(nearest(name, known)) +
                  " (a variable is written ${NAME})");
    }
    at_ += name.size();
    return found->second;
  }

  Expression call(std::string_view name) {
    const auto function = function_named(name);
    if (!function) {
      std::vector<std::string_view> known(signatures().size());
      std::ranges::transform(signatures(), known.begin(), &Signature::name);
      return fail("there is no function " + shown(name) + and_nearest(nearest(name, known)));
    }
    const auto& [named, least, most, complaint, compute, first_number] = signature(*function);
    at_ += name.size() + 1;
    std::vector<Expression> arguments;
    skip_blanks();
    while (!take(")")) {
      if (!arguments.empty() && !take(",")) return fail("',' or ')' is expected here");
      arguments.push_back(part(argument_stops));
    }
    if (arguments.size() < least || arguments.size() > most) {
      std::string count = std::to_string(least);
      if (most == Signature::any_count)
        count += " or more";
      else if (most != least)
        count += " to " + std::to_string(most);
      return fail(shown(name) + " takes " + count + (count == "1" ? " argument, not " : " arguments, not ") +
                  std::to_string(arguments.size()));
    }
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      if (arguments[i].function != Function::text) continue;
      const std::string_view text = arguments[i].text;
      if (i >= first_number && !all_digits(text)) return fail(shown(text) + " is not a number");
      // For most functions the first argument differs between nodes. The others may be constants such as
      // globs.
      if (i == 0 && *function > Function::join && was_meant_as_value(text))
        return fail(shown(text) +
                    " is text, not the value of a variable: write ${NAME}, or name() for a function");
    }
    return combined(*function, std::move(arguments), arena_);
  }

  Expression fail(const std::string& what) {
    if (error_.empty()) error_ = shown(text_) + ", character " + std::to_string(at_ + 1) + ": " + what;
    at_ = text_.size();
    return {};
  }

  /// Consumes `mark` if it comes next.
  bool take(std::string_view mark) {
    const bool is_here = text_.substr(at_).starts_with(mark);
    if (is_here) at_ += mark.size();
    return is_here;
  }

  [[nodiscard]] std::string_view name_here() const {
    std::size_t end = at_;
    while (end < text_.size() && is_name_part(text_[end])) ++end;
    const std::string_view name = text_.substr(at_, end - at_);
    return is_shell_name(name) ? name : std::string_view();
  }

  void skip_blanks() { at_ = std::min(text_.find_first_not_of(blanks, at_), text_.size()); }

  std::string_view text_;
  const Lets& lets_;
  Arena& arena_;
  std::string& error_;
  std::size_t at_ = 0;
  unsigned depth_ = 0;
};

/// Subtracts the number of an expression's parts from `left`; false if there are more than `left`.
bool subtract_parts(std::size_t& left, const Expression& expression) {
  if (left == 0) return false;
  --left;
  return std::ranges::all_of(expression.children,
                             [&](const Expression& child) { return subtract_parts(left, child); });
}

std::optional<Expression> parsed(std::string_view text, Expression (Parser::*as)(), const Lets& lets,
                                 Arena& arena, std::string& error) {
  error.clear();
  const Expression root = (Parser(arena.keep(std::string(trimmed(text))), lets, arena, error).*as)();
  if (error.empty() && is_too_large(root)) error = shown(text) + ": " + too_large;
  return error.empty() ? std::optional(root) : std::nullopt;
}

}  // namespace

void add_variables(const Expression& expression, std::vector<std::string>& names) {
  if (expression.function == Function::variable) add_once(std::string(expression.text), names);
  for (const Expression& child : expression.children) add_variables(child, names);
}

bool was_meant_as_value(std::string_view text) {
  if (function_named(text)) return true;
  return is_shell_name(text) && text.find('_') != std::string_view::npos &&
         std::none_of(text.begin(), text.end(), [](char c) { return c >= 'a' && c <= 'z'; });
}

Expression combined(Function function, std::vector<Expression> children, Arena& arena) {
  return {function, {}, arena.keep(std::move(children))};
}

bool is_too_large(const Expression& expression) {
  std::size_t left = 1000;
  return !subtract_parts(left, expression);
}

std::optional<Expression> parse_expression(std::string_view expression, const Lets& lets, Arena& arena,
                                           std::string& error) {
  return parsed(expression, &Parser::whole, lets, arena, error);
}

std::optional<Expression> parse_condition(std::string_view condition, const Lets& lets, Arena& arena,
                                          std::string& error) {
  return parsed(condition, &Parser::condition, lets, arena, error);
}

}  // namespace rankshim::platform
