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
bool begins_name(char c) { return is_name_part(c) && !is_digit(c); }

/// A part of the profile, as a message shows it.
std::string shown(std::string_view text) { return "'" + std::string(text) + "'"; }

/// Recursive descent over one expression. After the first mistake nothing is left to read.
class Parser {
 public:
  Parser(std::string_view text, const Lets& lets, Store& store, std::string& error)
      : text_(text), lets_(lets), store_(store), error_(error) {}

  Expression whole() {
    const Expression root = part(no_stops);
    if (at_ != text_.size()) fail("nothing may follow the function's closing parenthesis");
    return root;
  }

 private:
  /// Parses an expression up to one of the stop characters or the end.
  Expression part(std::string_view stops) {
    if (depth_ == deepest_nesting)
      return fail("it is nested more than " + std::to_string(deepest_nesting) + " deep");
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
      last = last.substr(0, last.find_last_not_of(blanks) + 1);  // blanks before a stop belong to no text
      if (last.empty()) parts.pop_back();
    }
    if (parts.empty()) return fail("an expression is expected here");
    return parts.size() == 1 ? parts.front() : combine(Function::join, std::move(parts));
  }

  Expression literal(std::string_view stops) {
    const std::size_t start = at_;
    for (; at_ < text_.size() && text_[at_] != '$' && stops.find(text_[at_]) == std::string_view::npos;
         ++at_) {
      if (text_[at_] == '{' && is_variable_ahead()) return fail("a variable is written ${NAME}");
      if (stops != argument_stops) continue;
      if (text_[at_] == ';') return fail("arguments are separated by ','");
      if (text_[at_] == '"' || text_[at_] == '\'') return fail("a text within a call has no quotes");
    }
    return {Function::text, text_.substr(start, at_ - start), {}};
  }

  /// Whether a {NAME} begins here.
  [[nodiscard]] bool is_variable_ahead() const {
    const std::size_t end = text_.find('}', at_);
    return end != std::string_view::npos && is_shell_name(text_.substr(at_ + 1, end - at_ - 1));
  }

  Expression variable() {
    ++at_;
    if (!name_here().empty()) return let(name_here());
    if (!take("{")) return fail("'$' begins a variable and is written ${NAME}");
    const std::string_view name = name_here();
    if (name.empty()) return fail("a variable's name is expected here");
    at_ += name.size();
    Expression result{Function::variable, name, {}};
    if (take(":-")) result = combine(Function::either, {result, part(default_stops)});
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
      std::vector<std::string_view> known(signatures.size());
      std::ranges::transform(signatures, known.begin(), &Signature::name);
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
    if (arguments.size() < least || arguments.size() > most)
      return fail(shown(name) + " takes " + std::to_string(least) +
                  (most == least                  ? ""
                   : most == Signature::any_count ? " or more"
                                                  : " to " + std::to_string(most)) +
                  " arguments, not " + std::to_string(arguments.size()));
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      if (arguments[i].function != Function::text) continue;
      const std::string_view text = arguments[i].text;
      if (i >= first_number && !all_digits(text)) return fail(shown(text) + " is no number");
      if (takes_value(*function, i) && was_meant_as_value(text))
        return fail(shown(text) +
                    " is a text, and not the value of a variable: write ${NAME}, or name() for a function");
    }
    return combine(*function, std::move(arguments));
  }

  Expression combine(Function function, std::vector<Expression> children) {
    std::string error;
    const Expression result = combined(function, std::move(children), store_, error);
    return error.empty() ? result : fail(error);
  }

  Expression fail(const std::string& what) {
    if (error_.empty()) error_ = shown(text_) + ", character " + std::to_string(at_ + 1) + ": " + what;
    at_ = text_.size();
    return {};
  }

  /// Whether the text goes on with `mark`, which is then read.
  bool take(std::string_view mark) {
    const bool is_here = text_.substr(at_).starts_with(mark);
    if (is_here) at_ += mark.size();
    return is_here;
  }

  [[nodiscard]] std::string_view name_here() const {
    if (at_ == text_.size() || !begins_name(text_[at_])) return {};
    std::size_t end = at_;
    while (end < text_.size() && is_name_part(text_[end])) ++end;
    return text_.substr(at_, end - at_);
  }

  void skip_blanks() { at_ = std::min(text_.find_first_not_of(blanks, at_), text_.size()); }

  std::string_view text_;
  const Lets& lets_;
  Store& store_;
  std::string& error_;
  std::size_t at_ = 0;
  unsigned depth_ = 0;
};

