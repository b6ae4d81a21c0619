#include "platform/expression.h"

#include <algorithm>
#include <limits>
#include <numeric>

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

constexpr std::size_t largest_index = std::numeric_limits<std::uint16_t>::max();
constexpr const char* too_large = "the profile is too large";

std::optional<std::uint16_t> add_step(const Step& step, std::uint16_t size, OwnedTables& tables,
                                      std::string& error) {
  if (tables.steps.size() > largest_index) error = too_large;
  if (size > largest_expression)
    error = "the expression takes more than " + std::to_string(largest_expression) + " steps";
  if (!error.empty()) return std::nullopt;
  tables.steps.push_back(step);
  tables.sizes.push_back(size);
  return static_cast<std::uint16_t>(tables.steps.size() - 1);
}

std::optional<std::uint16_t> add_text_step(Op op, std::string_view text, OwnedTables& tables,
                                           std::string& error) {
  const auto index = add_text(text, tables);
  if (!index) error = too_large;
  return index ? add_step({.op = op, .index = *index}, 1, tables, error) : std::nullopt;
}

/// Recursive descent over one expression. The methods return nothing once `error` is set.
class Parser {
 public:
  Parser(std::string_view text, const Lets& lets, OwnedTables& tables, std::string& error)
      : text_(text), lets_(lets), tables_(tables), error_(error) {}

  std::optional<std::uint16_t> whole() {
    const auto root = part(no_stops);
    if (root && at_ != text_.size()) return fail("nothing may follow the function's closing parenthesis");
    return root;
  }

 private:
  using Index = std::optional<std::uint16_t>;

  /// Parses an expression up to one of the stop characters or the end.
  Index part(std::string_view stops) {
    if (depth_ == deepest_nesting)
      return fail("it is nested more than " + std::to_string(deepest_nesting) + " deep");
    ++depth_;
    skip_blanks();
    const std::string_view name = name_here();
    const bool is_call = !name.empty() && at_ + name.size() < text_.size() && text_[at_ + name.size()] == '(';
    const Index result = is_call ? call(name) : text_and_variables(stops);
    if (is_call) skip_blanks();
    --depth_;
    return result;
  }

  Index text_and_variables(std::string_view stops) {
    std::vector<std::uint16_t> parts;
    while (at_ < text_.size() && stops.find(text_[at_]) == std::string_view::npos) {
      const Index next = text_[at_] == '$' ? variable() : literal(stops);
      if (!next) return next;
      parts.push_back(*next);
    }
    if (!parts.empty()) trim_end(parts);
    if (parts.empty()) return fail("an expression is expected here");
    if (parts.size() == 1) return parts.front();
    return added(Op::join, Function::none, parts);
  }

  /// Removes blanks before a stop, which belong to no text.
  void trim_end(std::vector<std::uint16_t>& parts) {
    const Step& last = tables_.steps[parts.back()];
    if (last.op != Op::text) return;
    Piece& piece = tables_.texts[last.index];
    const auto text = std::string_view(tables_.pool).substr(piece.at, piece.size);
    piece.size = static_cast<std::uint16_t>(text.find_last_not_of(blanks) + 1);
    if (piece.size == 0) parts.pop_back();
  }

  Index literal(std::string_view stops) {
    const std::size_t start = at_;
    for (; at_ < text_.size() && text_[at_] != '$' && stops.find(text_[at_]) == std::string_view::npos;
         ++at_) {
      if (text_[at_] == '{' && !variable_ahead().empty()) return fail("a variable is written ${NAME}");
      if (stops != argument_stops) continue;
      if (text_[at_] == ';') return fail("arguments are separated by ','");
      if (text_[at_] == '"' || text_[at_] == '\'') return fail("a text within a call has no quotes");
    }
    return checked(add_text_step(Op::text, text_.substr(start, at_ - start), tables_, error_));
  }

  /// The NAME of a {NAME} that begins here.
  [[nodiscard]] std::string_view variable_ahead() const {
    const std::size_t end = text_.find('}', at_);
    const std::string_view name = text_.substr(at_ + 1, std::min(end, text_.size()) - at_ - 1);
    const bool is_name = end != std::string_view::npos && !name.empty() && begins_name(name.front()) &&
                         std::all_of(name.begin(), name.end(), is_name_part);
    return is_name ? name : std::string_view();
  }

