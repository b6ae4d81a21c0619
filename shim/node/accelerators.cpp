#include "node/accelerators.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bitset>

#include "base/text.h"

namespace rankshim {
namespace {

/// Devices that are numbered files in /dev.
struct AcceleratorKind {
  std::string_view prefix;   ///< of the file's name, before its number
  std::string_view mounted;  ///< the container runtime's variable
  std::string_view shown;    ///< the process's variable
  bool indexed;              ///< the numbers in `shown` are below the number of devices
};

/// Sources: NVIDIA's as in the header; Ascend Docker Runtime and CANN documentation; Intel Gaudi
/// documentation, "Multiple Tenants on Docker" and "Runtime Environment Variables"; Cambricon/
/// cambricon-k8s-device-plugin (MLU_VISIBLE_DEVICES); Moore Threads MUSA SDK and mt-container-toolkit
/// documentation.
constexpr std::array<AcceleratorKind, 6> kinds = {{
    {"nvidia", "NVIDIA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", true},
    {"davinci", "ASCEND_VISIBLE_DEVICES", "ASCEND_RT_VISIBLE_DEVICES", false},
    {"vdavinci", "ASCEND_VISIBLE_DEVICES", "ASCEND_RT_VISIBLE_DEVICES", false},
    {"hl", "HABANA_VISIBLE_DEVICES", "HABANA_VISIBLE_MODULES", false},
    {"cambricon_dev", "CAMBRICON_VISIBLE_DEVICES", "MLU_VISIBLE_DEVICES", true},
    {"mtgpu.", "MTHREADS_VISIBLE_DEVICES", "MUSA_VISIBLE_DEVICES", true},
}};
constexpr std::size_t nvidia = 0;
constexpr std::size_t habana = 3;

// PCI vendors. Intel's own NPUs have accel devices too (linux:drivers/accel/habanalabs).
constexpr std::string_view intel_habana = "0x1da3";
constexpr std::string_view amd = "0x1002";
constexpr std::string_view intel = "0x8086";

bool is_numbered(std::string_view name, std::string_view prefix) {
  return name.starts_with(prefix) && all_digits(name.substr(prefix.size()));
}

/// What the one pass over /dev sees.
struct Devices {
  std::array<unsigned, kinds.size()> counts{};
  bool kmsg = false;   ///< the kernel's log: this /dev is the machine's or as good as that, not a container's
  bool kfd = false;    ///< AMD's compute driver
  bool dri = false;    ///< graphics cards, Intel's and AMD's among them
  bool accel = false;  ///< the kernel's compute accelerators: Habana's newer driver, others' NPUs
};

Devices devices_in_dev(const Node& node) {
  Devices seen;
  node.each_name("/dev", [&](std::string_view name) {
    seen.accel = seen.accel || name == "accel";
    seen.dri = seen.dri || name == "dri";
    seen.kfd = seen.kfd || name == "kfd";
    seen.kmsg = seen.kmsg || name == "kmsg";
    for (std::size_t i = 0; i < kinds.size(); ++i)
      if (is_numbered(name, kinds[i].prefix)) ++seen.counts[i];
  });
  return seen;
}

/// Counts the numbered files in a folder of /dev whose devices, which are in a folder of /sys by the same
/// name, are of this PCI vendor.
unsigned count_of_vendor(const Node& node, const char* folder, std::string_view prefix, std::string_view sys,
                         std::string_view vendor) {
  unsigned count = 0;
  node.each_name(folder, [&](std::string_view name) {
    if (!is_numbered(name, prefix)) return;
    const std::string device = fmt::format("{}/{}/device", sys, name);
    if (!node.file(device + "/vendor").value_or("").starts_with(vendor)) return;
    // The card in this slot is the processor's integrated graphics, which nobody trains on.
    const bool integrated =
        vendor == intel &&
        node.file(device + "/uevent").value_or("").find("PCI_SLOT_NAME=0000:00:02.0") != std::string::npos;
    if (!integrated) ++count;
  });
  return count;
}

unsigned count_render_nodes(const Node& node, std::string_view vendor) {
  return count_of_vendor(node, "/dev/dri", "renderD", "/sys/class/drm", vendor);
}

/// A node of the topology is a GPU if it has SIMDs (a processor has 0). The device cgroup's rules cannot be
/// read (linux:drivers/gpu/drm/amd/amdkfd/kfd_topology.c node_show).
unsigned count_amd(const Node& node) {
  constexpr const char* topology = "/sys/class/kfd/kfd/topology/nodes";
  unsigned count = 0;
  node.each_name(topology, [&](std::string_view name) {
    const auto properties = node.file(fmt::format("{}/{}/properties", topology, name));
    if (properties && first_number<unsigned>(text_after(*properties, "simd_count ")).value_or(0) != 0)
      ++count;
  });
  return count;
}

void limit(DeviceCount& devices, unsigned count, std::string_view variable) {
  if (count != devices.count && devices.count != 0) devices = {count, std::string(variable)};
}

/// Leaves those of the container runtime's list. An empty list counts as not set.
void leave_mounted(DeviceCount& devices, const Environment& environment, std::string_view variable) {
  if (const auto list = environment.get(variable))
    limit(devices, count_mounted(*list, devices.count), variable);
}

/// Leaves those of the process's list. An empty list hides all devices. Returns false if there is no list.
bool leave_shown(DeviceCount& devices, const Environment& environment, std::string_view variable,
                 bool indexed = true) {
  if (!environment.has(variable)) return false;
  limit(devices, count_shown(environment.get(variable).value_or(""), devices.count, indexed), variable);
  return true;
}

DeviceCount visible_amd(const Node& node, bool dri) {
  DeviceCount devices{count_amd(node), "/dev/kfd"};
  // A container may have only some of the cards: those with a render node in /dev. If no driver tells which
  // cards have render nodes, all count.
  const unsigned mine = dri ? count_render_nodes(node, amd) : 0;
  if (mine != 0) devices.count = std::min(devices.count, mine);
  leave_mounted(devices, node.environment(), "AMD_VISIBLE_DEVICES");
  leave_shown(devices, node.environment(), "ROCR_VISIBLE_DEVICES");
  // HIP uses CUDA's list if it has no HIP_VISIBLE_DEVICES (ROCm documentation, "GPU isolation techniques").
  if (!leave_shown(devices, node.environment(), "HIP_VISIBLE_DEVICES"))
    leave_shown(devices, node.environment(), "CUDA_VISIBLE_DEVICES");
  return devices;
}

DeviceCount visible_intel(const Node& node) {
  DeviceCount devices{count_render_nodes(node, intel), "/dev/dri/renderD*"};
  leave_shown(devices, node.environment(), "ZE_AFFINITY_MASK");
  return devices;
}

}  // namespace

bool is_accelerator_file(std::string_view path) {
  constexpr std::string_view folder = "/dev/";
  if (!path.starts_with(folder)) return false;
  path.remove_prefix(folder.size());
  return path == "kfd" || is_numbered(path, "accel/accel") || is_numbered(path, "dri/renderD") ||
         std::ranges::any_of(kinds,
                             [&](const AcceleratorKind& kind) { return is_numbered(path, kind.prefix); });
}

unsigned count_mounted(std::string_view list, unsigned present) {
  if (list == "all" || list == "void") return present;
  if (list == "none") return 0;
  unsigned count = 0;
  constexpr unsigned most = 1U << 16U;
  bool slices = false;
  while (!list.empty() && count < most) {
    const std::string_view entry = trimmed(take_part(list, ","));
    if (entry.empty()) continue;
    slices = slices || entry.starts_with("MIG-") ||
             (is_digit(entry.front()) && entry.find(':') != std::string_view::npos);
    const auto range = number_range<unsigned>(entry);
    count += range ? std::min(range->second - range->first, most) + 1 : 1;
  }
  return slices && present != 0 ? count : std::min(count, present);
}

unsigned count_shown(std::string_view list, unsigned present, bool indexed) {
  constexpr std::size_t most = 1024;
  std::bitset<most> seen;
  unsigned count = 0;
  const std::string_view whole = list;
  bool slices = list.starts_with("MIG-");
  const bool unique_ids = slices || list.starts_with("GPU-");
  while (!list.empty() && count < most) {
    const std::string_view before = whole.substr(0, whole.size() - list.size());
    std::string_view entry = trimmed(take_part(list, ","));
    if (unique_ids) {
      if (!entry.starts_with(whole.substr(0, 4))) break;
      if (before.find(entry) != std::string_view::npos) return 0;
    } else {
      const auto number = take_number<unsigned>(entry);
      if (!number || *number >= most || (indexed && *number >= present)) break;
      if (entry.starts_with('.')) {  // Intel: a tile of the card
        slices = true;
      } else if (seen.test(*number)) {
        return 0;
      }
      seen.set(*number);
    }
    ++count;
  }
  return slices && present != 0 ? count : std::min(count, present);
}

std::optional<DeviceCount> visible_accelerators(const Node& node) {
  const Devices seen = devices_in_dev(node);
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    const AcceleratorKind& kind = kinds[i];
    DeviceCount devices{seen.counts[i], {}};
    // A machine has no device files before the first use of a driver. A container without them has no card,
    // although its /proc shows the machine's cards (canonical/lxd issue 7840).
    if (i == nvidia && devices.count == 0 && seen.kmsg) {
      devices.what = "/proc/driver/nvidia/gpus";
      node.each_name(devices.what.c_str(), [&](std::string_view) { ++devices.count; });
    } else if (i == habana && devices.count == 0 && seen.accel) {
      devices = {count_of_vendor(node, "/dev/accel", "accel", "/sys/class/accel", intel_habana),
                 "/dev/accel/accel[0-9]*"};
    }
    if (devices.count == 0) continue;
    if (devices.what.empty()) devices.what = fmt::format("/dev/{}[0-9]*", kind.prefix);
    leave_mounted(devices, node.environment(), kind.mounted);
    leave_shown(devices, node.environment(), kind.shown, kind.indexed);
    if (devices.count != 0) return devices;
  }
  DeviceCount devices;
  if (seen.kfd) devices = visible_amd(node, seen.dri);
  if (seen.dri && devices.count == 0) devices = visible_intel(node);
  return devices.count == 0 ? std::nullopt : std::optional(devices);
}

}  // namespace rankshim
