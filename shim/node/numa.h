#pragma once

#include <sched.h>

#include <optional>
#include <string>

#include "node/node.h"

namespace rankshim {

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
NearAccelerator near_accelerator(const Node& node, const Environment& environment, unsigned local_rank);

}  // namespace rankshim