  Index variable() {
    ++at_;
    if (at_ < text_.size() && begins_name(text_[at_])) return let();
    if (at_ == text_.size() || text_[at_] != '{') return fail("'$' begins a variable and is written ${NAME}");
    ++at_;
    const std::string_view name = name_here();
    if (name.empty()) return fail("a variable's name is expected here");
    at_ += name.size();
    Index result = checked(add_text_step(Op::variable, name, tables_, error_));
    if (result && text_.substr(at_, 2) == ":-") {
      at_ += 2;
      const Index value = part(default_stops);
      if (!value) return value;
      result = added(Op::either, Function::none, {*result, *value});
    }
    if (!result) return result;
    if (at_ == text_.size() || text_[at_] != '}') return fail("'}' or ':-' is expected here");
    ++at_;
    return result;
  }

  Index let() {
    const std::string_view name = name_here();
    const auto found = lets_.find(name);
    if (found == lets_.end()) {
      std::vector<std::string_view> known;
      for (const auto& [one, root] : lets_) known.push_back(one);
      return fail("there is no " + shown(name) + " in [let] above this" + and_nearest(nearest(name, known)) +
                  " (a variable is written ${NAME})");
    }
    at_ += name.size();
    return found->second;
  }

  Index call(std::string_view name) {
    const auto* signature =
        std::find_if(signatures.begin(), signatures.end(), [&](auto& s) { return s.name == name; });
    const bool is_join = name == "join";
    if (signature == signatures.end() && !is_join) {
      std::vector<std::string_view> known = {"join"};
      for (const Signature& one : signatures) known.push_back(one.name);
      return fail("there is no function " + shown(name) + and_nearest(nearest(name, known)));
    }
    at_ += name.size() + 1;
    std::vector<std::uint16_t> arguments;
    skip_blanks();
    while (at_ == text_.size() || text_[at_] != ')') {
      const Index argument = part(argument_stops);
      if (!argument) return argument;
      arguments.push_back(*argument);
      if (at_ == text_.size() || text_[at_] == '(') return fail("',' or ')' is expected here");
      if (text_[at_] == ')') break;
      if (text_[at_] != ',') return fail("',' or ')' is expected here");
      ++at_;
    }
    ++at_;
    const std::size_t least = is_join ? 2 : signature->least, most = is_join ? any_count : signature->most;
    if (arguments.size() < least || arguments.size() > most)
      return fail(shown(name) + " takes " + std::to_string(least) +
                  (most == least       ? ""
                   : most == any_count ? " or more"
                                       : " to " + std::to_string(most)) +
                  " arguments, not " + std::to_string(arguments.size()));
    if (is_join) return added(Op::join, Function::none, arguments);
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      const Step& argument = tables_.steps[arguments[i]];
      if (argument.op != Op::text) continue;
      const std::string_view text = tables_.view().text(argument.index);
      if (takes_number(signature->function, i) && !all_digits(text))
        return fail(shown(text) + " is no number");
      if (takes_value(signature->function, i) && was_meant_as_value(text))
        return fail(shown(text) +
                    " is a text, and not the value of a variable: write ${NAME}, or name() for a function");
    }
    return added(Op::call, signature->function, arguments);
  }

  Index added(Op op, Function function, const std::vector<std::uint16_t>& children) {
    return checked(add_step(op, function, children, tables_, error_));
  }

  Index checked(Index index) { return index ? index : fail(std::string(error_)); }

  Index fail(const std::string& what) {
    error_ = shown(text_) + ", character " + std::to_string(at_ + 1) + ": " + what;
    return std::nullopt;
  }

  [[nodiscard]] std::string_view name_here() const {
    if (at_ == text_.size() || !begins_name(text_[at_])) return {};
    std::size_t end = at_;
    while (end < text_.size() && is_name_part(text_[end])) ++end;
    return text_.substr(at_, end - at_);
  }

  void skip_blanks() {
    while (at_ < text_.size() && blanks.find(text_[at_]) != std::string_view::npos) ++at_;
  }

  std::string_view text_;
  const Lets& lets_;
  OwnedTables& tables_;
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

}  // namespace

bool was_meant_as_value(std::string_view text) {
  if (std::any_of(signatures.begin(), signatures.end(),
                  [&](const Signature& one) { return one.name == text; }))
    return true;
  return is_shell_name(text) && text.find('_') != std::string_view::npos &&
         std::none_of(text.begin(), text.end(), [](char c) { return c >= 'a' && c <= 'z'; });
}

