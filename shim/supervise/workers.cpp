#include "supervise/workers.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "supervise/tree.h"

namespace rankshim::supervise {
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

}  // namespace

bool has_worker(pid_t agent, const std::vector<std::string>& agent_environment) {
  const std::optional<std::vector<Process>> below = descendants(agent);
  if (!below) return true;
  const bool agent_is_marked = std::ranges::any_of(
      agent_environment, [](const std::string& entry) { return entry.starts_with(mark); });
  return std::ranges::any_of(*below, [&](const Process& process) {
    if (!process.alive()) return false;
    if (agent_is_marked) return true;
    const std::optional<std::string> environment = read_proc(process.pid, "environ", longest_environment);
    return !environment || marked(*environment);
  });
}

}  // namespace rankshim::supervise
