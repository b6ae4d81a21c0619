#include "node/cgroup.h"

#include <sys/statvfs.h>

#include <algorithm>
#include <array>
#include <functional>
#include <string_view>
#include <utility>

#include "base/text.h"

namespace rankshim::node {
namespace {

using Number = std::uint64_t;

std::optional<Number> number_in(const Host& host, const std::string& path, std::string_view key = {}) {
  return first_number<Number>(host.field(path, key));
}

/// The path of this process's cgroup according to /proc/self/cgroup (cgroups(7)), in the v1 hierarchy of a
/// controller, or in v2's for "". The root's path is empty. Returns nullopt if the process is in no such
/// cgroup.
std::optional<std::string> find_cgroup(const Host& host, std::string_view controller) {
  std::optional<std::string> found;
  const std::string groups = host.file("/proc/self/cgroup").value_or("");
  for (std::string_view rest = groups; !rest.empty();) {
    std::string_view path = next_line(rest);  // HIERARCHY:CONTROLLERS:PATH; v2 names no controllers
    split_next(path, ":");
    if (path.find(':') == std::string_view::npos) continue;
    const std::string_view controllers = split_next(path, ":");
    if (controller.empty() ? controllers.empty() : has_part(controllers, controller, ","))
      found = path == "/" ? "" : path;
  }
  return found;
}

/// The effective limit: the smallest of the limits of the folder and of the folders above it, up to `root`.
std::optional<Number> smallest_limit(
    std::string_view root, std::string folder,
    const std::function<std::optional<Number>(const std::string& folder)>& limit_of) {
  std::optional<Number> smallest = limit_of(folder);
  while (folder.size() > root.size()) {
    folder.resize(std::max(folder.rfind('/'), root.size()));
    const auto limit = limit_of(folder);
    if (limit && (!smallest || *limit < *smallest)) smallest = limit;
  }
  return smallest;
}

/// QUOTA / PERIOD, rounded up; nullopt if one is not a number (v2: "max", v1: -1) or 0.
std::optional<Number> cpu_limit(const Host& host, const std::string& folder) {
  std::string both = host.field(folder + "/cpu.max");
  if (both.empty())
    both = host.field(folder + "/cpu.cfs_quota_us") + ' ' + host.field(folder + "/cpu.cfs_period_us");
  std::string_view rest = both;
  const auto quota = parse_number<Number>(next_word(rest)), period = parse_number<Number>(next_word(rest));
  if (!quota || !period || *quota == 0 || *period == 0) return std::nullopt;
  return *quota / *period + (*quota % *period != 0 ? 1 : 0);
}

// v1 expresses "no limit" as the largest number of whole pages.
constexpr Number no_limit = Number{1} << 60U;

/// This process's memory cgroup.
struct MemoryGroup {
  bool v2 = true;
  std::string root;
  std::string folder;

  /// The effective limit of a folder, its own or that of one above it.
  [[nodiscard]] std::optional<Number> limit(const Host& host, const std::string& of_folder) const {
    const auto limit = number_in(host, of_folder + (v2 ? "/memory.max" : "/memory.limit_in_bytes"));
    return limit && *limit < no_limit ? limit : std::nullopt;
  }
};

/// Finds this process's memory cgroup. If its own folder lacks the file, the root's folder is used. nullopt
/// if it is in none.
std::optional<MemoryGroup> find_memory_group(const Host& host, const char* file_of_v2,
                                             const char* file_of_v1) {
  auto group = find_cgroup(host, "memory");
  const bool v2 = !group;
  if (v2) group = find_cgroup(host, "");
  if (!group) return std::nullopt;
  std::string root = v2 ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory";
  std::string folder = root + *group;
  if (!host.file(folder + (v2 ? file_of_v2 : file_of_v1))) folder = root;
  return MemoryGroup{v2, std::move(root), std::move(folder)};
}

}  // namespace

std::optional<std::uint64_t> cgroup_cpus(const Host& host) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 3> hierarchies = {{
      {"/sys/fs/cgroup", ""},
      {"/sys/fs/cgroup/cpu", "cpu"},
      {"/sys/fs/cgroup/cpu,cpuacct", "cpu"},  // without the usual link
  }};
  for (const auto& [root, controller] : hierarchies) {
    const auto found = smallest_limit(root, std::string(root) + find_cgroup(host, controller).value_or(""),
                                      [&](const std::string& folder) { return cpu_limit(host, folder); });
    if (found) return found;
  }
  return std::nullopt;
}

MemoryUsage read_memory(const Host& host) {
  constexpr const char* of_v2 = "/memory.events";
  constexpr const char* of_v1 = "/memory.oom_control";
  MemoryUsage usage;
  const auto group = find_memory_group(host, of_v2, of_v1);
  if (!group) return usage;
  const auto& [v2, root, folder] = *group;
  const char* const counters = v2 ? of_v2 : of_v1;
  const std::string events = folder + counters;
  const auto kills = number_in(host, events, "oom_kill ");
  usage.known = kills.has_value();
  usage.oom_kills = kills.value_or(0);
  usage.limit = smallest_limit(root, folder, [&](const std::string& one) { return group->limit(host, one); });
  usage.peak = number_in(host, folder + (v2 ? "/memory.peak" : "/memory.max_usage_in_bytes"));
  if (!kills) return usage;
  usage.events = events;
  if (!v2) usage.control = folder + "/cgroup.event_control";
  if (!v2) return usage;
  usage.pressed = number_in(host, events, "max ").value_or(0) + number_in(host, events, "oom ").value_or(0);
  usage.kills_all = number_in(host, folder + "/memory.oom.group") == 1U;
  return usage;
}

AvailableMemory available_memory(const Host& host) {
  constexpr Number kibibyte = 1024;
  AvailableMemory memory{.total = kibibyte * number_in(host, "/proc/meminfo", "MemTotal:").value_or(0),
                         .free = kibibyte * number_in(host, "/proc/meminfo", "MemAvailable:").value_or(0)};
  const auto group = find_memory_group(host, "/memory.stat", "/memory.stat");
  if (!group) return memory;
  const char* const usage = group->v2 ? "/memory.current" : "/memory.usage_in_bytes";
  const auto look_at = [&](const std::string& one) -> std::optional<Number> {
    const auto limit = group->limit(host, one), used = number_in(host, one + usage);
    if (!limit || !used) return std::nullopt;
    const Number files = number_in(host, one + "/memory.stat", "inactive_file ").value_or(0);
    const Number needed = *used - std::min(files, *used);
    memory.total = std::min(memory.total, *limit);
    return *limit - std::min(needed, *limit);
  };
  if (const auto least = smallest_limit(group->root, group->folder, look_at))
    memory.free = std::min(memory.free, *least);
  return memory;
}

std::string mebibytes(std::uint64_t bytes) { return std::to_string((bytes + (1U << 19U)) >> 20U) + " MiB"; }

std::string describe_shm() {
  struct statvfs status{};
  if (statvfs("/dev/shm", &status) != 0 || status.f_blocks == 0) return {};
  // A small one that has room now may have been full until its processes ended.
  constexpr std::uint64_t large = std::uint64_t{1} << 30U;
  const std::uint64_t all = status.f_blocks * status.f_frsize, left = status.f_bavail * status.f_frsize;
  if (all >= large && left >= all / 10) return {};
  return "/dev/shm has " + mebibytes(left) + " of " + mebibytes(all) + " left";
}

}  // namespace rankshim::node
