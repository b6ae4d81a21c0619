#include "launchers/torchrun/find_workers.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <ctime>
#include <string_view>

#include "base/signals.h"
#include "base/text.h"

namespace rankshim::torchrun {

using namespace supervise;

namespace {

constexpr std::string_view sign_of_worker = "LOCAL_RANK=";

/// In /proc/PID/environ each entry ends with a zero byte.
bool marked(std::string_view entries) {
  if (entries.starts_with(sign_of_worker)) return true;
  const std::string inner = std::string(1, '\0') + std::string(sign_of_worker);
  return entries.find(inner) != std::string_view::npos;
}

bool is_marked(const Process& process) {
  const std::optional<std::string> environment = read_environment(process.pid);
  return environment && marked(*environment);
}

bool environment_is_marked(const std::vector<std::string>& environment) {
  return std::ranges::any_of(environment,
                             [](const std::string& entry) { return entry.starts_with(sign_of_worker); });
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
    const std::optional<std::string> environment = read_environment(process.pid);
    // A process that has ended meanwhile is no worker: a launcher starts short-lived helpers first.
    if (!environment && (errno == ENOENT || errno == ESRCH)) continue;
    if (!environment || marked(*environment)) return Presence::some;
    if (environment->empty()) found = Presence::perhaps;  // it is in the middle of execve(2)
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

}  // namespace rankshim::torchrun
