#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "node/host.h"

/// The limits and counters of this container's cgroup, and how full /dev/shm is. A container usually sees its
/// cgroup as the root of the hierarchy (cgroup_namespaces(7)).
namespace rankshim::node {

/// The CPU quota of this process's cgroup, rounded up; nullopt if no level has a limit. v2: cpu.max of the
/// group and of each group above it; v1: cpu.cfs_quota_us likewise.
std::optional<std::uint64_t> cgroup_cpus(const Host& host);

/// The counters of this process's memory cgroup at one moment.
struct MemoryUsage {
  bool known = false;           ///< the kill counter could be read
  std::uint64_t oom_kills = 0;  ///< how many processes of this cgroup were ever killed because memory ran out
  std::uint64_t pressed = 0;    ///< v2: how often the limit was reached (`max` and `oom`); v1: 0
  std::optional<std::uint64_t> limit;  ///< bytes; nullopt if there is none
  std::optional<std::uint64_t> peak;   ///< bytes; nullopt before Linux 5.19 under v2
  /// v2's memory.oom.group: if one process exceeds the limit, rankshim is killed too.
  bool kills_all = false;
  /// The file with the counters. The kernel notifies of changes: v2's memory.events by inotify, v1's
  /// memory.oom_control by an eventfd that is written to `control`.
  std::string events;
  std::string control;  ///< v1's cgroup.event_control; v2: empty
};

/// Reads v2's memory.events, memory.max (the smallest of this cgroup and those above), memory.peak and
/// memory.oom.group, or v1's memory.oom_control, memory.limit_in_bytes and memory.max_usage_in_bytes (Linux,
/// Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst). The cgroup is the one in
/// /proc/self/cgroup. If that does not exist, the root's files are read: without a cgroup namespace (v1) the
/// path is the host's, and the container's own group is mounted as the root.
MemoryUsage read_memory(const Host& host);

/// Memory in bytes: what this container may have, and how much of that is free. Cached files that nobody has
/// read lately count as free.
struct AvailableMemory {
  std::uint64_t total = 0;  ///< 0 if unknown
  std::uint64_t free = 0;
};

/// The least that the machine's MemAvailable (proc_meminfo(5)) and the limits of this cgroup and those
/// above it leave. Reads v2's memory.current, v1's memory.usage_in_bytes, and inactive_file in memory.stat.
AvailableMemory available_memory(const Host& host);

/// Bytes as messages show them: "512 MiB".
std::string mebibytes(std::uint64_t bytes);

/// How full /dev/shm is, for messages; empty if there is none, or if it has 1 GiB or more and is not nearly
/// full.
std::string describe_shm();

}  // namespace rankshim::node
