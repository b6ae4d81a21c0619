#include "settings/settings.h"

#include <algorithm>
#include <array>
#include <type_traits>
#include <utility>

#include "base/duration.h"
#include "base/text.h"

namespace rankshim::settings {
namespace {

bool is_anything(std::string_view /*text*/) { return true; }

bool is_file(std::string_view text) { return text != "-"; }

bool is_number(std::string_view text) { return parse_number<unsigned>(text).has_value(); }

bool is_count(std::string_view text) { return parse_number<unsigned>(text).value_or(0) != 0; }

/// Whether the text is N or MIN:MAX.
bool is_nodes(std::string_view text) {
  const auto [least, most] = min_and_max(text);
  return is_count(least) && is_count(most) && *parse_number<unsigned>(least) <= *parse_number<unsigned>(most);
}

bool is_workers(std::string_view text) { return is_count(text) || has_part("auto|gpu|cpu", text, "|"); }

std::optional<bool> parse_truth(std::string_view text) {
  if (text == "1" || text == "true") return true;
  if (text == "0" || text == "false") return false;
  return std::nullopt;
}

std::optional<std::vector<std::string>> parse_words(std::string_view text) {
  std::vector<std::string> words;
  for (std::string_view word = next_word(text); !word.empty(); word = next_word(text))
    words.emplace_back(word);
  return words;
}

/// Whether the text is "off" or a list of module names as in Python's import statement, including "auto".
bool is_modules(std::string_view text) {
  if (text == "off") return true;
  while (!text.empty()) {
    std::string_view name = split_next(text, ",");
    if (name.empty() || name == "off") return false;
    while (!name.empty()) {
      const std::string_view part = split_next(name, ".");
      const auto is_of_name = [](char c) { return is_letter_or_digit(c) || c == '_'; };
      if (part.empty() || is_digit(part.front()) || !std::ranges::all_of(part, is_of_name)) return false;
    }
  }
  return true;
}

std::optional<node::Variables> parse_variables(std::string_view text) {
  node::Variables variables;
  while (!text.empty()) {
    const std::string_view entry = next_line(text), name = node::entry_name(entry);
    if (name.empty()) return std::nullopt;
    variables.emplace_back(name, entry.substr(name.size() + 1));
  }
  return variables;
}

using ExitCode = std::uint8_t;

/// The causes that --exit-map can name. "peer": this node was stopped because of another, or a worker lost a
/// peer.
constexpr auto exit_map_words = std::to_array<CauseWord>({
    {"oom", outcome::Cause::out_of_memory},
    {"wait", outcome::Cause::unreachable},
    {"config", outcome::Cause::configuration},
    {"stopped", outcome::Cause::stop_requested},
    {"peer", outcome::Cause::peer_lost},
    {"peer", outcome::Cause::timed_out},
    {"peer", outcome::Cause::node_lost},
    {"hang", outcome::Cause::hang},
    {"peer", outcome::Cause::exited_early},
});

/// The causes that --permanent can name.
constexpr auto permanent_words = std::to_array<CauseWord>({
    {"oom", outcome::Cause::out_of_memory},
    {"exception", outcome::Cause::exception},
    {"signal", outcome::Cause::signalled},
    {"lost", outcome::Cause::node_lost},
    {"hang", outcome::Cause::hang},
});

std::string_view word_in(std::span<const CauseWord> words, outcome::Cause cause) {
  const auto row = std::ranges::find(words, cause, &CauseWord::cause);
  return row == words.end() ? std::string_view() : row->word;
}

std::optional<ExitPattern> parse_permanent(std::string_view text) {
  return ExitPattern::parse(text, permanent_words);
}

/// Parses a time, or "off", which is zero.
std::optional<std::chrono::milliseconds> parse_limit(std::string_view text) {
  return text == "off" ? std::chrono::milliseconds::zero() : parse_time(text);
}

/// Turns a function that parses a text, or only checks it, into an option's parser. Facts are only checked:
/// the topology parses their text, because it can come from elsewhere too.
template <auto function>
std::optional<ParsedValue> as(std::string_view text) {
  if constexpr (std::is_same_v<decltype(function(text)), bool>) {
    return function(text) ? std::optional<ParsedValue>(std::monostate{}) : std::nullopt;
  } else {
    auto parsed = function(text);
    return parsed ? std::optional<ParsedValue>(std::move(*parsed)) : std::nullopt;
  }
}

/// The form of the values of one kind of option, and how they are parsed.
struct Rule {
  std::string_view form;  ///< for a message: "… is not a number"; if empty, the option's argument is shown
  std::optional<ParsedValue> (*parse)(std::string_view text);
  char separator = '\0';  ///< for a list
};

/// The kinds, by the names in option_table.h.
namespace kinds {

constexpr Rule text{"", as<is_anything>};
constexpr Rule file{"a file; stdout is /dev/stdout", as<is_file>};
constexpr Rule choice{"", as<is_anything>};
constexpr Rule count{"a number, 0 or more", as<is_number>};
constexpr Rule nodes{"a number of nodes, N or MIN:MAX", as<is_nodes>};
constexpr Rule workers{"a number of workers, auto, gpu or cpu", as<is_workers>};
constexpr Rule port{"a port, 1 to 65535", as<is_port>};
constexpr Rule time{"a time such as 90s, 10m, 2h or a number of seconds", as<parse_time>};
constexpr Rule limit{"a time such as 90s, 10m, 2h, or off", as<parse_limit>};
constexpr Rule boolean{"1, 0, true or false", as<parse_truth>};
constexpr Rule exit_map{
    "FROM[-TO]=CODE,... with codes from 0 to 255, or oom=, wait=, config=, stopped=, peer=, hang=CODE",
    as<ExitMap::parse>, ','};
constexpr Rule restarts{"a number of restarts, or N/TIME such as 3/1h", as<RestartLimit::parse>};
constexpr Rule exits{"exit codes and causes such as 2,64-78,oom (causes: oom, exception, signal, lost, hang)",
                     as<parse_permanent>, ','};
constexpr Rule signal{"a signal such as TERM, SIGUSR1, RTMIN+3 or 15", as<parse_signal>};
constexpr Rule signals{"signals such as USR1,RTMIN+3,15, or none", as<parse_signals>, ','};
constexpr Rule signal_map{"FROM=TO,... with signals such as TERM, RTMIN+3 or 15; TO may be none",
                          as<SignalMap::parse>, ','};
constexpr Rule words{"", as<parse_words>, ' '};
constexpr Rule modules{"off, or auto and names of Python modules such as auto,transformers", as<is_modules>,
                       ','};
constexpr Rule variables{"NAME=VALUE, one on each line", as<parse_variables>, '\n'};

}  // namespace kinds

const Rule& rule_of(const OptionInfo& option) {
  static constexpr std::array<const Rule*, option_count> rules = {
#define OPTION(option, group, name, kind, ...) &kinds::kind,
#include "settings/option_table.h"
#undef OPTION
  };
  return *rules[static_cast<std::size_t>(option.option)];
}

bool is_choice(const OptionInfo& option) { return &rule_of(option) == &kinds::choice; }

std::optional<ParsedValue> parse_choice(std::string_view choices, std::string_view text) {
  for (Choice choice; !choices.empty(); ++choice.position)
    if (split_next(choices, "|") == text) return choice;
  return std::nullopt;
}

}  // namespace

std::string_view word_of_permanent(outcome::Cause cause) { return word_in(permanent_words, cause); }

std::string_view word_of_exit_map(outcome::Cause cause) { return word_in(exit_map_words, cause); }

std::string one_of(std::string_view choices, std::string_view instead) {
  std::vector<std::string_view> known;
  while (!choices.empty()) known.push_back(split_next(choices, "|"));
  return "one of " + joined(known) + and_nearest(nearest(instead, known));
}

std::optional<ParsedValue> parse(const OptionInfo& option, std::string_view text) {
  return is_choice(option) ? parse_choice(option.argument, text) : rule_of(option).parse(text);
}

Setting builtin_setting(Option option, std::string_view text) {
  return {{std::string(text), Origin::fallback, ""}, parse(info(option), text).value()};
}

std::string wanted(const OptionInfo& option, std::string_view instead) {
  if (is_choice(option)) return one_of(option.argument, instead);
  const std::string_view form = rule_of(option).form;
  return std::string(form.empty() ? option.argument : form);
}

char separator(const OptionInfo& option) { return rule_of(option).separator; }

std::optional<ExitPattern> ExitPattern::parse(std::string_view text, std::span<const CauseWord> words) {
  ExitPattern exits;
  while (!text.empty()) {
    const std::string_view item = split_next(text, ",");
    if (const auto codes = number_range<ExitCode>(item)) {
      exits.codes_.push_back(*codes);
      continue;
    }
    const std::size_t known = exits.causes_.size();
    for (const auto& [word, cause] : words)
      if (word == item) exits.causes_.push_back(cause);
    if (exits.causes_.size() == known) return std::nullopt;
  }
  return exits;
}

bool ExitPattern::has_code(int code) const {
  return std::ranges::any_of(
      codes_, [code](const auto& range) { return range.first <= code && code <= range.second; });
}

bool ExitPattern::has_cause(outcome::Cause cause) const { return contains(causes_, cause); }

std::optional<ExitMap> ExitMap::parse(std::string_view text) {
  ExitMap map;
  while (!text.empty()) {
    std::string_view to = split_next(text, ",");
    const std::string_view from = split_next(to, "=");
    const auto code = parse_number<ExitCode>(to);
    auto exits = ExitPattern::parse(from, exit_map_words);
    if (from.empty() || !exits || !code) return std::nullopt;
    map.rules_.emplace_back(std::move(*exits), *code);
  }
  return map;
}

int ExitMap::apply(outcome::Cause cause, int code) const {
  for (const auto& [exits, to] : rules_)
    if (exits.has_cause(cause)) return to;
  for (const auto& [exits, to] : rules_)
    if (exits.has_code(code)) return to;
  return code;
}

std::optional<RestartLimit> RestartLimit::parse(std::string_view text) {
  const std::string_view count = text.substr(0, text.find('/'));
  const auto most = parse_number<unsigned>(count);
  if (!most) return std::nullopt;
  if (count.size() == text.size()) return RestartLimit{.most = *most, .within = {}};
  const auto within = parse_time(text.substr(count.size() + 1));
  if (!within || within->count() == 0) return std::nullopt;
  return RestartLimit{.most = *most, .within = within};
}

}  // namespace rankshim::settings
