#include "node/cgroup.h"

#include <catch2/catch.hpp>

#include "node/fake_node.h"

namespace rankshim {
namespace {

TEST_CASE(
    "the smallest limit is looked for in a group's folder and in each folder above it, up to the root") {
  const auto smallest = [](std::string folder, const std::map<std::string, int>& limits) {
    std::vector<std::string> seen;
    const std::optional<int> found = smallest_limit("/r/s", std::move(folder), [&](const std::string& one) {
      seen.push_back(one);
      const auto limit = limits.find(one);
      return limit == limits.end() ? std::nullopt : std::optional(limit->second);
    });
    return std::pair(found, seen);
  };
  using Folders = std::vector<std::string>;
  CHECK(smallest("/r/s/a/b", {{"/r/s/a/b", 3}, {"/r/s/a", 2}, {"/r", 1}}) ==
        std::pair(std::optional(2), Folders{"/r/s/a/b", "/r/s/a", "/r/s"}));
  CHECK(smallest("/r/s", {{"/r/s", 3}}) == std::pair(std::optional(3), Folders{"/r/s"}));
  CHECK_FALSE(smallest("/r/s/a", {}).first);
}

TEST_CASE("the CPU quota is the smallest of the group's and those above it, rounded up") {
  struct Row {
    std::map<std::string, std::string> files;
    std::optional<long> expected;
  };
  const std::vector<Row> rows = {
      {{}, std::nullopt},
      {{{"/sys/fs/cgroup/cpu.max", "150000 100000\n"}}, 2},
      {{{"/sys/fs/cgroup/cpu.max", "max 100000\n"}}, std::nullopt},
      {{{"/sys/fs/cgroup/cpu.max", "400000 0\n"}}, std::nullopt},
      {{{"/proc/self/cgroup", "0::/job/step\n"},
        {"/sys/fs/cgroup/job/step/cpu.max", "max 100000\n"},
        {"/sys/fs/cgroup/job/cpu.max", "800000 100000\n"}},
       8},
      {{{"/proc/self/cgroup", "0::/job\n"},
        {"/sys/fs/cgroup/job/cpu.max", "800000 100000\n"},
        {"/sys/fs/cgroup/cpu.max", "300000 100000\n"}},
       3},
      {{{"/proc/self/cgroup", "4:memory:/m\n3:cpu,cpuacct:/docker/1\n0::/\n"},
        {"/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "50000\n"},
        {"/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"}},
       1},
      {{{"/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n"},
        {"/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"}},
       std::nullopt},
      {{{"/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "200000\n"},
        {"/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n"}},
       2},
  };
  for (const Row& row : rows) {
    FakeNode node({});
    node.files = row.files;
    CHECK(cgroup_cpus(node) == row.expected);
  }
}

}  // namespace
}  // namespace rankshim
