#include "base/signals.h"

#include <csignal>

#include "base/text.h"

namespace rankshim::supervise {
namespace {

constexpr int rtmin = 34;  // SIGRTMIN as glibc has it and as people type it

// x86 and Arm share these numbers (asm-generic/signal.h).
constexpr std::array<std::string_view, first_real_time_signal> names = {
    "",     "HUP",  "INT",  "QUIT", "ILL",    "TRAP",   "ABRT",  "BUS",  "FPE",  "KILL", "USR1",
    "SEGV", "USR2", "PIPE", "ALRM", "TERM",   "STKFLT", "CHLD",  "CONT", "STOP", "TSTP", "TTIN",
    "TTOU", "URG",  "XCPU", "XFSZ", "VTALRM", "PROF",   "WINCH", "IO",   "PWR",  "SYS"};

std::optional<int> in_range(std::optional<int> signal) {
  return signal && *signal >= 1 && *signal <= last_signal ? signal : std::nullopt;
}

}  // namespace

std::string signal_name(int signal) {
  if (signal > 0 && signal < first_real_time_signal)
    return "SIG" + std::string(names[static_cast<std::size_t>(signal)]);
  if (signal >= rtmin && signal <= last_signal)
    return signal == rtmin ? "SIGRTMIN" : "SIGRTMIN+" + std::to_string(signal - rtmin);
  return "signal " + std::to_string(signal);
}

std::optional<int> parse_signal(std::string_view text) {
  if (const auto number = parse_number<int>(text)) return in_range(number);
  const std::string upper = upper_case(text);
  std::string_view name = upper;
  if (name.starts_with("SIG")) name.remove_prefix(3);
  for (std::size_t number = 1; number < names.size(); ++number) {
    if (names[number] == name) return static_cast<int>(number);
  }
  const bool from_below = name.starts_with("RTMIN");
  if (!from_below && !name.starts_with("RTMAX")) return std::nullopt;
  const int base = from_below ? rtmin : last_signal;
  name.remove_prefix(5);
  if (name.empty()) return base;
  const auto distance =
      name[0] == (from_below ? '+' : '-') ? parse_number<int>(name.substr(1)) : std::nullopt;
  if (!distance || *distance < 0 || *distance > last_signal - rtmin) return std::nullopt;
  return from_below ? base + *distance : base - *distance;
}

std::optional<SignalSet> parse_signals(std::string_view text) {
  SignalSet set = 0;
  if (text == "none") return set;
  while (!text.empty()) {
    const auto signal = parse_signal(take_part(text, ","));
    if (!signal) return std::nullopt;
    set |= bit(*signal);
  }
  return set;
}

std::optional<SignalMap> SignalMap::parse(std::string_view text) {
  SignalMap map;
  while (!text.empty()) {
    const std::string_view item = take_part(text, ",");
    const auto equals = item.find('=');
    if (equals == std::string_view::npos) return std::nullopt;
    const auto from = parse_signal(item.substr(0, equals));
    const std::string_view target = item.substr(equals + 1);
    const auto to = target == "none" ? std::optional(0) : parse_signal(target);
    if (!from || !to || *from == SIGKILL || *from == SIGSTOP || *from == SIGCHLD) return std::nullopt;
    map.to_[static_cast<std::size_t>(*from)] = static_cast<std::uint8_t>(*to);
  }
  return map;
}

}  // namespace rankshim::supervise
