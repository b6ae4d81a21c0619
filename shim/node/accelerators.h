#pragma once

#include <sched.h>

#include <optional>
#include <string>
#include <string_view>

#include "node/host.h"

/// The accelerators that a worker on this node could use, and what is near them.
namespace rankshim::node {

/// The accelerators, counted as torch would count them but without torch: the devices in /dev, without those
/// that a container runtime's list (NVIDIA_VISIBLE_DEVICES, …) and the process's list (CUDA_VISIBLE_DEVICES,
/// …) leave out. `what` is the source of the number: the list's variable, or the devices' files. Returns
/// nullopt if none is visible. Of several vendors', the first of NVIDIA, Ascend, Habana, Cambricon, Moore
/// Threads, AMD, Intel counts. Reads /dev once, and other folders only if /dev shows that they matter.
std::optional<DeviceCount> visible_accelerators(const Host& host);

/// Whether a path is an accelerator's file, which a process that computes on it holds open.
bool is_accelerator_file(std::string_view path);

/// How many of `present` devices a container runtime's list gives. `all` and `void` mean every one (with
/// `void` the runtime does nothing, and something else has mounted the devices), `none` means none; any other
/// list has indices, ranges (Ascend: 0-2,4), UUIDs or names. MIG slices (MIG-UUID, GPU:SLICE) can be more.
/// Source: NVIDIA Container Toolkit documentation, "Environment variables (OCI spec)"; Ascend Docker Runtime
/// documentation, ASCEND_VISIBLE_DEVICES.
unsigned count_mounted(std::string_view list, unsigned present);

/// How many of `present` devices a process's list shows. Entries count up to the first invalid one, and an
/// entry that occurs twice hides all. With `indexed` a number must be below `present`; otherwise any number
/// is valid (for Ascend and Habana it is not settled whether they are the host's numbers). MIG slices are
/// counted although CUDA shows one process only the first, and so are the tiles of Intel's cards.
/// Source: CUDA C++ Programming Guide, "CUDA Environment Variables"; pytorch/pytorch:torch/cuda/__init__.py
/// _parse_visible_devices.
unsigned count_shown(std::string_view list, unsigned present, bool indexed);

/// Where a process runs and takes its memory.
struct Affinity {
  cpu_set_t cpus;
  int memory_node;  ///< the NUMA node; −1: as before
};

/// What is near a worker's accelerator.
struct NearAccelerator {
  std::optional<Affinity> affinity;
  std::string text;  ///< "NUMA node 0, CPUs 0-31 (NVIDIA 0000:41:00.0)", or why nothing is near it
};

/// Finds the accelerator of a worker with this environment, and the CPUs of its NUMA node that this process
/// may use. If the workers are more than the accelerators, they share them in turn. Knows those of NVIDIA, in
/// the order of their PCI addresses, and if there is none, those of AMD; without those that
/// CUDA_VISIBLE_DEVICES and its like hide. (CUDA's own order is the same if all are of one model, or with
/// CUDA_DEVICE_ORDER=PCI_BUS_ID.) What a container runtime hides has no file in /dev.
/// Sources: NVIDIA/open-gpu-kernel-modules:kernel-open/nvidia/nv-procfs.c;
/// linux:drivers/gpu/drm/amd/amdkfd/kfd_topology.c node_show;
/// linux:Documentation/ABI/testing/sysfs-bus-pci (numa_node), sysfs-devices-node (cpulist).
NearAccelerator near_accelerator(const Host& host, const Environment& environment, unsigned local_rank);

}  // namespace rankshim::node
