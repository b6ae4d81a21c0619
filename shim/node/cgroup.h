#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "node/node.h"

/// The limits and numbers of this container: its cgroup's, and how full /dev/shm is.
namespace rankshim {

/// The CPU quota of this process's cgroup, rounded up; nothing if no level has a limit. v2: cpu.max of the
/// group and of each group above it; v1: cpu.cfs_quota_us likewise. A container usually sees its group as the
/// root (cgroup_namespaces(7)).
std::optional<long> cgroup_cpus(const Node& node);

/// Where the files of rankshim's memory cgroup are.
struct MemoryGroup {
  std::string folder;  ///< without a slash at its end; empty if no memory controller is visible
  bool v2 = false;
};

/// Finds the group by /proc/self/cgroup. Inside a container the cgroup is often mounted as the root of the
/// hierarchy, while the path is the host's (cgroup v1 without a cgroup namespace): then the root is used.
MemoryGroup find_memory_group(const Node& node);

/// One reading of its counters.
struct MemoryReading {
  bool known = false;           ///< the counter of kills could be read
  std::uint64_t oom_kills = 0;  ///< processes of this cgroup that were ever killed because memory ran out
  std::uint64_t pressed = 0;    ///< v2: how often the limit was reached (`max` and `oom`); v1: 0
  std::optional<std::uint64_t> limit;  ///< bytes; nothing if there is none
  std::optional<std::uint64_t> peak;   ///< bytes; nothing before Linux 5.19 under v2
  bool kills_all =
      false;  ///< v2's memory.oom.group: if one process exceeds the limit, rankshim is killed too
};

/// v2: memory.events, memory.max (the smallest of this cgroup and those above), memory.peak,
/// memory.oom.group; v1: memory.oom_control, memory.limit_in_bytes, memory.max_usage_in_bytes
/// (Linux, Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst).
MemoryReading read_memory(const Node& node, const MemoryGroup& group);

/// "512 MiB": bytes for messages.
std::string mebibytes(std::uint64_t bytes);

/// How full /dev/shm is; empty if there is none.
std::string describe_shm();

/// The limit in effect in a group: the smallest of those of its folder and of the folders above it, up to
/// `root`, where `folder` begins with `root` and `limit_of` gives a folder's limit, or nothing.
template <class LimitOf>
auto smallest_limit(std::string_view root, std::string folder, const LimitOf& limit_of) {
  auto smallest = limit_of(folder);
  while (folder.size() > root.size()) {
    folder.resize(std::max(folder.rfind('/'), root.size()));
    const auto limit = limit_of(folder);
    if (limit && (!smallest || *limit < *smallest)) smallest = limit;
  }
  return smallest;
}

}  // namespace rankshim
