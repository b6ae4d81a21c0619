#include "platform/expression.h"

#include <algorithm>
#include <limits>

namespace rankshim::platform {
namespace {

constexpr std::string_view blanks = " \t\r\n";
constexpr std::string_view no_stops;
constexpr std::string_view argument_stops = ",()";
constexpr std::string_view default_stops = "}";

std::string_view trim(std::string_view text) {
  const auto first = text.find_first_not_of(blanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_name_part(char c) { return is_letter(c) || (c >= '0' && c <= '9'); }

std::string quoted(std::string_view text) { return "'" + std::string(text) + "'"; }

constexpr std::size_t largest_index = std::numeric_limits<std::uint16_t>::max();
constexpr const char* too_large = "the profile is too large";

std::optional<std::uint16_t> add_step(const Step& step, OwnedTables& tables) {
  if (tables.steps.size() > largest_index) return std::nullopt;
  tables.steps.push_back(step);
  return static_cast<std::uint16_t>(tables.steps.size() - 1);
}

/// Recursive descent over one place. Members return nothing once `error` is set.
class Parser {
 public:
  Parser(std::string_view text, OwnedTables& tables, std::string& error)
      : text_(text), tables_(tables), error_(error) {}

  std::optional<std::uint16_t> whole() {
    const auto root = part(no_stops);
    if (root && at_ != text_.size()) return fail("nothing may follow the function's closing parenthesis");
    return root;
  }

 private:
  using Index = std::optional<std::uint16_t>;

  /// A place up to one of the stop characters or the end.
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
    if (parts.empty()) return fail("something is expected here");
    if (parts.size() == 1) return parts.front();
    return with_children(Op::join, Function::none, parts);
  }

  /// Blanks before a stop belong to no text.
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
    while (at_ < text_.size() && text_[at_] != '$' && stops.find(text_[at_]) == std::string_view::npos) ++at_;
    return with_text(Op::text, text_.substr(start, at_ - start));
  }

  Index variable() {
    if (text_.substr(at_, 2) != "${") return fail("'$' begins a variable and is written ${NAME}");
    at_ += 2;
    const std::string_view name = name_here();
    if (name.empty()) return fail("a variable's name is expected here");
    at_ += name.size();
    Index result = with_text(Op::variable, name);
    if (result && text_.substr(at_, 2) == ":-") {
      at_ += 2;
      const Index value = part(default_stops);
      if (!value) return value;
      result = with_children(Op::either, Function::none, {*result, *value});
    }
    if (!result) return result;
    if (at_ == text_.size() || text_[at_] != '}') return fail("'}' or ':-' is expected here");
    ++at_;
    return result;
  }

  Index call(std::string_view name) {
    const auto* signature =
        std::find_if(signatures.begin(), signatures.end(), [&](auto& s) { return s.name == name; });
    const bool is_join = name == "join";
    if (signature == signatures.end() && !is_join) return fail("there is no function " + quoted(name));
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
      return fail(quoted(name) + " takes " + std::to_string(least) +
                  (most == least       ? ""
                   : most == any_count ? " or more"
                                       : " to " + std::to_string(most)) +
                  " arguments, not " + std::to_string(arguments.size()));
    if (is_join) return with_children(Op::join, Function::none, arguments);
    return with_children(Op::call, signature->function, arguments);
  }

  Index with_text(Op op, std::string_view text) {
    const auto index = add_text(text, tables_);
    return index ? added({.op = op, .index = *index}) : fail(too_large);
  }

  Index with_children(Op op, Function function, const std::vector<std::uint16_t>& children) {
    if (tables_.children.size() + children.size() >= largest_index) return fail(too_large);
    const auto index = static_cast<std::uint16_t>(tables_.children.size());
    tables_.children.push_back(static_cast<std::uint16_t>(children.size()));
    tables_.children.insert(tables_.children.end(), children.begin(), children.end());
    return added({op, function, index});
  }

  Index added(const Step& step) {
    const Index index = add_step(step, tables_);
    return index ? index : fail(too_large);
  }

  Index fail(const std::string& what) {
    error_ = quoted(text_) + ", character " + std::to_string(at_ + 1) + ": " + what;
    return std::nullopt;
  }

  [[nodiscard]] std::string_view name_here() const {
    if (at_ == text_.size() || !is_letter(text_[at_])) return {};
    std::size_t end = at_;
    while (end < text_.size() && is_name_part(text_[end])) ++end;
    return text_.substr(at_, end - at_);
  }

  void skip_blanks() {
    while (at_ < text_.size() && blanks.find(text_[at_]) != std::string_view::npos) ++at_;
  }

  std::string_view text_;
  OwnedTables& tables_;
  std::string& error_;
  std::size_t at_ = 0;
  unsigned depth_ = 0;
};

/// Where the '=' of EXPR=GLOB stands, calls skipped.
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

std::optional<TextIndex> add_text(std::string_view text, OwnedTables& tables) {
  if (tables.texts.size() > largest_index || tables.pool.size() > largest_index ||
      text.size() > largest_index)
    return std::nullopt;
  tables.texts.push_back(
      {static_cast<std::uint16_t>(tables.pool.size()), static_cast<std::uint16_t>(text.size())});
  tables.pool += text;
  return static_cast<TextIndex>(tables.texts.size() - 1);
}

std::optional<std::uint16_t> parse_place(std::string_view place, OwnedTables& tables, std::string& error) {
  return Parser(trim(place), tables, error).whole();
}

std::optional<Condition> parse_condition(std::string_view condition, OwnedTables& tables,
                                         std::string& error) {
  std::string_view expression = trim(condition);
  const bool negative = expression.starts_with('!');
  if (negative) expression.remove_prefix(1);
  const std::size_t equals = find_equals(expression);
  const bool has_glob = equals != std::string_view::npos;
  Condition result;
  result.sign = has_glob ? (negative ? Sign::unlike : Sign::like) : (negative ? Sign::not_set : Sign::set);
  if (has_glob) {
    const std::string_view glob = expression.substr(equals + 1);
    expression = trim(expression.substr(0, equals));
    constexpr std::size_t longest_glob = 256;  // bounds the work of matching
    if (glob.empty() || glob.size() > longest_glob) {
      error = quoted(condition) + ": behind '=' stand 1 to 256 characters";
      return std::nullopt;
    }
    const auto text = add_text(glob, tables);
    if (!text) {
      error = too_large;
      return std::nullopt;
    }
    result.glob = *text;
  }
  std::optional<std::uint16_t> root;
  if (expression.find('(') != std::string_view::npos) {
    root = parse_place(expression, tables, error);
  } else if (expression.empty() || !is_letter(expression.front()) ||
             !std::all_of(expression.begin(), expression.end(), is_name_part)) {
    error = quoted(condition) +
            ": a condition is a variable's name or a function call, with ! before it or =GLOB behind";
  } else {
    const auto name = add_text(expression, tables);
    root = name ? add_step({.op = Op::variable, .index = *name}, tables) : std::nullopt;
    if (!root) error = too_large;
  }
  if (!root) return std::nullopt;
  result.root = *root;
  return result;
}

}  // namespace rankshim::platform
