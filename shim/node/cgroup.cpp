#include "node/cgroup.h"

#include <sys/statvfs.h>

#include "base/text.h"

namespace rankshim {
namespace {

/// QUOTA / PERIOD, rounded up; nothing if one is not a number ("max") or means no limit (v1: -1).
std::optional<long> cpu_limit(const Node& node, const std::string& folder, bool v2) {
  std::string both = node.file(folder + (v2 ? "/cpu.max" : "/cpu.cfs_quota_us")).value_or("");
  if (!v2 && !both.empty()) both += ' ' + node.file(folder + "/cpu.cfs_period_us").value_or("");
  std::string_view rest = both;
  const auto quota = parse_number<long>(take_word(rest));
  const auto period = parse_number<long>(take_word(rest));
  if (!quota || !period || *quota <= 0 || *period <= 0) return std::nullopt;
  return *quota / *period + (*quota % *period != 0 ? 1 : 0);
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

std::string folder_of(std::string_view root, std::string_view group) {
  return std::string(root).append(group == "/" ? "" : group);
}

/// The limit in effect in this process's group, which is below `root`.
std::optional<long> cpus_below(const Node& node, std::string_view root, std::string_view groups, bool v2) {
  return smallest_limit(root, folder_of(root, find_cgroup(groups, v2 ? "" : "cpu").value_or("")),
                        [&](const std::string& folder) { return cpu_limit(node, folder, v2); });
}

/// Where the memory controller's files are, and their names.
struct MemoryFiles {
  std::string_view root;
  const char* events;
  const char* limit;
  const char* peak;
};
constexpr MemoryFiles v1_files = {"/sys/fs/cgroup/memory", "/memory.oom_control", "/memory.limit_in_bytes",
                                  "/memory.max_usage_in_bytes"};
constexpr MemoryFiles v2_files = {"/sys/fs/cgroup", "/memory.events", "/memory.max", "/memory.peak"};
const MemoryFiles& files_of(const MemoryGroup& group) { return group.v2 ? v2_files : v1_files; }

// v1 writes "no limit" as the largest number of whole pages.
constexpr std::uint64_t no_limit = std::uint64_t{1} << 60U;

std::optional<std::uint64_t> number_of(const Node& node, const std::string& path) {
  return first_number<std::uint64_t>(node.file(path).value_or(""));
}

/// The limit in effect, as far as the cgroups above this one are visible.
std::optional<std::uint64_t> memory_limit(const Node& node, const MemoryGroup& group) {
  const MemoryFiles& files = files_of(group);
  return smallest_limit(files.root, group.folder, [&](const std::string& folder) {
    const auto limit = number_of(node, folder + files.limit);
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
  const auto v1 = find_cgroup(groups, "memory");
  const auto path = v1 ? v1 : find_cgroup(groups, "");
  MemoryGroup group{.folder = {}, .v2 = !v1};
  if (!path) return group;
  const MemoryFiles& files = files_of(group);
  for (const std::string& folder : {folder_of(files.root, *path), std::string(files.root)})
    if (group.folder.empty() && node.file(folder + files.events)) group.folder = folder;
  return group;
}

MemoryReading read_memory(const Node& node, const MemoryGroup& group) {
  MemoryReading reading;
  if (group.folder.empty()) return reading;
  const MemoryFiles& files = files_of(group);
  const std::string events = node.file(group.folder + files.events).value_or("");
  const auto number_after = [&](std::string_view key) {
    return first_number<std::uint64_t>(text_after(events, key));
  };
  const auto kills = number_after("oom_kill ");
  reading.known = kills.has_value();
  reading.oom_kills = kills.value_or(0);
  reading.limit = memory_limit(node, group);
  reading.peak = number_of(node, group.folder + files.peak);
  // v1 has neither.
  reading.pressed = number_after("max ").value_or(0) + number_after("oom ").value_or(0);
  reading.kills_all = number_of(node, group.folder + "/memory.oom.group") == 1U;
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
