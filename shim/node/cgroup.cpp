#include "node/cgroup.h"

#include <sys/statvfs.h>

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

std::optional<long> cpu_limit(const Node& node, const std::string& folder, bool v2) {
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

/// Finds this process's cgroup in the content of /proc/self/cgroup (cgroups(7)): in the v1 hierarchy of a
/// controller, or in v2's for "". Returns nothing if it is in none.
std::optional<std::string_view> find_cgroup(std::string_view self_cgroup, std::string_view controller) {
  std::optional<std::string_view> found;
  while (!self_cgroup.empty()) {  // HIERARCHY:CONTROLLERS:PATH; v2 names no controllers
    std::string_view path = take_line(self_cgroup);
    take_part(path, ":");
    if (path.find(':') == std::string_view::npos) continue;
    const std::string_view controllers = take_part(path, ":");
    if (controller.empty() ? controllers.empty() : has_part(controllers, controller, ",")) found = path;
  }
  return found;
}

/// The limit in effect in this process's group, which is below `root`.
std::optional<long> cpus_below(const Node& node, const std::string& root, std::string_view groups, bool v2) {
  const std::string path(find_cgroup(groups, v2 ? "" : "cpu").value_or(""));
  return smallest_limit(root, root + (path == "/" ? "" : path),
                        [&](const std::string& folder) { return cpu_limit(node, folder, v2); });
}

constexpr std::string_view v1_root = "/sys/fs/cgroup/memory";
constexpr std::string_view v2_root = "/sys/fs/cgroup";
// v1 writes "no limit" as the largest number of whole pages.
constexpr std::uint64_t no_limit = std::uint64_t{1} << 60U;

std::optional<std::uint64_t> number_of(const Node& node, const std::string& path) {
  return first_number<std::uint64_t>(node.file(path).value_or(""));
}

/// The limit in effect, as far as the cgroups above this one are visible.
std::optional<std::uint64_t> memory_limit(const Node& node, const MemoryGroup& group) {
  const std::string file = group.v2 ? "/memory.max" : "/memory.limit_in_bytes";
  return smallest_limit(group.v2 ? v2_root : v1_root, group.folder, [&](const std::string& folder) {
    const auto limit = number_of(node, folder + file);
    return limit && *limit < no_limit ? limit : std::nullopt;
  });
}

}  // namespace

std::optional<long> cgroup_cpus(const Node& node) {
  const std::string groups = node.file("/proc/self/cgroup").value_or("");
  if (const auto found = cpus_below(node, "/sys/fs/cgroup", groups, true)) return found;
  if (const auto found = cpus_below(node, "/sys/fs/cgroup/cpu", groups, false)) return found;
  return cpus_below(node, "/sys/fs/cgroup/cpu,cpuacct", groups, false);  // without the usual link
}

MemoryGroup find_memory_group(const Node& node) {
  const std::string groups = node.file("/proc/self/cgroup").value_or("");
  const std::string_view v1 = find_cgroup(groups, "memory").value_or("");
  const std::string_view v2 = find_cgroup(groups, "").value_or("");
  MemoryGroup group;
  group.v2 = v1.empty();
  if (v1.empty() && v2.empty()) return group;
  const std::string root(group.v2 ? v2_root : v1_root);
  const std::string_view path = group.v2 ? v2 : v1;
  const std::string probe = group.v2 ? "/memory.events" : "/memory.oom_control";
  for (const std::string& folder : {root + std::string(path == "/" ? "" : path), root}) {
    if (node.file(folder + probe)) {
      group.folder = folder;
      return group;
    }
  }
  return group;
}

MemoryReading read_memory(const Node& node, const MemoryGroup& group) {
  MemoryReading reading;
  if (group.folder.empty()) return reading;
  const std::string events =
      node.file(group.folder + (group.v2 ? "/memory.events" : "/memory.oom_control")).value_or("");
  const auto number_after = [&](std::string_view key) {
    return first_number<std::uint64_t>(text_after(events, key));
  };
  const auto kills = number_after("oom_kill ");
  reading.known = kills.has_value();
  reading.oom_kills = kills.value_or(0);
  reading.limit = memory_limit(node, group);
  if (group.v2) {
    reading.pressed = number_after("max ").value_or(0) + number_after("oom ").value_or(0);
    reading.peak = number_of(node, group.folder + "/memory.peak");
    reading.kills_all = number_of(node, group.folder + "/memory.oom.group") == 1U;
  } else {
    reading.peak = number_of(node, group.folder + "/memory.max_usage_in_bytes");
  }
  return reading;
}

std::string mebibytes(std::uint64_t bytes) { return std::to_string((bytes + (1U << 19U)) >> 20U) + " MiB"; }

std::string describe_shm() {
  struct statvfs status{};
  if (statvfs("/dev/shm", &status) != 0 || status.f_blocks == 0) return {};
  const std::uint64_t unit = status.f_frsize;
  return "/dev/shm has " + mebibytes(status.f_bavail * unit) + " of " + mebibytes(status.f_blocks * unit) +
         " left";
}

}  // namespace rankshim
