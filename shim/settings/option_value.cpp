#include "settings/option_value.h"

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

#include "base/duration.h"
#include "base/text.h"

namespace rankshim {
namespace {

/// The parsed value; nothing if it could not be parsed.
template <class Parsed>
std::optional<Meaning> as_meaning(std::optional<Parsed> parsed) {
  return parsed ? std::optional<Meaning>(std::move(*parsed)) : std::nullopt;
}

/// A fact's value, which the topology reads as a text because it can come from elsewhere too.
std::optional<Meaning> plain(bool is_right) {
  return is_right ? std::optional<Meaning>(std::monostate{}) : std::nullopt;
}

bool is_count(std::string_view text, unsigned least = 0) {
  const auto number = parse_number<unsigned>(text);
  return number && *number >= least;
}

/// N, or MIN:MAX.
bool is_nodes(std::string_view text) {
  const auto [least, most] = min_and_max(text);
  return is_count(least, 1) && is_count(most, 1) &&
         *parse_number<unsigned>(least) <= *parse_number<unsigned>(most);
}

std::optional<bool> parse_truth(std::string_view text) {
  if (text == "1" || text == "true") return true;
  if (text == "0" || text == "false") return false;
  return std::nullopt;
}

std::vector<std::string> parse_words(std::string_view text) {
  std::vector<std::string> words;
  for (std::string_view word = take_word(text); !word.empty(); word = take_word(text))
    words.emplace_back(word);
  return words;
}

std::optional<Variables> parse_variables(std::string_view text) {
  Variables variables;
  while (!text.empty()) {
    const std::string_view entry = take_line(text), name = entry_name(entry);
    if (name.empty()) return std::nullopt;
    variables.emplace_back(name, entry.substr(name.size() + 1));
  }
  return variables;
}

/// An exit code, 0 to 255.
std::optional<int> exit_code_in(std::string_view text) { return parse_number<std::uint8_t>(text); }

/// One code, or FROM-TO.
std::optional<std::pair<int, int>> exit_codes_in(std::string_view text) {
  const auto dash = text.find('-');
  const auto low = exit_code_in(text.substr(0, dash));
  const auto high = dash == std::string_view::npos ? low : exit_code_in(text.substr(dash + 1));
  if (!low || !high || *low > *high) return std::nullopt;
  return std::pair(*low, *high);
}

constexpr std::array<std::pair<std::string_view, Cause>, 5> causes = {{{"oom", Cause::oom},
                                                                       {"wait", Cause::wait},
                                                                       {"config", Cause::config},
                                                                       {"stopped", Cause::stopped},
                                                                       {"peer", Cause::peer}}};

/// What a failure is called on the link (link/message.h).
constexpr std::string_view end_causes = "oom|exception|signal|lost";

}  // namespace

std::string_view word(Cause cause) {
  const auto* const found = std::ranges::find(causes, cause, &std::pair<std::string_view, Cause>::second);
  return found == causes.end() ? std::string_view() : found->first;
}

bool is_one_of(std::string_view value, std::string_view choices) {
  while (!choices.empty())
    if (take_part(choices, "|") == value) return true;
  return false;
}

std::string with_commas(std::string_view choices) {
  std::string text(choices);
  for (std::size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2) text.replace(at, 1, ", ");
  return text;
}

std::string and_nearest_choice(std::string_view value, std::string_view choices) {
  std::vector<std::string_view> known;
  while (!choices.empty()) known.push_back(take_part(choices, "|"));
  return and_nearest(nearest(value, known));
}

std::optional<Meaning> parse(const OptionInfo& option, std::string_view text) {
  switch (option.kind) {
    case ValueKind::text:
      return plain(true);
    case ValueKind::choice:
      return plain(is_one_of(text, option.argument));
    case ValueKind::count:
      return plain(is_count(text));
    case ValueKind::nodes:
      return plain(is_nodes(text));
    case ValueKind::workers:
      return plain(is_count(text, 1) || is_one_of(text, "auto|gpu|cpu"));
    case ValueKind::port:
      return plain(is_count(text, 1) && parse_number<std::uint16_t>(text));
    case ValueKind::time:
      return as_meaning(parse_time(text));
    case ValueKind::boolean:
      return as_meaning(parse_truth(text));
    case ValueKind::exit_map:
      return as_meaning(ExitMap::parse(text));
    case ValueKind::restarts:
      return as_meaning(RestartLimit::parse(text));
    case ValueKind::ends:
      return as_meaning(Ends::parse(text));
    case ValueKind::signal:
      return as_meaning(supervise::parse_signal(text));
    case ValueKind::signals:
      return as_meaning(supervise::parse_signals(text));
    case ValueKind::signal_map:
      return as_meaning(supervise::SignalMap::parse(text));
    case ValueKind::words:
      return parse_words(text);
    case ValueKind::variables:
      return as_meaning(parse_variables(text));
  }
  return std::nullopt;
}

std::string wanted(const OptionInfo& option) {
  switch (option.kind) {
    case ValueKind::choice:
      return "one of " + with_commas(option.argument);
    case ValueKind::count:
      return "a number";
    case ValueKind::nodes:
      return "a number of nodes, N or MIN:MAX";
    case ValueKind::workers:
      return "a number of workers, auto, gpu or cpu";
    case ValueKind::port:
      return "a port, 1 to 65535";
    case ValueKind::time:
      return "a time such as 90s, 10m, 2h or a number of seconds";
    case ValueKind::boolean:
      return "1, 0, true or false";
    case ValueKind::exit_map:
      return "FROM[-TO]=CODE,... with codes from 0 to 255, or oom=, wait=, config=, "
             "stopped=, peer=CODE";
    case ValueKind::restarts:
      return "a number of restarts, or N/TIME such as 3/1h";
    case ValueKind::ends:
      return "exit codes and causes such as 2,64-78,oom (causes: " + with_commas(end_causes) + ")";
    case ValueKind::signal:
      return "a signal such as TERM, SIGUSR1, RTMIN+3 or 15";
    case ValueKind::signals:
      return "signals such as USR1,RTMIN+3,15, or none";
    case ValueKind::signal_map:
      return "FROM=TO,... with signals such as TERM, RTMIN+3 or 15; TO may be none";
    case ValueKind::variables:
      return "NAME=VALUE, one on each line";
    case ValueKind::text:
    case ValueKind::words:
      break;
  }
  return std::string(option.argument);
}

char separator(ValueKind kind) {
  switch (kind) {
    case ValueKind::exit_map:
    case ValueKind::ends:
    case ValueKind::signals:
    case ValueKind::signal_map:
      return ',';
    case ValueKind::variables:
      return '\n';
    case ValueKind::words:
      return ' ';
    default:
      return '\0';
  }
}

std::optional<ExitMap> ExitMap::parse(std::string_view text) {
  ExitMap map;
  while (!text.empty()) {
    const std::string_view item = take_part(text, ",");
    const auto equals = item.find('=');
    if (equals == std::string_view::npos) return std::nullopt;
    const std::string_view from = item.substr(0, equals);
    const auto code = exit_code_in(item.substr(equals + 1));
    if (!code) return std::nullopt;

    Rule rule;
    rule.code = *code;
    for (const auto& [word, cause] : causes) {
      if (from == word) rule.cause = cause;
    }
    if (rule.cause == Cause::none) {
      const auto codes = exit_codes_in(from);
      if (!codes) return std::nullopt;
      std::tie(rule.from, rule.to) = *codes;
    }
    map.rules_.push_back(rule);
  }
  return map;
}

int ExitMap::apply(Cause cause, int code) const {
  for (const Rule& rule : rules_) {
    if (cause != Cause::none && rule.cause == cause) return rule.code;
  }
  for (const Rule& rule : rules_) {
    if (rule.cause == Cause::none && rule.from <= code && code <= rule.to) return rule.code;
  }
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

std::optional<Ends> Ends::parse(std::string_view text) {
  Ends ends;
  while (!text.empty()) {
    const std::string_view item = take_part(text, ",");
    if (is_one_of(item, end_causes)) {
      ends.causes_.emplace_back(item);
    } else if (const auto codes = exit_codes_in(item)) {
      ends.codes_.push_back(*codes);
    } else {
      return std::nullopt;
    }
  }
  return ends;
}

bool Ends::contains(std::string_view cause, int code) const {
  return std::ranges::find(causes_, cause) != causes_.end() ||
         std::ranges::any_of(
             codes_, [code](const auto& range) { return range.first <= code && code <= range.second; });
}

}  // namespace rankshim
