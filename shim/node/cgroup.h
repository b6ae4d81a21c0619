#pragma once

#include <optional>

#include "node/node.h"

namespace rankshim {

/// The CPU quota of this process's cgroup, rounded up; nothing where no level of it has a limit. v2: cpu.max
/// of the group and of each above it; v1: cpu.cfs_quota_us likewise. A container usually sees its own group
/// as the root (cgroup_namespaces(7)).
std::optional<long> cgroup_cpus(const Node& node);

}  // namespace rankshim
