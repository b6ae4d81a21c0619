#include "settings/exit_map.h"

#include <array>
#include <charconv>
#include <utility>

namespace rankshim {
namespace {

std::optional<int> exit_code_in(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < 0 || value > 255)
    return std::nullopt;
  return value;
}

constexpr std::array<std::pair<std::string_view, Cause>, 4> causes = {
    {{"oom", Cause::oom}, {"wait", Cause::wait}, {"config", Cause::config}, {"stopped", Cause::stopped}}};

}  // namespace

std::optional<ExitMap> ExitMap::parse(std::string_view text) {
  ExitMap map;
  while (!text.empty()) {
    const auto comma = text.find(',');
    const std::string_view item = text.substr(0, comma);
    text = comma == std::string_view::npos ? std::string_view{} : text.substr(comma + 1);

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
      const auto dash = from.find('-');
      const auto low = exit_code_in(from.substr(0, dash));
      const auto high = dash == std::string_view::npos ? low : exit_code_in(from.substr(dash + 1));
      if (!low || !high || *low > *high) return std::nullopt;
      rule.from = *low;
      rule.to = *high;
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

}  // namespace rankshim
