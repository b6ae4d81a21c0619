#include "settings/exit_map.h"

#include <array>
#include <cstdint>
#include <utility>

#include "base/text.h"

namespace rankshim {
namespace {

/// An exit code, 0 to 255.
std::optional<int> exit_code_in(std::string_view text) { return parse_number<std::uint8_t>(text); }

constexpr std::array<std::pair<std::string_view, Cause>, 5> causes = {{{"oom", Cause::oom},
                                                                       {"wait", Cause::wait},
                                                                       {"config", Cause::config},
                                                                       {"stopped", Cause::stopped},
                                                                       {"peer", Cause::peer}}};

}  // namespace

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
