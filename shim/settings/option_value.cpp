#include "settings/option_value.h"

#include "base/duration.h"
#include "base/signal_text.h"
#include "base/text.h"
#include "node/environment.h"
#include "settings/exit_map.h"

namespace rankshim {

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

std::optional<std::string> normalise(const OptionInfo& option, std::string_view text) {
  switch (option.kind) {
    case ValueKind::text:
    case ValueKind::words:
      break;
    case ValueKind::choice:
      if (!is_one_of(text, option.argument)) return std::nullopt;
      break;
    case ValueKind::time:
      if (!parse_time(text)) return std::nullopt;
      break;
    case ValueKind::boolean:
      if (text == "1" || text == "true") return "true";
      if (text == "0" || text == "false") return "false";
      return std::nullopt;
    case ValueKind::exit_map:
      if (!ExitMap::parse(text)) return std::nullopt;
      break;
    case ValueKind::signal:
      if (!supervise::parse_signal(text)) return std::nullopt;
      break;
    case ValueKind::signals:
      if (!supervise::parse_signals(text)) return std::nullopt;
      break;
    case ValueKind::signal_map:
      if (!supervise::SignalMap::parse(text)) return std::nullopt;
      break;
    case ValueKind::variables:
      for (std::string_view rest = text; !rest.empty();)
        if (entry_name(take_line(rest)).empty()) return std::nullopt;
      break;
  }
  return std::string(text);
}

std::string wanted(const OptionInfo& option) {
  switch (option.kind) {
    case ValueKind::choice:
      return "one of " + with_commas(option.argument);
    case ValueKind::time:
      return "a time such as 90s, 10m, 2h or a number of seconds";
    case ValueKind::boolean:
      return "1, 0, true or false";
    case ValueKind::exit_map:
      return "FROM[-TO]=CODE,... with codes from 0 to 255, or oom=, wait=, config=, "
             "stopped=CODE";
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

}  // namespace rankshim
