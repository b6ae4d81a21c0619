#include "node/accelerators.h"

#include <algorithm>
#include <array>
#include <bitset>

#include "base/text.h"

namespace rankshim {
namespace {

/// Devices that are numbered files in /dev.
struct AcceleratorKind {
  std::string_view prefix;   ///< of the file's name, before its number
  std::string_view what;     ///< for messages
  std::string_view mounted;  ///< the container runtime's variable
  std::string_view shown;    ///< the process's variable
  bool indexed;              ///< the numbers in `shown` are below the number of devices
};

/// Sources: NVIDIA's as in the header; Ascend Docker Runtime and CANN documentation; Intel Gaudi
/// documentation, "Multiple Tenants on Docker" and "Runtime Environment Variables"; Cambricon/
/// cambricon-k8s-device-plugin (MLU_VISIBLE_DEVICES); Moore Threads MUSA SDK and mt-container-toolkit
/// documentation.
constexpr std::array<AcceleratorKind, 6> kinds = {{
    {"nvidia", "/dev/nvidia[0-9]*", "NVIDIA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", true},
    {"davinci", "/dev/davinci[0-9]*", "ASCEND_VISIBLE_DEVICES", "ASCEND_RT_VISIBLE_DEVICES", false},
    {"vdavinci", "/dev/vdavinci[0-9]*", "ASCEND_VISIBLE_DEVICES", "ASCEND_RT_VISIBLE_DEVICES", false},
    {"hl", "/dev/hl[0-9]*", "HABANA_VISIBLE_DEVICES", "HABANA_VISIBLE_MODULES", false},
    {"cambricon_dev", "/dev/cambricon_dev[0-9]*", "CAMBRICON_VISIBLE_DEVICES", "MLU_VISIBLE_DEVICES", true},
    {"mtgpu.", "/dev/mtgpu.[0-9]*", "MTHREADS_VISIBLE_DEVICES", "MUSA_VISIBLE_DEVICES", true},
}};
constexpr std::size_t nvidia = 0;
constexpr std::size_t habana = 3;

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

/// Counts the names in a folder for which `fits` holds.
unsigned count_where(const Node& node, const char* folder, bool (*fits)(const Node&, std::string_view name)) {
  unsigned count = 0;
  node.each_name(folder, [&](std::string_view name) { count += fits(node, name) ? 1U : 0U; });
  return count;
}

bool has_vendor(const Node& node, std::string path, std::string_view vendor) {
  const auto text = node.file(path.append("/device/vendor"));
  return text && text->starts_with(vendor);
}

/// Whether this is Intel's Habana, not one of Intel's NPUs: PCI vendor 1da3 (linux:drivers/accel/habanalabs).
bool is_habana(const Node& node, std::string_view name) {
  constexpr std::string_view vendor = "0x1da3";
  return is_numbered(name, "accel") &&
         has_vendor(node, std::string("/sys/class/accel/").append(name), vendor);
}

bool is_render_node(const Node& /*node*/, std::string_view name) { return is_numbered(name, "renderD"); }

/// Whether this is an Intel card. The card in PCI slot 00:02.0 is the processor's integrated graphics, which
/// nobody trains on.
bool is_intel(const Node& node, std::string_view name) {
  constexpr std::string_view vendor = "0x8086";
  const std::string path = std::string("/sys/class/drm/").append(name);
  if (!is_render_node(node, name) || !has_vendor(node, path, vendor)) return false;
  const auto properties = node.file(path + "/device/uevent");
  return !properties || properties->find("PCI_SLOT_NAME=0000:00:02.0") == std::string::npos;
}

/// A node of the topology is a GPU if it has SIMDs (a processor has 0), and belongs to this container if its
/// render node is in /dev. The device cgroup's rules cannot be read
/// (linux:drivers/gpu/drm/amd/amdkfd/kfd_topology.c node_show).
bool is_amd(const Node& node, std::string_view name) {
  const auto properties =
      node.file(std::string("/sys/class/kfd/kfd/topology/nodes/").append(name).append("/properties"));
  return properties && first_number<unsigned>(text_after(*properties, "simd_count ")).value_or(0) != 0;
}

bool is_amd_with_render_node(const Node& node, std::string_view name) {
  const std::string path = std::string("/sys/class/drm/").append(name);
  return is_render_node(node, name) && has_vendor(node, path, "0x1002");
}

/// The devices that are left of those that are there, by the lists of the runtime and of the process.
class Counter {
 public:
  Counter(const Node& node, unsigned present, std::string_view what)
      : environment_(node.environment()), left_{present, std::string(what)} {}

