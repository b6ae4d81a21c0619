#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "node/node.h"

/// What the kernel's memory controller says of this container.
namespace rankshim {

/// Where our memory cgroup's files are.
struct MemoryGroup {
  std::string folder;  ///< without a slash at its end; empty where there is no memory controller to be seen
  bool v2 = false;
};

/// Looks /proc/self/cgroup up. Inside a container its cgroup is often mounted as the root of the hierarchy,
/// while the path is the host's (cgroup v1 without a cgroup namespace): then the root is taken.
MemoryGroup find_memory_group(const Node& node);

/// One look at its counters.
struct MemoryReading {
  bool known = false;                  ///< the counter of kills could be read
  std::uint64_t oom_kills = 0;         ///< processes of this cgroup that were killed for want of memory, ever
  std::uint64_t pressed = 0;           ///< v2: times that the limit was reached (`max` and `oom`); v1: 0
  std::optional<std::uint64_t> limit;  ///< bytes; nothing where there is none
  std::optional<std::uint64_t> peak;   ///< bytes; nothing before Linux 5.19 under v2
  bool kills_all = false;              ///< v2's memory.oom.group: one process over the limit takes us along
};

/// v2: memory.events, memory.max (the smallest of this cgroup and those above), memory.peak,
/// memory.oom.group; v1: memory.oom_control, memory.limit_in_bytes, memory.max_usage_in_bytes
/// (Linux, Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst).
MemoryReading read_memory(const Node& node, const MemoryGroup& group);

/// "512 MiB": bytes for a person.
std::string mebibytes(std::uint64_t bytes);

/// How full /dev/shm is; empty where there is none.
std::string describe_shm();

}  // namespace rankshim
