#pragma once

#include <algorithm>
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
