#include "report/memory.h"

#include <catch2/catch.hpp>

#include "node/fake_node.h"

using namespace rankshim;

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
    FakeNode node({});
    node.files["/proc/self/cgroup"] = row.groups;
    node.files[row.file] = "oom_kill 0\n";
    const MemoryGroup group = find_memory_group(node);
    CHECK(group.folder == row.folder);
    CHECK(group.v2 == row.v2);
  }
}

TEST_CASE("the smallest limit on the way up is the one that holds", "[memory]") {
  FakeNode node({});
  node.files["/sys/fs/cgroup/pod/c/memory.events"] = "low 0\nhigh 0\nmax 7\noom 2\noom_kill 1\n";
  node.files["/sys/fs/cgroup/pod/c/memory.max"] = "max\n";
  node.files["/sys/fs/cgroup/pod/memory.max"] = "536870912\n";
  node.files["/sys/fs/cgroup/pod/c/memory.peak"] = "536600000\n";
  node.files["/sys/fs/cgroup/pod/c/memory.oom.group"] = "1\n";
  const MemoryReading reading = read_memory(node, {"/sys/fs/cgroup/pod/c", true});
  CHECK(reading.known);
  CHECK(reading.oom_kills == 1);
  CHECK(reading.pressed == 9);
  CHECK(reading.limit == 536870912U);
  CHECK(reading.peak == 536600000U);
  CHECK(reading.kills_all);
}

TEST_CASE("v1's largest number is no limit", "[memory]") {
  FakeNode node({});
  node.files["/sys/fs/cgroup/memory/memory.oom_control"] = "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n";
  node.files["/sys/fs/cgroup/memory/memory.limit_in_bytes"] = "9223372036854771712\n";
  node.files["/sys/fs/cgroup/memory/memory.max_usage_in_bytes"] = "1048576\n";
  const MemoryReading reading = read_memory(node, {"/sys/fs/cgroup/memory", false});
  CHECK(reading.oom_kills == 3);
  CHECK_FALSE(reading.limit);
  CHECK(reading.peak == 1048576U);
  CHECK_FALSE(read_memory(node, {}).known);
}
