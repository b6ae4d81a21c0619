#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "node/node.h"

/// The memory controller's numbers for this container.
namespace rankshim {

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

}  // namespace rankshim
