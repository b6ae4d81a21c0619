#include "node/numa.h"

#include <catch2/catch.hpp>

#include "node/fake_node_for_test.h"

namespace rankshim {
namespace {

/// Two sockets with two NVIDIA cards each, whose minor numbers are not in the order of their addresses.
struct Machine {
  FakeNode node{{}};
  Machine() {
    node.folders = {
        {"/dev", {"null", "nvidiactl", "nvidia0", "nvidia1", "nvidia2", "nvidia3"}},
        {"/proc/driver/nvidia/gpus", {"0000:c1:00.0", "0000:01:00.0", "0000:41:00.0", "0000:81:00.0"}}};
    card("0000:01:00.0", 2, 0);
    card("0000:41:00.0", 3, 0);
    card("0000:81:00.0", 0, 1);
    card("0000:c1:00.0", 1, 1);
    cpus(0, "0-7,16-23");
    cpus(1, "8-15,24-31");
    allow("0-31", "0-1");
  }
  void card(const std::string& address, unsigned minor, int numa) {
    node.files["/proc/driver/nvidia/gpus/" + address + "/information"] =
        "Model: \t\t NVIDIA H100\nGPU UUID: \t GPU-" + address.substr(5, 2) +
        "ab-cdef\nBus Type: \t PCIe\nDevice Minor: \t " + std::to_string(minor) + "\nGPU Excluded:\t No\n";
    node.files["/sys/bus/pci/devices/" + address + "/numa_node"] = std::to_string(numa) + "\n";
  }
  void cpus(unsigned numa, const std::string& list) {
    node.files["/sys/devices/system/node/node" + std::to_string(numa) + "/cpulist"] = list + "\n";
  }
  void allow(const std::string& cpus, const std::string& memory) {
    node.files["/proc/self/status"] = "Name:\trankshim\nCpus_allowed:\tffffffff\nCpus_allowed_list:\t" +
                                      cpus + "\nMems_allowed:\t3\nMems_allowed_list:\t" + memory + "\n";
  }
  [[nodiscard]] NearAccelerator near(unsigned local_rank, std::vector<std::string> environment = {}) const {
    return near_accelerator(node, Environment(std::move(environment)), local_rank);
  }
  [[nodiscard]] std::string text(unsigned local_rank, std::vector<std::string> environment = {}) const {
    return near(local_rank, std::move(environment)).text;
  }
};

TEST_CASE("a worker is near the card of its local rank, in the order of PCI addresses") {
  const Machine machine;
  CHECK(machine.text(0) == "NUMA node 0, CPUs 0-7,16-23 (NVIDIA 0000:01:00.0)");
  CHECK(machine.text(1) == "NUMA node 0, CPUs 0-7,16-23 (NVIDIA 0000:41:00.0)");
  const NearAccelerator last = machine.near(3);
  CHECK(last.text == "NUMA node 1, CPUs 8-15,24-31 (NVIDIA 0000:c1:00.0)");
  REQUIRE(last.affinity);
  CHECK(last.affinity->memory_node == 1);
  CHECK(CPU_COUNT(&last.affinity->cpus) == 16);
  CHECK(CPU_ISSET(8, &last.affinity->cpus));
  CHECK_FALSE(CPU_ISSET(7, &last.affinity->cpus));
}

TEST_CASE("more workers than cards share them in turn") {
  CHECK(Machine().text(6).ends_with("(NVIDIA 0000:81:00.0)"));
}

TEST_CASE("a container has the cards that have a file in its /dev") {
  Machine machine;
  machine.node.folders["/dev"] = {"nvidiactl", "nvidia0", "nvidia3", "kmsg"};
  CHECK(machine.text(0).ends_with("(NVIDIA 0000:41:00.0)"));
  CHECK(machine.text(1).ends_with("(NVIDIA 0000:81:00.0)"));
  machine.node.folders["/dev"] = {"nvidiactl"};
  CHECK(machine.text(0) == "not bound: no accelerator is known that it can use");
}

TEST_CASE("before a driver's first use, a machine's cards have no files and are near all the same") {
  Machine machine;
  machine.node.folders["/dev"] = {"kmsg"};
  CHECK(machine.text(0).ends_with("(NVIDIA 0000:01:00.0)"));
}

TEST_CASE("a worker's own list of cards counts, by number or by UUID, up to its first unknown entry") {
  const Machine machine;
  struct Row {
    std::string list;
    unsigned local_rank;
    std::string expected;
  };
  const std::string none = "not bound: no accelerator is known that it can use";
  const std::vector<Row> rows = {
      {"3,0", 0, "0000:c1:00.0"},
      {"3,0", 1, "0000:01:00.0"},
      {"2", 2, "0000:81:00.0"},  // CUDA_VISIBLE_DEVICES={local_rank}: the worker's only card
      {"1,9,2", 1, "0000:41:00.0"},
      {"GPU-81ab-cdef,GPU-41", 0, "0000:81:00.0"},
      {"GPU-81ab-cdef,GPU-41", 1, "0000:41:00.0"},
      {"", 0, none},
      {"-1", 0, none},
      {"MIG-1a", 0, none},
  };
  for (const Row& row : rows) {
    INFO(row.list << " " << row.local_rank);
    CHECK_THAT(machine.text(row.local_rank, {"CUDA_VISIBLE_DEVICES=" + row.list}),
               Catch::Contains(row.expected));
  }
}

TEST_CASE("a cpuset limits the CPUs and the memory") {
  Machine machine;
  machine.allow("4-5,7,31", "0");
  CHECK(machine.text(0) == "NUMA node 0, CPUs 4-5,7 (NVIDIA 0000:01:00.0)");
  const NearAccelerator far = machine.near(2);
  CHECK(far.text ==
        "NUMA node 1, CPUs 31 (NVIDIA 0000:81:00.0), without its memory, which this container may not use");
  REQUIRE(far.affinity);
  CHECK(far.affinity->memory_node == -1);
  machine.allow("0-3", "0-1");
  CHECK_FALSE(machine.near(2).affinity);
  CHECK(machine.text(2) == "not bound: this container may use no CPU of NUMA node 1 (NVIDIA 0000:81:00.0)");
}

TEST_CASE("a card without a NUMA node, and files that cannot be read, bind nothing") {
  Machine machine;
  machine.card("0000:01:00.0", 2, -1);
  CHECK(machine.text(0) == "not bound: the kernel names no NUMA node of NVIDIA 0000:01:00.0");
  machine.card("0000:01:00.0", 2, 4096);
  CHECK_FALSE(machine.near(0).affinity);
  machine.node.files.erase("/sys/bus/pci/devices/0000:01:00.0/numa_node");
  CHECK_FALSE(machine.near(0).affinity);
  machine.node.files.erase("/proc/self/status");
  CHECK_FALSE(machine.near(1).affinity);
  CHECK_FALSE(near_accelerator(FakeNode({}), {}, 0).affinity);
}

TEST_CASE("lists of any form are read without harm") {
  Machine machine;
  machine.allow("0-18446744073709551615,x,,3-1", "99999999999");
  CHECK(machine.text(0).starts_with("NUMA node 0, CPUs 0-7,16-23 "));
}

TEST_CASE("AMD's cards are in the order of the driver's topology, and have render nodes") {
  FakeNode node({});
  node.folders = {{"/dev/dri", {"card0", "renderD128", "renderD129"}},
                  {"/sys/class/kfd/kfd/topology/nodes", {"10", "0", "2", "3"}}};
  const std::string nodes = "/sys/class/kfd/kfd/topology/nodes/";
  node.files = {{nodes + "0/properties", "simd_count 0\ndrm_render_minor 0\n"},
                {nodes + "2/properties", "simd_count 304\ndrm_render_minor 129\n"},
                {nodes + "3/properties", "simd_count 304\ndrm_render_minor 130\n"},  // another container's
                {nodes + "10/properties", "simd_count 304\ndrm_render_minor 128\n"},
                {"/sys/class/drm/renderD128/device/numa_node", "1\n"},
                {"/sys/class/drm/renderD129/device/numa_node", "0\n"},
                {"/sys/devices/system/node/node0/cpulist", "0\n"},
                {"/sys/devices/system/node/node1/cpulist", "1\n"},
                {"/proc/self/status", "Cpus_allowed_list:\t0-1\nMems_allowed_list:\t0-1\n"}};
  const auto text = [&](unsigned local_rank, std::vector<std::string> environment) {
    return near_accelerator(node, Environment(std::move(environment)), local_rank).text;
  };
  CHECK(text(0, {}) == "NUMA node 0, CPUs 0 (AMD renderD129)");
  CHECK(text(1, {}) == "NUMA node 1, CPUs 1 (AMD renderD128)");
  CHECK(text(0, {"ROCR_VISIBLE_DEVICES=1,0", "HIP_VISIBLE_DEVICES=1"}).ends_with("(AMD renderD129)"));
  CHECK(text(0, {"CUDA_VISIBLE_DEVICES=1"}).ends_with("(AMD renderD128)"));
}

}  // namespace
}  // namespace rankshim
