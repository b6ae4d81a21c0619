#include "node/cgroup.h"

#include <catch2/catch.hpp>

#include "node/fake_host_for_test.h"

namespace rankshim::node {
namespace {

TEST_CASE(
    "the smallest limit is looked for in a group's folder and in each folder above it, up to the root") {
  const auto smallest = [](const std::string& group, const std::map<std::string, std::string>& limits) {
    FakeHost host({});
    host.files["/proc/self/cgroup"] = "0::" + group + "\n";
    host.files["/sys/fs/cgroup" + group + "/memory.events"] = "oom_kill 0\n";
    for (const auto& [folder, limit] : limits) host.files[folder + "/memory.max"] = limit;
    return read_memory(host).limit;
  };
  CHECK(smallest("/a/b", {{"/sys/fs/cgroup/a/b", "3"}, {"/sys/fs/cgroup/a", "2"}, {"/sys/fs", "1"}}) == 2U);
  CHECK(smallest("/a/b", {{"/sys/fs/cgroup/a/b", "3"}, {"/sys/fs/cgroup", "1"}}) == 1U);
  CHECK(smallest("/", {{"/sys/fs/cgroup", "3"}, {"/sys/fs", "1"}}) == 3U);
  CHECK_FALSE(smallest("/a", {}));
}

TEST_CASE("the CPU quota is the smallest of the group's and those above it, rounded up") {
  struct Row {
    std::map<std::string, std::string> files;
    std::optional<std::uint64_t> expected;
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
    FakeHost host({});
    host.files = row.files;
    CHECK(cgroup_cpus(host) == row.expected);
  }
}

TEST_CASE("the memory cgroup is found under v2, v1, and where the container's own is mounted as the root",
          "[memory]") {
  struct Row {
    std::string groups;
    std::string file;
    std::string folder;
    bool v2;
  };
  const std::vector<Row> rows = {
      {"0::/\n", "/sys/fs/cgroup/memory.events", "/sys/fs/cgroup", true},
      {"0::/a/b\n", "/sys/fs/cgroup/a/b/memory.events", "/sys/fs/cgroup/a/b", true},
      {"0::/kubepods/x\n", "/sys/fs/cgroup/memory.events", "/sys/fs/cgroup", true},
      {"4:memory:/job\n0::/\n", "/sys/fs/cgroup/memory/job/memory.oom_control", "/sys/fs/cgroup/memory/job",
       false},
      {"4:hugetlb,memory:/kubepods/x\n", "/sys/fs/cgroup/memory/memory.oom_control", "/sys/fs/cgroup/memory",
       false},
      {"4:memory:/x\n", "/elsewhere", "", false},
      {"", "/sys/fs/cgroup/memory.events", "", true},
  };
  for (const Row& row : rows) {
    INFO(row.groups);
    FakeHost host({});
    host.files["/proc/self/cgroup"] = row.groups;
    host.files[row.file] = "oom_kill 0\n";
    const MemoryUsage usage = read_memory(host);
    CHECK(usage.known == !row.folder.empty());
    CHECK(usage.events == (usage.known ? row.file : ""));
    CHECK(usage.control == (usage.known && !row.v2 ? row.folder + "/cgroup.event_control" : ""));
  }
}

TEST_CASE("the smallest limit on the way up is the one that holds", "[memory]") {
  FakeHost host({});
  host.files["/proc/self/cgroup"] = "0::/pod/c\n";
  host.files["/sys/fs/cgroup/pod/c/memory.events"] = "low 0\nhigh 0\nmax 7\noom 2\noom_kill 1\n";
  host.files["/sys/fs/cgroup/pod/c/memory.max"] = "max\n";
  host.files["/sys/fs/cgroup/pod/memory.max"] = "536870912\n";
  host.files["/sys/fs/cgroup/pod/c/memory.peak"] = "536600000\n";
  host.files["/sys/fs/cgroup/pod/c/memory.oom.group"] = "1\n";
  const MemoryUsage usage = read_memory(host);
  CHECK(usage.known);
  CHECK(usage.oom_kills == 1);
  CHECK(usage.pressed == 9);
  CHECK(usage.limit == 536870912U);
  CHECK(usage.peak == 536600000U);
  CHECK(usage.kills_all);
}

TEST_CASE("the memory that is left is the machine's, or that of the limit which leaves the least",
          "[memory]") {
  constexpr std::uint64_t mebibyte = std::uint64_t{1} << 20U;
  const std::map<std::string, std::string> machine = {
      {"/proc/meminfo", "MemTotal:       8192 kB\nMemFree:  1 kB\nMemAvailable:   6144 kB\n"}};
  struct Row {
    std::map<std::string, std::string> files;
    std::uint64_t all, left;
  };
  const std::vector<Row> rows = {
      {{}, 8 * mebibyte, 6 * mebibyte},
      {{{"/proc/self/cgroup", "0::/a\n"},
        {"/sys/fs/cgroup/a/memory.max", "max\n"},
        {"/sys/fs/cgroup/a/memory.current", "3145728\n"}},
       8 * mebibyte,
       6 * mebibyte},
      {{{"/proc/self/cgroup", "0::/a/b\n"},
        {"/sys/fs/cgroup/a/b/memory.stat", "anon 1\ninactive_file 1048576\n"},
        {"/sys/fs/cgroup/a/b/memory.max", "5242880\n"},
        {"/sys/fs/cgroup/a/b/memory.current", "3145728\n"},
        {"/sys/fs/cgroup/a/memory.max", "6291456\n"},
        {"/sys/fs/cgroup/a/memory.current", "5242880\n"}},
       5 * mebibyte,
       1 * mebibyte},
      {{{"/proc/self/cgroup", "4:memory:/m\n0::/\n"},
        {"/sys/fs/cgroup/memory/memory.stat", "inactive_file 0\n"},
        {"/sys/fs/cgroup/memory/memory.limit_in_bytes", "4194304\n"},
        {"/sys/fs/cgroup/memory/memory.usage_in_bytes", "5242880\n"}},
       4 * mebibyte,
       0},
  };
  for (const Row& row : rows) {
    FakeHost host({});
    host.files = row.files;
    host.files.insert(machine.begin(), machine.end());
    const AvailableMemory memory = available_memory(host);
    CHECK(memory.total == row.all);
    CHECK(memory.free == row.left);
  }
}

TEST_CASE("v1's largest number is no limit", "[memory]") {
  FakeHost host({});
  host.files["/proc/self/cgroup"] = "4:memory:/\n";
  host.files["/sys/fs/cgroup/memory/memory.oom_control"] = "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n";
  host.files["/sys/fs/cgroup/memory/memory.limit_in_bytes"] = "9223372036854771712\n";
  host.files["/sys/fs/cgroup/memory/memory.max_usage_in_bytes"] = "1048576\n";
  const MemoryUsage usage = read_memory(host);
  CHECK(usage.oom_kills == 3);
  CHECK_FALSE(usage.limit);
  CHECK(usage.peak == 1048576U);
  CHECK_FALSE(read_memory(FakeHost({})).known);
}

}  // namespace
}  // namespace rankshim::node
