#pragma once

#include <sched.h>

#include <optional>
#include <string>
#include <string_view>

#include "node/host.h"

/// The accelerators that a worker on this node could use, and the CPUs and memory near them.
namespace rankshim::node {

/// Counts the accelerators as torch would, but without torch: the devices in /dev, except those that a
/// container runtime's list (NVIDIA_VISIBLE_DEVICES, …) or the process's list (CUDA_VISIBLE_DEVICES, …)
/// leaves out. `what` is the source of the number: the list's variable, or the device files. Returns nullopt
/// if none is visible. If there are several vendors' devices, only the first of NVIDIA, Ascend, Habana,
/// Cambricon, Moore Threads, AMD, Intel counts. Reads /dev once, and other folders only if /dev shows that
/// they matter.
std::optional<DeviceCount> visible_accelerators(const Host& host);

/// Whether a path is an accelerator's device file, which a process that computes on it keeps open.
bool is_accelerator_file(std::string_view path);

/// How many of `present` devices a container runtime's list mounts. `all` and `void` mean all of them (with
/// `void` the runtime does nothing, and something else has mounted the devices), `none` means none; any other
/// list has indices, ranges (Ascend: 0-2,4), UUIDs or names. There can be more MIG slices (MIG-UUID,
/// GPU:SLICE) than devices. Source: NVIDIA Container Toolkit documentation, "Environment variables (OCI
/// spec)"; Ascend Docker Runtime documentation, ASCEND_VISIBLE_DEVICES.
unsigned count_mounted(std::string_view list, unsigned present);

/// How many of `present` devices a process's list makes visible. Entries count up to the first invalid one,
/// and an entry that occurs twice hides all devices. With `indexed`, a number must be below `present`;
/// otherwise any number is valid (for Ascend and Habana it is unclear whether they are the host's numbers).
/// MIG slices are counted although CUDA shows a process only the first one, and so are the tiles of Intel's
/// cards. Source: CUDA C++ Programming Guide, "CUDA Environment Variables";
/// pytorch/pytorch:torch/cuda/__init__.py _parse_visible_devices.
unsigned count_shown(std::string_view list, unsigned present, bool indexed);

/// Where a process runs, and where its memory comes from.
struct Affinity {
  cpu_set_t cpus;
  int memory_node;  ///< the NUMA node; −1: unchanged
};

/// What is near a worker's accelerator.
struct NearAccelerator {
  std::optional<Affinity> affinity;
  std::string text;  ///< "NUMA node 0, CPUs 0-31 (NVIDIA 0000:41:00.0)", or why there is no affinity
};

/// Finds the accelerator of a worker with this environment, and the CPUs of its NUMA node that this process
/// may use. If there are more workers than accelerators, they share them in turn. Knows NVIDIA's, in the
/// order of their PCI addresses, and if there are none, AMD's; skips those that CUDA_VISIBLE_DEVICES and the
/// like hide. (CUDA's own order is the same if all are of one model, or with CUDA_DEVICE_ORDER=PCI_BUS_ID.)
/// What a container runtime hides has no file in /dev. Sources:
/// NVIDIA/open-gpu-kernel-modules:kernel-open/nvidia/nv-procfs.c;
/// linux:drivers/gpu/drm/amd/amdkfd/kfd_topology.c node_show; linux:Documentation/ABI/testing/sysfs-bus-pci
/// (numa_node), sysfs-devices-node (cpulist).
NearAccelerator near_accelerator(const Host& host, const Environment& environment, unsigned local_rank);

}  // namespace rankshim::node
