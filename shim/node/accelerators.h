#pragma once

#include <optional>
#include <string_view>

#include "node/node.h"

namespace rankshim {

/// The accelerators that a worker on this node could use, counted as torch would count them but without it:
/// the devices that are there, less those that a container runtime's list (NVIDIA_VISIBLE_DEVICES, …) and the
/// process's own (CUDA_VISIBLE_DEVICES, …) leave out. `what` is what decided: the list's variable, or the
/// devices' files. Nothing where none is visible. Of several vendors' the first of NVIDIA, Ascend, Habana,
/// Cambricon, Moore Threads, AMD, Intel counts. One pass over /dev; another folder is read only where /dev
/// says that it matters.
std::optional<DeviceCount> visible_accelerators(const Node& node);

/// How many of `present` devices a container runtime's list gives: `all`, or `void` (the runtime does
/// nothing; something else has mounted what is there) means every one, `none` no one; else indices, ranges
/// (Ascend: 0-2,4), UUIDs or names. MIG slices (MIG-UUID, or GPU:SLICE) can be more than devices.
/// Source: NVIDIA Container Toolkit documentation, "Environment variables (OCI spec)"; Ascend Docker Runtime
/// documentation, ASCEND_VISIBLE_DEVICES.
unsigned count_mounted(std::string_view list, unsigned present);

/// How many of `present` devices a process's own list shows: entries count up to the first one that is
/// invalid, and one that stands twice hides all. With `indexed` a number must be below `present`, else it may
/// be any (Ascend, Habana: it is not settled whether those are the host's). MIG slices are counted although
/// CUDA shows one process only the first.
/// Source: CUDA C++ Programming Guide, "CUDA Environment Variables"; pytorch/pytorch:torch/cuda/__init__.py
/// _parse_visible_devices.
unsigned count_shown(std::string_view list, unsigned present, bool indexed);

}  // namespace rankshim