  /// Applies the container runtime's list. An empty list counts as not set.
  void mounted(std::string_view variable) {
    if (const auto list = environment_.get(variable)) limit(count_mounted(*list, left_.count), variable);
  }
  /// Applies the process's list. An empty list hides all devices. Returns false if there is no list.
  bool shown(std::string_view variable, bool indexed) {
    if (!environment_.has(variable)) return false;
    limit(count_shown(environment_.get(variable).value_or(""), left_.count, indexed), variable);
    return true;
  }
  [[nodiscard]] std::optional<DeviceCount> result() const {
    return left_.count == 0 ? std::nullopt : std::optional(left_);
  }

 private:
  void limit(unsigned count, std::string_view variable) {
    if (count != left_.count && left_.count != 0) left_ = {count, std::string(variable)};
  }

  const Environment& environment_;
  DeviceCount left_;
};

std::optional<DeviceCount> amd(const Node& node, bool dri) {
  unsigned present = count_where(node, "/sys/class/kfd/kfd/topology/nodes", is_amd);
  if (dri) {
    // A container may have only some of the cards. If no driver tells which cards have render nodes, all
    // count.
    const unsigned mine = count_where(node, "/dev/dri", is_amd_with_render_node);
    if (mine != 0) present = std::min(present, mine);
  }
  Counter counter(node, present, "/dev/kfd");
  counter.mounted("AMD_VISIBLE_DEVICES");
  counter.shown("ROCR_VISIBLE_DEVICES", true);
  // HIP uses CUDA's list if it has no HIP_VISIBLE_DEVICES (ROCm documentation, "GPU isolation techniques").
  if (!counter.shown("HIP_VISIBLE_DEVICES", true)) counter.shown("CUDA_VISIBLE_DEVICES", true);
  return counter.result();
}

std::optional<DeviceCount> intel(const Node& node) {
  Counter counter(node, count_where(node, "/dev/dri", is_intel), "/dev/dri/renderD*");
  counter.shown("ZE_AFFINITY_MASK", true);
  return counter.result();
}

/// The number of devices in one entry of a runtime's list: 4 of "0-3", else 1.
unsigned in_range(std::string_view entry) {
  constexpr unsigned most = 1U << 16U;
  const auto range = number_range<unsigned>(entry);
  return range ? std::min(range->second - range->first, most) + 1 : 1;
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
    count += in_range(entry);
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
  const Devices devices = devices_in_dev(node);
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    const AcceleratorKind& kind = kinds[i];
    unsigned present = devices.counts[i];
    std::string_view what = kind.what;
    // A machine has no device files before the first use of a driver. A container without them has no card,
    // although its /proc shows the machine's cards (canonical/lxd issue 7840).
    if (i == nvidia && present == 0 && devices.kmsg) {
      constexpr const char* cards = "/proc/driver/nvidia/gpus";
      what = cards;
      node.each_name(cards, [&](std::string_view) { ++present; });
    } else if (i == habana && present == 0 && devices.accel) {
      what = "/dev/accel/accel[0-9]*";
      present = count_where(node, "/dev/accel", is_habana);
    }
    if (present == 0) continue;
    Counter counter(node, present, what);
    counter.mounted(kind.mounted);
    counter.shown(kind.shown, kind.indexed);
    if (auto count = counter.result()) return count;
  }
  if (devices.kfd) {
    if (auto count = amd(node, devices.dri)) return count;
  }
  return devices.dri ? intel(node) : std::nullopt;
}

}  // namespace rankshim
