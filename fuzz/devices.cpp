/// Lists of visible devices, and the files that say what a node may use: the list, the number of devices,
/// NUL, the files' text.

#include "node/accelerators.h"
#include "node/cgroup.h"
#include "node/fake_host_for_test.h"
#include "target.h"

FUZZ_TARGET(devices) {
  using namespace rankshim;
  const auto parts = fuzz::split(fuzz::text_of(data, size), '\0', 2);
  const std::string& list = parts.front();
  constexpr unsigned most = 16;
  const unsigned present = list.empty() ? 0 : static_cast<unsigned char>(list.back()) % most;
  const bool slices = list.find("MIG-") != std::string::npos || list.find_first_of(":.") != std::string::npos;
  for (const unsigned count : {node::count_mounted(list, present), node::count_shown(list, present, true),
                               node::count_shown(list, present, false)}) {
    fuzz::check(slices || count <= present);
  }
  node::FakeHost host({"CUDA_VISIBLE_DEVICES=" + list, "ROCR_VISIBLE_DEVICES=" + list});
  for (const char* path :
       {"/proc/self/cgroup", "/sys/fs/cgroup/cpu.max", "/sys/fs/cgroup/cpu/cpu.cfs_quota_us",
        "/sys/fs/cgroup/cpu/cpu.cfs_period_us", "/sys/class/drm/renderD1/device/vendor",
        "/sys/class/kfd/kfd/topology/nodes/1/properties"}) {
    host.files[path] = parts.back();
  }
  host.folders = {{"/dev", {"kfd", "dri", "accel", "nvidia0", list}},
                  {"/dev/dri", {"renderD1", list}},
                  {"/dev/accel", {list}},
                  {"/sys/class/kfd/kfd/topology/nodes", {"1"}}};
  node::visible_accelerators(host);
  node::cgroup_cpus(host);
  return 0;
}
