#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "node/node.h"

namespace rankshim {

/// The CPU quota of this process's cgroup, rounded up; nothing if no level has a limit. v2: cpu.max of the
/// group and of each group above it; v1: cpu.cfs_quota_us likewise. A container usually sees its group as the
/// root (cgroup_namespaces(7)).
std::optional<long> cgroup_cpus(const Node& node);

/// Finds this process's cgroup in the content of /proc/self/cgroup (cgroups(7)): in the v1 hierarchy of a
/// controller, or in v2's for "". Returns nothing if it is in none.
std::optional<std::string_view> find_cgroup(std::string_view self_cgroup, std::string_view controller);

}  // namespace rankshim
