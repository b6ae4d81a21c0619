#include "torchrun/find_workers.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <ctime>
#include <string_view>

#include "base/number.h"
#include "base/signal_text.h"

namespace rankshim::torchrun {

using namespace supervise;

namespace {

constexpr std::string_view mark = "LOCAL_RANK=";
// The kernel's limit on arguments and environment together is a quarter of the stack's, 2 MiB unless raised.
constexpr std::size_t longest_environment = std::size_t{8} << 20U;

/// In /proc/PID/environ each entry ends with a zero byte.
bool marked(std::string_view entries) {
  if (entries.starts_with(mark)) return true;
  const std::string inner = std::string(1, '\0') + std::string(mark);
  return entries.find(inner) != std::string_view::npos;
}

bool is_marked(const Process& process) {
  const std::optional<std::string> environment = read_proc(process.pid, "environ", longest_environment);
  return environment && marked(*environment);
}

bool environment_is_marked(const std::vector<std::string>& environment) {
  return std::ranges::any_of(environment, [](const std::string& entry) { return entry.starts_with(mark); });
}

constexpr std::uint64_t startup_seconds = 60;
constexpr std::uint64_t ticks_per_second = 100;  // USER_HZ, the same on x86 and Arm

std::uint64_t age_in_seconds(const Process& process) {
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  const std::uint64_t born = process.start / ticks_per_second;
  const auto seconds = static_cast<std::uint64_t>(now.tv_sec);
  return seconds > born ? seconds - born : 0;
}

/// The set of signals in a line of /proc/PID/status.
SignalSet signals_in(std::string_view status, std::string_view field) {
  const auto at = status.find(field);
  if (at == std::string_view::npos) return 0;
  std::string_view rest = status.substr(at + field.size());
  return take_number<SignalSet>(rest, 16).value_or(0);
}

}  // namespace

Presence find_worker(pid_t agent, const std::vector<std::string>& agent_environment) {
  const std::optional<std::vector<Process>> below = descendants(agent);
  if (!below) return Presence::some;
  const bool agent_is_marked = environment_is_marked(agent_environment);
  Presence found = Presence::none;
  for (const Process& process : *below) {
    if (!process.alive()) continue;
    if (agent_is_marked) return Presence::some;
    const std::optional<std::string> environment = read_proc(process.pid, "environ", longest_environment);
    // One that has ended meanwhile is nobody's worker: a launcher's beginning has short-lived helpers.
    if (!environment && (errno == ENOENT || errno == ESRCH)) continue;
    if (!environment || marked(*environment)) return Presence::some;
    if (environment->empty()) found = Presence::perhaps;  // it is within execve(2)
  }
  return found;
}

std::optional<std::vector<Process>> workers_of(pid_t agent,
                                               const std::vector<std::string>& agent_environment) {
  std::optional<std::vector<Process>> below = descendants(agent);
  if (!below) return std::nullopt;
  const bool agent_is_marked = environment_is_marked(agent_environment);
  std::vector<pid_t> marked_ones;
  for (const Process& process : *below) {
    if (agent_is_marked ? process.parent == agent : is_marked(process)) marked_ones.push_back(process.pid);
  }
  const auto is_in = [&](pid_t pid) { return std::ranges::find(marked_ones, pid) != marked_ones.end(); };
  std::erase_if(*below, [&](const Process& process) {
    return !process.alive() || !is_in(process.pid) || is_in(process.parent);
  });
  return below;
}

bool can_take(const Process& worker, int signal) {
  if (age_in_seconds(worker) >= startup_seconds) return true;
  const std::string status = read_proc(worker.pid, "status", 8192).value_or("");
  const SignalSet taken = signals_in(status, "\nSigBlk:\t") | signals_in(status, "\nSigIgn:\t") |
                          signals_in(status, "\nSigCgt:\t");
  return (taken & bit(signal)) != 0;
}

}  // namespace rankshim::torchrun
