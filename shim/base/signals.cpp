#include "base/signals.h"

#include <csignal>

#include "base/text.h"

namespace rankshim {
namespace {

constexpr int rtmin = 34;  // SIGRTMIN as glibc has it and as people type it

// x86 and Arm share these numbers (asm-generic/signal.h).
constexpr std::array<std::string_view, first_real_time_signal> signal_names = {
    "",     "HUP",  "INT",  "QUIT", "ILL",    "TRAP",   "ABRT",  "BUS",  "FPE",  "KILL", "USR1",
    "SEGV", "USR2", "PIPE", "ALRM", "TERM",   "STKFLT", "CHLD",  "CONT", "STOP", "TSTP", "TTIN",
    "TTOU", "URG",  "XCPU", "XFSZ", "VTALRM", "PROF",   "WINCH", "IO",   "PWR",  "SYS"};

/// A real-time signal's name: "SIGRTMIN", "SIGRTMIN+3".
std::string at_distance(const std::string& name, char sign, int distance) {
  return distance == 0 ? name : name + sign + std::to_string(distance);
}

}  // namespace

std::string signal_name(int signal) {
  if (signal > 0 && signal < first_real_time_signal)
    return "SIG" + std::string(signal_names[static_cast<std::size_t>(signal)]);
  if (signal >= rtmin && signal <= last_signal) return at_distance("SIGRTMIN", '+', signal - rtmin);
  return "signal " + std::to_string(signal);
}

std::optional<int> parse_signal(std::string_view text) {
  if (const auto number = parse_number<int>(text))
    return *number > 0 && *number <= last_signal ? number : std::nullopt;
  std::string name = upper_case(text);
  if (!name.starts_with("SIG")) name.insert(0, "SIG");
  for (std::size_t signal = 1; signal < signal_names.size(); ++signal)
    if (name.compare(3, name.npos, signal_names[signal]) == 0) return static_cast<int>(signal);
  for (int signal = rtmin; signal <= last_signal; ++signal)
    if (name == signal_name(signal) || name == at_distance("SIGRTMAX", '-', last_signal - signal))
      return signal;
  return std::nullopt;
}

std::optional<SignalSet> parse_signals(std::string_view text) {
  SignalSet set = 0;
  if (text == "none") return set;
  while (!text.empty()) {
    const auto signal = parse_signal(split_next(text, ","));
    if (!signal) return std::nullopt;
    set |= bit(*signal);
  }
  return set;
}

std::optional<SignalMap> SignalMap::parse(std::string_view text) {
  SignalMap map;
  while (!text.empty()) {
    const std::string_view item = split_next(text, ",");
    const auto equals = item.find('=');
    if (equals == std::string_view::npos) return std::nullopt;
    const auto from = parse_signal(item.substr(0, equals));
    const std::string_view target = item.substr(equals + 1);
    const auto to = target == "none" ? std::optional(0) : parse_signal(target);
    if (!from || !to || *from == SIGKILL || *from == SIGSTOP || *from == SIGCHLD) return std::nullopt;
    map.changed_[*from] = *to;
  }
  return map;
}

}  // namespace rankshim
