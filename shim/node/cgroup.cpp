#include "node/cgroup.h"

#include <charconv>
#include <string>
#include <string_view>

namespace rankshim {
namespace {

std::optional<long> number_in(std::string_view text) {
  long value = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  if (result.ec != std::errc{}) return std::nullopt;
  return value;
}

/// QUOTA / PERIOD, rounded up; nothing where one is no number ("max") or means no limit (v1: -1).
std::optional<long> cpus(std::string_view quota_text, std::string_view period_text) {
  const auto quota = number_in(quota_text);
  const auto period = number_in(period_text);
  if (!quota || !period || *quota <= 0 || *period <= 0) return std::nullopt;
  return *quota / *period + (*quota % *period != 0 ? 1 : 0);
}

std::optional<long> limit_of(const Node& node, const std::string& folder, bool v2) {
  if (v2) {  // "QUOTA PERIOD"
    const auto max = node.file(folder + "/cpu.max");
    const auto blank = max ? max->find(' ') : std::string::npos;
    if (blank == std::string::npos) return std::nullopt;
    return cpus(*max, std::string_view(*max).substr(blank + 1));
  }
  const auto quota = node.file(folder + "/cpu.cfs_quota_us");
  const auto period = quota ? node.file(folder + "/cpu.cfs_period_us") : std::nullopt;
  if (!period) return std::nullopt;
  return cpus(*quota, *period);
}

/// The group's path in a line of /proc/self/cgroup, "ID:CONTROLLERS:PATH"; nothing where the line is of other
/// controllers. v2's has none.
std::optional<std::string> path_in(std::string_view line, bool v2) {
  const auto first = line.find(':');
  const auto second = first == std::string_view::npos ? first : line.find(':', first + 1);
  if (second == std::string_view::npos) return std::nullopt;
  std::string_view controllers = line.substr(first + 1, second - first - 1);
  std::string path(line.substr(second + 1));
  if (v2) return controllers.empty() ? std::optional(path) : std::nullopt;
  while (!controllers.empty()) {
    const auto comma = controllers.find(',');
    if (controllers.substr(0, comma) == "cpu") return path;
    controllers = comma == std::string_view::npos ? std::string_view{} : controllers.substr(comma + 1);
  }
  return std::nullopt;
}

/// The smallest limit from the group up to the root of a hierarchy.
std::optional<long> smallest(const Node& node, const std::string& root, std::string_view groups, bool v2) {
  std::string path;
  while (!groups.empty()) {
    const auto end = groups.find('\n');
    if (auto found = path_in(groups.substr(0, end), v2)) path = std::move(*found);
    groups = end == std::string_view::npos ? std::string_view{} : groups.substr(end + 1);
  }
  std::optional<long> result;
  while (true) {
    while (path.ends_with('/')) path.pop_back();
    const auto limit = limit_of(node, root + path, v2);
    if (limit && (!result || *limit < *result)) result = limit;
    if (path.empty()) return result;
    const auto slash = path.rfind('/');
    path.resize(slash == std::string::npos ? 0 : slash);
  }
}

}  // namespace

std::optional<long> cgroup_cpus(const Node& node) {
  const std::string groups = node.file("/proc/self/cgroup").value_or("");
  if (const auto found = smallest(node, "/sys/fs/cgroup", groups, true)) return found;
  if (const auto found = smallest(node, "/sys/fs/cgroup/cpu", groups, false)) return found;
  return smallest(node, "/sys/fs/cgroup/cpu,cpuacct", groups, false);  // where nobody has made the link
}

}  // namespace rankshim