std::optional<TextIndex> add_text(std::string_view text, OwnedTables& tables) {
  if (tables.texts.size() > largest_index || tables.pool.size() > largest_index ||
      text.size() > largest_index)
    return std::nullopt;
  const auto known = tables.pool.find(text);
  if (known == std::string::npos) tables.pool += text;
  const std::size_t at = known == std::string::npos ? tables.pool.size() - text.size() : known;
  tables.texts.push_back({static_cast<std::uint16_t>(at), static_cast<std::uint16_t>(text.size())});
  return static_cast<TextIndex>(tables.texts.size() - 1);
}

std::optional<std::uint16_t> add_step(Op op, Function function, const std::vector<std::uint16_t>& children,
                                      OwnedTables& tables, std::string& error) {
  if (tables.children.size() + children.size() >= largest_index) {
    error = too_large;
    return std::nullopt;
  }
  const auto index = static_cast<std::uint16_t>(tables.children.size());
  tables.children.push_back(static_cast<std::uint16_t>(children.size()));
  tables.children.insert(tables.children.end(), children.begin(), children.end());
  const auto size =
      std::accumulate(children.begin(), children.end(), std::size_t{1},
                      [&](std::size_t sum, std::uint16_t child) { return sum + tables.sizes[child]; });
  return add_step({op, function, index}, static_cast<std::uint16_t>(std::min(size, largest_index)), tables,
                  error);
}

std::optional<std::uint16_t> parse_expression(std::string_view expression, const Lets& lets,
                                              OwnedTables& tables, std::string& error) {
  error.clear();
  return Parser(trimmed(expression), lets, tables, error).whole();
}

std::optional<Condition> parse_condition(std::string_view condition, const Lets& lets, OwnedTables& tables,
                                         std::string& error) {
  error.clear();
  const auto fail = [&](const char* what) {
    error = shown(condition) + ": " + what;
    return std::nullopt;
  };
  std::string_view expression = trimmed(condition);
  const bool negative = expression.starts_with('!');
  if (negative) expression.remove_prefix(1);
  const std::size_t equals = find_equals(expression);
  const bool has_glob = equals != std::string_view::npos;
  Condition result;
  result.sign = has_glob ? (negative ? Sign::unlike : Sign::like) : (negative ? Sign::not_set : Sign::set);
  if (has_glob) {
    const std::string_view glob = expression.substr(equals + 1);
    expression = expression.substr(0, equals);
    constexpr std::size_t longest_glob = 256;  // bounds the work of matching
    if (glob.empty())
      return fail("a glob is expected after '='; write !NAME for a variable that is not set or is empty");
    if (glob.size() > longest_glob) return fail("the glob is longer than 256 characters");
    if (glob.starts_with('=') || expression.ends_with('!'))
      return fail("write NAME=GLOB with one '=', and !NAME=GLOB where it must not fit");
    if (trimmed(glob) != glob || trimmed(expression) != expression)
      return fail("write it without blanks around '=', because values have no blanks around them");
    if (glob.find_first_of("\"'") != std::string_view::npos) return fail("a glob has no quotes");
    if (glob.find('$') != std::string_view::npos)
      return fail("a glob has no variables; differ(A, B) and only_if(A, GLOB, RESULT) compare expressions");
    const auto text = add_text(glob, tables);
    if (!text) return fail(too_large);
    result.glob = *text;
  }
  std::optional<std::uint16_t> root;
  if (expression.find('(') != std::string_view::npos || expression.starts_with('$')) {
    if (expression.starts_with('$') && !std::all_of(expression.begin() + 1, expression.end(), is_name_part))
      return fail(
          "a condition is a variable's name without ${}, a function call or a $LET, with ! before it or "
          "=GLOB after it");
    root = parse_expression(expression, lets, tables, error);
  } else if (expression.empty() || !begins_name(expression.front()) ||
             !std::all_of(expression.begin(), expression.end(), is_name_part)) {
    return fail(
        "a condition is a variable's name, a function call or a $LET, with ! before it or =GLOB after it");
  } else {
    root = add_text_step(Op::variable, expression, tables, error);
  }
  if (!root) return std::nullopt;
  result.root = *root;
  return result;
}

}  // namespace rankshim::platform