/// The position of the '=' in EXPR=GLOB; calls are skipped.
std::size_t find_equals(std::string_view condition) {
  unsigned open = 0;
  for (std::size_t i = 0; i < condition.size(); ++i) {
    if (condition[i] == '(') ++open;
    if (condition[i] == ')' && open > 0) --open;
    if (condition[i] == '=' && open == 0) return i;
  }
  return std::string_view::npos;
}

/// The parts of an expression that are evaluated at most.
std::size_t size(const Expression& expression) {
  std::size_t sum = 0;
  each_part(expression, [&](const Expression&) { ++sum; });
  return sum;
}

}  // namespace

void add_variables(const Expression& expression, std::vector<std::string_view>& names) {
  each_part(expression, [&](const Expression& part) {
    if (part.function == Function::variable && std::ranges::find(names, part.text) == names.end())
      names.push_back(part.text);
  });
}

bool was_meant_as_value(std::string_view text) {
  if (function_named(text)) return true;
  return is_shell_name(text) && text.find('_') != std::string_view::npos &&
         std::none_of(text.begin(), text.end(), [](char c) { return c >= 'a' && c <= 'z'; });
}

Expression combined(Function function, std::vector<Expression> children, Store& store, std::string& error) {
  const Expression result{function, {}, store.keep(std::move(children))};
  if (size(result) > largest_expression)
    error = "the expression takes more than " + std::to_string(largest_expression) + " steps";
  return result;
}

std::optional<Expression> parse_expression(std::string_view expression, const Lets& lets, Store& store,
                                           std::string& error) {
  error.clear();
  const Expression root = Parser(store.keep(std::string(trimmed(expression))), lets, store, error).whole();
  return error.empty() ? std::optional(root) : std::nullopt;
}

std::optional<Expression> parse_condition(std::string_view condition, const Lets& lets, Store& store,
                                          std::string& error) {
  const auto fail = [&](const char* what) {
    error = shown(condition) + ": " + what;
    return std::nullopt;
  };
  std::string_view asked = trimmed(condition), glob;
  const bool is_negative = asked.starts_with('!');
  if (is_negative) asked.remove_prefix(1);
  if (const std::size_t equals = find_equals(asked); equals != std::string_view::npos) {
    glob = asked.substr(equals + 1);
    asked = asked.substr(0, equals);
    constexpr std::size_t longest_glob = 256;  // bounds the work of matching
    if (glob.empty())
      return fail("a glob is expected after '='; write !NAME for a variable that is not set or is empty");
    if (glob.starts_with('=') || asked.ends_with('!'))
      return fail("write NAME=GLOB with one '=', and !NAME=GLOB where it must not fit");
    if (glob.size() > longest_glob || trimmed(glob) != glob || trimmed(asked) != asked ||
        glob.find_first_of("\"'") != std::string_view::npos)
      return fail("a glob has no quotes, no blanks around it or '=', and at most 256 characters");
    if (glob.find('$') != std::string_view::npos)
      return fail("a glob has no variables; differ(A, B) and only_if(A, GLOB, RESULT) compare expressions");
  }
  const bool is_name = is_shell_name(asked);
  const bool is_let = asked.starts_with('$') && std::all_of(asked.begin() + 1, asked.end(), is_name_part);
  const bool is_call = !asked.starts_with('$') && asked.find('(') != std::string_view::npos;
  if (!is_name && !is_let && !is_call)
    return fail(
        "a condition is a variable's name without ${}, a function call or a $LET, with ! before it or "
        "=GLOB after it");
  auto result = parse_expression(is_name ? "${" + std::string(asked) + "}" : asked, lets, store, error);
  const auto wrap = [&](Function function, std::string_view text) {
    if (result) result = combined(function, {*result, {Function::text, text, {}}}, store, error);
  };
  if (!glob.empty()) wrap(Function::only_if, store.keep(std::string(glob)));
  if (is_negative) wrap(Function::unless, "yes");
  return error.empty() ? result : std::nullopt;
}

}  // namespace rankshim::platform
