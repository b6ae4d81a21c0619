#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "node/host.h"

/// The limits and numbers of this container: its cgroup's, and how full /dev/shm is. A container usually sees
/// its cgroup as the root of the hierarchy (cgroup_namespaces(7)).
namespace rankshim::node {

/// The CPU quota of this process's cgroup, rounded up; nullopt if no level has a limit. v2: cpu.max of the
/// group and of each group above it; v1: cpu.cfs_quota_us likewise.
std::optional<std::uint64_t> cgroup_cpus(const Host& host);

/// One reading of the counters of this process's memory cgroup.
struct MemoryReading {
  bool known = false;           ///< the counter of kills could be read
  std::uint64_t oom_kills = 0;  ///< processes of this cgroup that were ever killed because memory ran out
  std::uint64_t pressed = 0;    ///< v2: how often the limit was reached (`max` and `oom`); v1: 0
  std::optional<std::uint64_t> limit;  ///< bytes; nullopt if there is none
  std::optional<std::uint64_t> peak;   ///< bytes; nullopt before Linux 5.19 under v2
  /// v2's memory.oom.group: if one process exceeds the limit, rankshim is killed too.
  bool kills_all = false;
  /// The file with the counters. The kernel announces its changes: v2's memory.events by inotify, v1's
  /// memory.oom_control by an eventfd that is written to `control`.
  std::string events;
  std::string control;  ///< v1's cgroup.event_control; v2: empty
};

/// v2: memory.events, memory.max (the smallest of this cgroup and those above), memory.peak,
/// memory.oom.group; v1: memory.oom_control, memory.limit_in_bytes, memory.max_usage_in_bytes
/// (Linux, Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst). The cgroup is that of
/// /proc/self/cgroup. If that is not there, the root's files are read: without a cgroup namespace (v1) that
/// path is the host's, and the container's own group is mounted as the root.
MemoryReading read_memory(const Host& host);

/// Memory in bytes: what this container may have, and what of that is neither used nor needed. Files that the
/// kernel keeps in memory and nobody has read lately are not counted as used.
struct MemoryRoom {
  std::uint64_t all = 0;  ///< 0: not known
  std::uint64_t left = 0;
};

/// By the machine's MemAvailable (proc_meminfo(5)) and the limit, of this cgroup or one above it, that leaves
/// the least: v2's memory.current, v1's memory.usage_in_bytes, and inactive_file of memory.stat.
MemoryRoom memory_room(const Host& host);

/// "512 MiB": bytes for messages.
std::string mebibytes(std::uint64_t bytes);

/// How full /dev/shm is; empty if there is none.
std::string describe_shm();

}  // namespace rankshim::node
