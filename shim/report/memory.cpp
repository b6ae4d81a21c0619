#include "report/memory.h"

#include <sys/statvfs.h>

#include <string_view>

#include "base/text.h"
#include "node/cgroup.h"

namespace rankshim {
namespace {

constexpr std::string_view v1_root = "/sys/fs/cgroup/memory";
constexpr std::string_view v2_root = "/sys/fs/cgroup";
// v1 writes "no limit" as the largest number of whole pages.
constexpr std::uint64_t no_limit = std::uint64_t{1} << 60U;

std::optional<std::uint64_t> number_of(const Node& node, const std::string& path) {
  return first_number<std::uint64_t>(node.file(path).value_or(""));
}

/// The limit in effect, as far as the cgroups above this one are visible.
std::optional<std::uint64_t> limit_of(const Node& node, const MemoryGroup& group) {
  const std::string file = group.v2 ? "/memory.max" : "/memory.limit_in_bytes";
  return smallest_limit(group.v2 ? v2_root : v1_root, group.folder, [&](const std::string& folder) {
    const auto limit = number_of(node, folder + file);
    return limit && *limit < no_limit ? limit : std::nullopt;
  });
}

}  // namespace

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
  reading.limit = limit_of(node, group);
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
