#include "node/accelerators.h"

#include <catch2/catch.hpp>

#include "node/fake_host_for_test.h"

namespace rankshim::node {
namespace {

using Words = std::vector<std::string>;

/// "COUNT WHAT", or "none".
std::string counted(const Host& host) {
  const auto found = visible_accelerators(host);
  return found ? std::to_string(found->count) + " " + found->what : "none";
}

/// /dev with its usual files, and PREFIX0, PREFIX1, …
Words devices(const std::string& prefix, unsigned count) {
  Words names = {"null",         "tty", "nvidiactl", "nvidia-uvm", "nvidia-caps", "davinci_manager",
                 "hl_controlD0", "hlx"};
  for (unsigned i = 0; i < count; ++i) names.push_back(prefix + std::to_string(i));
  return names;
}

TEST_CASE("numbered devices are counted, less what the runtime's list and the process's own leave out") {
  struct Row {
    std::string prefix;
    unsigned present;
    Words variables;
    std::string expected;
  };
  const std::vector<Row> rows = {
      {"nvidia", 0, {}, "none"},
      {"nvidia", 4, {}, "4 /dev/nvidia[0-9]*"},
      {"nvidia", 4, {"NVIDIA_VISIBLE_DEVICES=all"}, "4 /dev/nvidia[0-9]*"},
      {"nvidia", 4, {"NVIDIA_VISIBLE_DEVICES="}, "4 /dev/nvidia[0-9]*"},
      {"nvidia", 4, {"NVIDIA_VISIBLE_DEVICES=void"}, "4 /dev/nvidia[0-9]*"},  // CDI mounts them instead
      {"nvidia", 4, {"NVIDIA_VISIBLE_DEVICES=none"}, "none"},
      {"nvidia", 8, {"NVIDIA_VISIBLE_DEVICES=4,5"}, "2 NVIDIA_VISIBLE_DEVICES"},  // a privileged container
      {"nvidia", 2, {"NVIDIA_VISIBLE_DEVICES=GPU-1a,GPU-2b"}, "2 /dev/nvidia[0-9]*"},
      {"nvidia", 8, {"NVIDIA_VISIBLE_DEVICES=GPU-1a,GPU-2b,GPU-3c"}, "3 NVIDIA_VISIBLE_DEVICES"},
      {"nvidia", 1, {"NVIDIA_VISIBLE_DEVICES=MIG-1a,MIG-2b"}, "2 NVIDIA_VISIBLE_DEVICES"},
      {"nvidia", 1, {"NVIDIA_VISIBLE_DEVICES=0:0,0:1,0:2"}, "3 NVIDIA_VISIBLE_DEVICES"},
      {"nvidia", 0, {"NVIDIA_VISIBLE_DEVICES=GPU-1a,GPU-2b"}, "none"},
      {"nvidia", 8, {"CUDA_VISIBLE_DEVICES=0,1,2"}, "3 CUDA_VISIBLE_DEVICES"},
      {"nvidia", 8, {"CUDA_VISIBLE_DEVICES=0,1,-1,2"}, "2 CUDA_VISIBLE_DEVICES"},
      {"nvidia", 2, {"CUDA_VISIBLE_DEVICES=0,2,1"}, "1 CUDA_VISIBLE_DEVICES"},
      {"nvidia", 8, {"CUDA_VISIBLE_DEVICES=1,1"}, "none"},
      {"nvidia", 8, {"CUDA_VISIBLE_DEVICES="}, "none"},
      {"nvidia", 8, {"CUDA_VISIBLE_DEVICES=-1"}, "none"},
      {"nvidia", 8, {"CUDA_VISIBLE_DEVICES=NoDevFiles"}, "none"},
      {"nvidia", 8, {"CUDA_VISIBLE_DEVICES=GPU-1a,GPU-2b"}, "2 CUDA_VISIBLE_DEVICES"},
      {"nvidia", 8, {"CUDA_VISIBLE_DEVICES=GPU-1a,0,GPU-2b"}, "1 CUDA_VISIBLE_DEVICES"},
      {"nvidia", 8, {"NVIDIA_VISIBLE_DEVICES=4,5", "CUDA_VISIBLE_DEVICES=0,1,2"}, "2 NVIDIA_VISIBLE_DEVICES"},
      {"davinci", 8, {}, "8 /dev/davinci[0-9]*"},
      {"davinci", 8, {"ASCEND_VISIBLE_DEVICES=0-2,4"}, "4 ASCEND_VISIBLE_DEVICES"},
      {"davinci", 2, {"ASCEND_VISIBLE_DEVICES=Ascend910-1,Ascend910-5"}, "2 /dev/davinci[0-9]*"},
      {"davinci", 8, {"ASCEND_RT_VISIBLE_DEVICES=4,5,6"}, "3 ASCEND_RT_VISIBLE_DEVICES"},
      {"davinci", 2, {"ASCEND_RT_VISIBLE_DEVICES=6,7"}, "2 /dev/davinci[0-9]*"},  // the host's numbers
      {"vdavinci", 1, {"ASCEND_VISIBLE_DEVICES=100"}, "1 /dev/vdavinci[0-9]*"},
      {"hl", 8, {"HABANA_VISIBLE_DEVICES=all"}, "8 /dev/hl[0-9]*"},
      {"hl", 8, {"HABANA_VISIBLE_MODULES=4,5"}, "2 HABANA_VISIBLE_MODULES"},
      {"cambricon_dev", 4, {"MLU_VISIBLE_DEVICES=0,1"}, "2 MLU_VISIBLE_DEVICES"},
      {"mtgpu.", 8, {"MTHREADS_VISIBLE_DEVICES=all", "MUSA_VISIBLE_DEVICES=0"}, "1 MUSA_VISIBLE_DEVICES"},
  };
  for (const Row& row : rows) {
    FakeHost host(row.variables);
    host.folders["/dev"] = devices(row.prefix, row.present);
    INFO(row.prefix << row.present << " " << (row.variables.empty() ? "" : row.variables.front()));
    CHECK(counted(host) == row.expected);
  }
}

TEST_CASE("before a driver's first use its cards are found in /proc, but not by a container that has none") {
  FakeHost host({});
  host.folders["/proc/driver/nvidia/gpus"] = {"0000:01:00.0", "0000:02:00.0"};
  host.folders["/dev"] = {"null", "zero", "shm"};
  CHECK(counted(host) == "none");
  host.folders["/dev"].emplace_back("kmsg");
  CHECK(counted(host) == "2 /proc/driver/nvidia/gpus");
}

TEST_CASE("AMD's cards are the topology's nodes with SIMDs that this container has a render node of") {
  Words variables;
  const auto node = [&] {
    FakeHost made(variables);
    made.folders["/dev"] = {"kfd", "dri"};
    made.folders["/sys/class/kfd/kfd/topology/nodes"] = {"0", "1", "2", "3"};
    const std::string nodes = "/sys/class/kfd/kfd/topology/nodes/";
    made.files[nodes + "0/properties"] = "cpu_cores_count 64\nsimd_count 0\n";
    made.files[nodes + "1/properties"] = "cpu_cores_count 0\nsimd_count 304\n";
    made.files[nodes + "2/properties"] = "cpu_cores_count 0\nsimd_count 304\n";  // 3 is another container's
    return counted(made);
  };
  CHECK(node() == "2 /dev/kfd");
  variables = {"HIP_VISIBLE_DEVICES=1"};
  CHECK(node() == "1 HIP_VISIBLE_DEVICES");
  variables = {"ROCR_VISIBLE_DEVICES=1", "HIP_VISIBLE_DEVICES=1"};
  CHECK(node() == "none");
  variables = {"ROCR_VISIBLE_DEVICES=GPU-1a"};
  CHECK(node() == "1 ROCR_VISIBLE_DEVICES");
  variables = {"CUDA_VISIBLE_DEVICES=0"};
  CHECK(node() == "1 CUDA_VISIBLE_DEVICES");

  FakeHost limited({});
  limited.folders = {{"/dev", {"kfd", "dri"}},
                     {"/dev/dri", {"card0", "renderD129"}},
                     {"/sys/class/kfd/kfd/topology/nodes", {"1", "2"}}};
  limited.files = {{"/sys/class/kfd/kfd/topology/nodes/1/properties", "simd_count 304\n"},
                   {"/sys/class/kfd/kfd/topology/nodes/2/properties", "simd_count 304\n"},
                   {"/sys/class/drm/renderD129/device/vendor", "0x1002\n"}};
  CHECK(counted(limited) == "1 /dev/kfd");
}

TEST_CASE("Intel's cards are render nodes, but not the processor's own graphics") {
  FakeHost host({});
  host.folders = {{"/dev", {"dri"}}, {"/dev/dri", {"card0", "renderD128", "renderD129", "renderD130"}}};
  const std::string drm = "/sys/class/drm/renderD";
  for (const char* number : {"128", "129", "130"}) host.files[drm + number + "/device/vendor"] = "0x8086\n";
  host.files[drm + "128/device/uevent"] = "DRIVER=i915\nPCI_SLOT_NAME=0000:00:02.0\n";
  host.files[drm + "129/device/uevent"] = "DRIVER=xe\nPCI_SLOT_NAME=0000:3a:00.0\n";
  CHECK(counted(host) == "2 /dev/dri/renderD*");
  CHECK(count_shown("0.0,0.1,1.0", 2, true) == 3);
}

TEST_CASE("Habana's newer driver has accel devices, other makers' are not counted") {
  FakeHost host({});
  host.folders = {{"/dev", {"accel"}}, {"/dev/accel", {"accel0", "accel1", "accel_controlD0"}}};
  host.files = {{"/sys/class/accel/accel0/device/vendor", "0x1da3\n"},
                {"/sys/class/accel/accel1/device/vendor", "0x8086\n"}};
  CHECK(counted(host) == "1 /dev/accel/accel[0-9]*");
}

TEST_CASE("lists of any length and form are counted without harm") {
  CHECK(count_mounted("0-4294967295", 8) == 8);
  CHECK(count_mounted("5-1,,,", 8) == 1);
  CHECK(count_mounted(std::string(1 << 20, ','), 8) == 0);
  CHECK(count_shown(std::string(1 << 20, ','), 8, true) == 0);
  CHECK(count_shown("99999999999999999999", 8, false) == 0);
}

/// Two sockets with two NVIDIA cards each, whose minor numbers are not in the order of their addresses.
struct Machine {
  FakeHost host{{}};
  Machine() {
    host.folders = {
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
    host.files["/proc/driver/nvidia/gpus/" + address + "/information"] =
        "Model: \t\t NVIDIA H100\nGPU UUID: \t GPU-" + address.substr(5, 2) +
        "ab-cdef\nBus Type: \t PCIe\nDevice Minor: \t " + std::to_string(minor) + "\nGPU Excluded:\t No\n";
    host.files["/sys/bus/pci/devices/" + address + "/numa_node"] = std::to_string(numa) + "\n";
  }
  void cpus(unsigned numa, const std::string& list) {
    host.files["/sys/devices/system/node/node" + std::to_string(numa) + "/cpulist"] = list + "\n";
  }
  void allow(const std::string& cpus, const std::string& memory) {
    host.files["/proc/self/status"] = "Name:\trankshim\nCpus_allowed:\tffffffff\nCpus_allowed_list:\t" +
                                      cpus + "\nMems_allowed:\t3\nMems_allowed_list:\t" + memory + "\n";
  }
  [[nodiscard]] NearAccelerator near(unsigned local_rank, std::vector<std::string> environment = {}) const {
    return near_accelerator(host, Environment(std::move(environment)), local_rank);
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
  machine.host.folders["/dev"] = {"nvidiactl", "nvidia0", "nvidia3", "kmsg"};
  CHECK(machine.text(0).ends_with("(NVIDIA 0000:41:00.0)"));
  CHECK(machine.text(1).ends_with("(NVIDIA 0000:81:00.0)"));
  machine.host.folders["/dev"] = {"nvidiactl"};
  CHECK(machine.text(0) == "not bound: no accelerator is known that it can use");
}

TEST_CASE("before a driver's first use, a machine's cards have no files and are near all the same") {
  Machine machine;
  machine.host.folders["/dev"] = {"kmsg"};
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
  machine.host.files.erase("/sys/bus/pci/devices/0000:01:00.0/numa_node");
  CHECK_FALSE(machine.near(0).affinity);
  machine.host.files.erase("/proc/self/status");
  CHECK_FALSE(machine.near(1).affinity);
  CHECK_FALSE(near_accelerator(FakeHost({}), {}, 0).affinity);
}

TEST_CASE("lists of any form are read without harm") {
  Machine machine;
  machine.allow("0-18446744073709551615,x,,3-1", "99999999999");
  CHECK(machine.text(0).starts_with("NUMA node 0, CPUs 0-7,16-23 "));
}

TEST_CASE("AMD's cards are in the order of the driver's topology, and have render nodes") {
  FakeHost host({});
  host.folders = {{"/dev/dri", {"card0", "renderD128", "renderD129"}},
                  {"/sys/class/kfd/kfd/topology/nodes", {"10", "0", "2", "3"}}};
  const std::string nodes = "/sys/class/kfd/kfd/topology/nodes/";
  host.files = {{nodes + "0/properties", "simd_count 0\ndrm_render_minor 0\n"},
                {nodes + "2/properties", "simd_count 304\ndrm_render_minor 129\n"},
                {nodes + "3/properties", "simd_count 304\ndrm_render_minor 130\n"},  // another container's
                {nodes + "10/properties", "simd_count 304\ndrm_render_minor 128\n"},
                {"/sys/class/drm/renderD128/device/numa_node", "1\n"},
                {"/sys/class/drm/renderD129/device/numa_node", "0\n"},
                {"/sys/devices/system/node/node0/cpulist", "0\n"},
                {"/sys/devices/system/node/node1/cpulist", "1\n"},
                {"/proc/self/status", "Cpus_allowed_list:\t0-1\nMems_allowed_list:\t0-1\n"}};
  const auto text = [&](unsigned local_rank, std::vector<std::string> environment) {
    return near_accelerator(host, Environment(std::move(environment)), local_rank).text;
  };
  CHECK(text(0, {}) == "NUMA node 0, CPUs 0 (AMD renderD129)");
  CHECK(text(1, {}) == "NUMA node 1, CPUs 1 (AMD renderD128)");
  CHECK(text(0, {"ROCR_VISIBLE_DEVICES=1,0", "HIP_VISIBLE_DEVICES=1"}).ends_with("(AMD renderD129)"));
  CHECK(text(0, {"CUDA_VISIBLE_DEVICES=1"}).ends_with("(AMD renderD128)"));
}

}  // namespace
}  // namespace rankshim::node
