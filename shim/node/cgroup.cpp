#include "node/cgroup.h"

#include "base/text.h"

namespace rankshim {
namespace {

/// QUOTA / PERIOD, rounded up; nothing if one is not a number ("max") or means no limit (v1: -1).
std::optional<long> cpus(std::string_view quota_text, std::string_view period_text) {
  const auto quota = take_number<long>(quota_text);
  const auto period = take_number<long>(period_text);
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

/// The limit in effect in this process's group, which is below `root`.
std::optional<long> limit_below(const Node& node, const std::string& root, std::string_view groups, bool v2) {
  const std::string path(find_cgroup(groups, v2 ? "" : "cpu").value_or(""));
  return smallest_limit(root, root + (path == "/" ? "" : path),
                        [&](const std::string& folder) { return limit_of(node, folder, v2); });
}

bool is_in(std::string_view list, std::string_view wanted) {
  while (!list.empty())
    if (take_part(list, ",") == wanted) return true;
  return false;
}

}  // namespace

std::optional<std::string_view> find_cgroup(std::string_view self_cgroup, std::string_view controller) {
  std::optional<std::string_view> found;
  while (!self_cgroup.empty()) {  // HIERARCHY:CONTROLLERS:PATH; v2 names no controllers
    std::string_view path = take_line(self_cgroup);
    take_part(path, ":");
    if (path.find(':') == std::string_view::npos) continue;
    const std::string_view controllers = take_part(path, ":");
    if (controller.empty() ? controllers.empty() : is_in(controllers, controller)) found = path;
  }
  return found;
}

std::optional<long> cgroup_cpus(const Node& node) {
  const std::string groups = node.file("/proc/self/cgroup").value_or("");
  if (const auto found = limit_below(node, "/sys/fs/cgroup", groups, true)) return found;
  if (const auto found = limit_below(node, "/sys/fs/cgroup/cpu", groups, false)) return found;
  return limit_below(node, "/sys/fs/cgroup/cpu,cpuacct", groups, false);  // without the usual link
}

}  // namespace rankshim
