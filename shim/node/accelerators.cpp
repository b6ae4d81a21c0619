#include "node/accelerators.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "base/text.h"

namespace rankshim::node {
namespace {

using Names = std::vector<std::string>;
using Words = std::vector<std::string_view>;

/// A kind of device with numbered files in /dev.
struct AcceleratorKind {
  std::string_view prefix;   ///< of the file's name, before its number
  std::string_view mounted;  ///< the container runtime's variable
  std::string_view shown;    ///< the process's variable
  bool indexed;              ///< the numbers in `shown` are below the number of devices
};

/// Sources: NVIDIA's as in the header; Ascend Docker Runtime and CANN documentation; Intel Gaudi
/// documentation, "Multiple Tenants on Docker" and "Runtime Environment Variables"; Cambricon/
/// cambricon-k8s-device-plugin (MLU_VISIBLE_DEVICES); the documentation of MUSA SDK and mt-container-toolkit.
constexpr std::array<AcceleratorKind, 6> kinds = {{
    {"nvidia", "NVIDIA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", true},
    {"davinci", "ASCEND_VISIBLE_DEVICES", "ASCEND_RT_VISIBLE_DEVICES", false},
    {"vdavinci", "ASCEND_VISIBLE_DEVICES", "ASCEND_RT_VISIBLE_DEVICES", false},
    {"hl", "HABANA_VISIBLE_DEVICES", "HABANA_VISIBLE_MODULES", false},
    {"cambricon_dev", "CAMBRICON_VISIBLE_DEVICES", "MLU_VISIBLE_DEVICES", true},
    {"mtgpu.", "MTHREADS_VISIBLE_DEVICES", "MUSA_VISIBLE_DEVICES", true},
}};
constexpr const AcceleratorKind& nvidia = kinds[0];
constexpr const AcceleratorKind& habana = kinds[3];

// PCI vendors. Intel's own NPUs have accel devices too (linux:drivers/accel/habanalabs).
constexpr std::string_view intel_habana = "0x1da3";
constexpr std::string_view amd = "0x1002";
constexpr std::string_view intel = "0x8086";

constexpr const char* nvidia_cards = "/proc/driver/nvidia/gpus";
constexpr const char* amd_cards = "/sys/class/kfd/kfd/topology/nodes";

/// AMD's lists of visible devices: the second one numbers the devices that the first one leaves. If its own
/// variable is not set, HIP reads CUDA's (ROCm documentation, "GPU isolation techniques").
Words lists_of_amd(const Environment& environment) {
  return {"ROCR_VISIBLE_DEVICES",
          environment.has("HIP_VISIBLE_DEVICES") ? "HIP_VISIBLE_DEVICES" : "CUDA_VISIBLE_DEVICES"};
}

/// The name without the number at its end.
std::string_view stem_of(std::string_view name) {
  while (!name.empty() && is_digit(name.back())) name.remove_suffix(1);
  return name;
}

bool is_numbered(std::string_view name, std::string_view prefix) {
  return name.size() > prefix.size() && stem_of(name) == prefix;
}

Names names_in(const Host& host, const char* folder) {
  Names names;
  host.each_name(folder, [&](std::string_view name) { names.emplace_back(name); });
  return names;
}

/// Whether the name in /dev is a numbered file of an accelerator.
bool is_of_kinds(std::string_view name) {
  return !name.empty() && is_digit(name.back()) &&
         std::ranges::find(kinds, stem_of(name), &AcceleratorKind::prefix) != kinds.end();
}

/// The names in /dev that concern accelerators; there can be hundreds of others.
Names about_accelerators(const Host& host) {
  Names names;
  host.each_name("/dev", [&](std::string_view name) {
    constexpr std::array<std::string_view, 4> others = {"kmsg", "accel", "dri", "kfd"};
    if (stem_of(name) != name ? is_of_kinds(name) : contains(others, name)) names.emplace_back(name);
  });
  return names;
}

/// Counts the numbered files in a folder of /dev whose devices are this vendor's, according to /sys.
unsigned count_of_vendor(const Host& host, const char* folder, std::string_view prefix, std::string_view sys,
                         std::string_view vendor) {
  unsigned count = 0;
  host.each_name(folder, [&](std::string_view name) {
    if (!is_numbered(name, prefix)) return;
    const std::string device = fmt::format("{}/{}/device", sys, name);
    if (host.field(device + "/vendor") != vendor) return;
    // The card in this slot is the processor's integrated GPU, on which nobody trains.
    if (vendor == intel && host.field(device + "/uevent", "PCI_SLOT_NAME=") == "0000:00:02.0") return;
    ++count;
  });
  return count;
}

unsigned count_render_nodes(const Host& host, std::string_view vendor) {
  return count_of_vendor(host, "/dev/dri", "renderD", "/sys/class/drm", vendor);
}

/// Counts AMD's GPUs: the nodes of the driver's topology that have SIMDs (a CPU has 0). The rules of the
/// device cgroup cannot be read (linux:drivers/gpu/drm/amd/amdkfd/kfd_topology.c node_show).
unsigned count_amd(const Host& host, bool dri) {
  unsigned count = 0;
  host.each_name(amd_cards, [&](std::string_view name) {
    const std::string simds = host.field(fmt::format("{}/{}/properties", amd_cards, name), "simd_count ");
    if (first_number<unsigned>(simds).value_or(0) != 0) ++count;
  });
  // A container may have only some of the cards: those with a render node in /dev, if there are any.
  const unsigned here = dri ? count_render_nodes(host, amd) : 0;
  return here == 0 ? count : std::min(count, here);
}

/// The devices left over by the container runtime's list, which if empty is treated as not set, and then by
/// the process's lists, of which an empty one hides all.
DeviceCount visible(DeviceCount devices, const Environment& environment, std::string_view mounted,
                    const Words& lists, bool indexed = true) {
  const auto limit = [&](unsigned count, std::string_view variable) {
    if (count != devices.count && devices.count != 0) devices = {count, std::string(variable)};
  };
  if (const auto list = environment.get(mounted)) limit(count_mounted(*list, devices.count), mounted);
  for (const std::string_view shown : lists)
    if (environment.has(shown))
      limit(count_shown(environment.get(shown).value_or(""), devices.count, indexed), shown);
  return devices;
}

/// The entries of a process's list up to the first invalid one; none if an entry occurs twice.
Words valid_entries(std::string_view list, std::size_t present, bool indexed) {
  constexpr std::size_t most = 1024;
  const std::string_view prefix = list.substr(0, 4);
  const bool unique_ids = prefix == "MIG-" || prefix == "GPU-";
  Words entries;
  while (!list.empty() && entries.size() < most) {
    const std::string_view entry = trimmed(split_next(list, ","));
    const auto number = first_number<unsigned>(entry);
    const bool is_number = number && (!indexed || *number < present);
    if (unique_ids ? !entry.starts_with(prefix) : !is_number) break;
    if (contains(entries, entry)) return {};
    entries.push_back(entry);
  }
  return entries;
}

/// Where a driver describes its cards.
struct Driver {
  const char* cards;        ///< a folder with one folder for each card
  std::string_view file;    ///< in the card's folder
  std::string_view number;  ///< what precedes the card's number there
  const char* devices;      ///< the folder of the cards' device files
  std::string_view device;  ///< what precedes the number in their names
};
constexpr Driver nvidia_driver = {nvidia_cards, "information", "Device Minor:", "/dev", "nvidia"};
constexpr Driver amd_driver = {amd_cards, "properties", "drm_render_minor ", "/dev/dri", "renderD"};

/// The cards that have a device file, each as its name in /sys and, after a blank, its UUID. Sorted by
/// address, or by number, which has no leading zeros.
Names cards_of(const Host& host, const Driver& driver) {
  const Names files = names_in(host, driver.devices);
  // On a machine, there are no device files before NVIDIA's driver is first used.
  const bool unused = contains(files, "kmsg") && !contains(files, "nvidiactl");
  Names names = names_in(host, driver.cards);
  std::ranges::sort(names, [](const std::string& one, const std::string& other) {
    return one.size() != other.size() ? one.size() < other.size() : one < other;
  });
  Names cards;
  for (const std::string& name : names) {
    const std::string about = fmt::format("{}/{}/{}", driver.cards, name, driver.file);
    const std::string file = std::string(driver.device) + host.field(about, driver.number);
    if (unused || contains(files, file))
      cards.push_back((&driver == &nvidia_driver ? name : file) + " " + host.field(about, "GPU UUID:"));
  }
  return cards;
}

/// Keeps only the cards that a process's list names, by number or by the start of a UUID, up to the first
/// entry that names none.
void show_only(Names& cards, const Environment& environment, std::string_view variable) {
  if (!environment.has(variable)) return;
  Names shown;
  for (const std::string_view entry :
       valid_entries(environment.get(variable).value_or(""), cards.size(), true)) {
    const auto number = first_number<std::ptrdiff_t>(entry);
    const auto card =
        number ? cards.begin() + *number : std::ranges::find_if(cards, [entry](const std::string& one) {
          return one.find(entry) != std::string::npos;
        });
    if (card == cards.end()) break;
    shown.push_back(*card);
  }
  cards.swap(shown);
}

/// Parses a set in the kernel's form: "0-31,64-95".
cpu_set_t read_set(std::string_view text) {
  cpu_set_t set;
  CPU_ZERO(&set);
  while (!text.empty()) {
    const auto range = number_range<std::size_t>(trimmed(split_next(text, ",")));
    if (!range) continue;
    for (std::size_t number = range->first; number <= range->second && number < CPU_SETSIZE; ++number)
      CPU_SET(number, &set);
  }
  return set;
}

std::string write_set(const cpu_set_t& set) {
  std::string text;
  for (std::size_t first = 0; first < CPU_SETSIZE; ++first) {
    if (!CPU_ISSET(first, &set)) continue;
    std::size_t last = first;
    while (last + 1 < CPU_SETSIZE && CPU_ISSET(last + 1, &set)) ++last;
    text.append(text.empty() ? "" : ",").append(std::to_string(first));
    if (last != first) text.append("-").append(std::to_string(last));
    first = last;
  }
  return text;
}

}  // namespace

bool is_accelerator_file(std::string_view path) {
  constexpr std::string_view folder = "/dev/";
  if (!path.starts_with(folder)) return false;
  path.remove_prefix(folder.size());
  return path == "kfd" || is_numbered(path, "accel/accel") || is_numbered(path, "dri/renderD") ||
         is_of_kinds(path);
}

unsigned count_mounted(std::string_view list, unsigned present) {
  if (list == "all" || list == "void") return present;
  if (list == "none") return 0;
  unsigned count = 0;
  constexpr unsigned most = 1U << 16U;
  bool slices = false;
  while (!list.empty() && count < most) {
    const std::string_view entry = trimmed(split_next(list, ","));
    if (entry.empty()) continue;
    slices = slices || entry.starts_with("MIG-") ||
             (is_digit(entry.front()) && entry.find(':') != std::string_view::npos);
    const auto range = number_range<unsigned>(entry);
    count += range ? std::min(range->second - range->first, most) + 1 : 1;
  }
  return slices && present != 0 ? count : std::min(count, present);
}

unsigned count_shown(std::string_view list, unsigned present, bool indexed) {
  const Words entries = valid_entries(list, present, indexed);
  const auto count = static_cast<unsigned>(entries.size());
  const bool slices = std::ranges::any_of(entries, [](std::string_view entry) {
    return entry.starts_with("MIG-") || entry.find('.') != std::string_view::npos;
  });
  return slices && present != 0 ? count : std::min(count, present);
}

std::optional<DeviceCount> visible_accelerators(const Host& host) {
  const Names dev = about_accelerators(host);
  const Environment& environment = host.environment();
  DeviceCount devices;
  for (const AcceleratorKind& kind : kinds) {
    const auto is_one = [&](const std::string& name) { return is_numbered(name, kind.prefix); };
    devices = {static_cast<unsigned>(std::ranges::count_if(dev, is_one)),
               std::string("/dev/").append(kind.prefix).append("[0-9]*")};
    // On a machine, whose /dev has kmsg, the driver creates its device files when it is first used. A
    // container without them has no card, although its /proc shows the machine's (canonical/lxd issue 7840).
    if (&kind == &nvidia && devices.count == 0 && contains(dev, "kmsg"))
      devices = {static_cast<unsigned>(names_in(host, nvidia_cards).size()), nvidia_cards};
    if (&kind == &habana && devices.count == 0 && contains(dev, "accel"))  // its newer driver has these
      devices = {count_of_vendor(host, "/dev/accel", "accel", "/sys/class/accel", intel_habana),
                 "/dev/accel/accel[0-9]*"};
    devices = visible(devices, environment, kind.mounted, {kind.shown}, kind.indexed);
    if (devices.count != 0) return devices;
  }
  const bool has_dri = contains(dev, "dri");
  if (contains(dev, "kfd"))
    devices = visible({count_amd(host, has_dri), "/dev/kfd"}, environment, "AMD_VISIBLE_DEVICES",
                      lists_of_amd(environment));
  if (has_dri && devices.count == 0)
    devices = visible({count_render_nodes(host, intel), "/dev/dri/renderD*"}, environment, "",
                      {"ZE_AFFINITY_MASK"});
  return devices.count == 0 ? std::nullopt : std::optional(devices);
}

NearAccelerator near_accelerator(const Host& host, const Environment& environment, unsigned local_rank) {
  Names cards = cards_of(host, nvidia_driver);
  const bool is_nvidia = !cards.empty();
  if (!is_nvidia) cards = cards_of(host, amd_driver);
  for (const std::string_view list : is_nvidia ? Words{nvidia.shown} : lists_of_amd(environment))
    show_only(cards, environment, list);
  if (cards.empty()) return {{}, "not bound: no accelerator is known that it can use"};
  std::string_view rest = cards[local_rank % cards.size()];
  const std::string_view address = split_next(rest, " ");
  const std::string card = fmt::format("{} {}", is_nvidia ? "NVIDIA" : "AMD", address);
  const auto number = parse_number<unsigned>(
      host.field(is_nvidia ? fmt::format("/sys/bus/pci/devices/{}/numa_node", address)
                           : fmt::format("/sys/class/drm/{}/device/numa_node", address)));
  if (!number || *number >= CPU_SETSIZE)
    return {{}, fmt::format("not bound: the kernel names no NUMA node of {}", card)};
  const cpu_set_t there =
      read_set(host.field(fmt::format("/sys/devices/system/node/node{}/cpulist", *number)));
  const cpu_set_t allowed = read_set(host.field("/proc/self/status", "Cpus_allowed_list:"));
  const cpu_set_t memory = read_set(host.field("/proc/self/status", "Mems_allowed_list:"));
  const bool has_memory = CPU_ISSET(*number, &memory);
  Affinity near{.cpus = {}, .memory_node = has_memory ? static_cast<int>(*number) : -1};
  CPU_AND(&near.cpus, &there, &allowed);
  const std::string cpus = write_set(near.cpus);
  if (cpus.empty())
    return {{}, fmt::format("not bound: this container may use no CPU of NUMA node {} ({})", *number, card)};
  return {near, fmt::format("NUMA node {}, CPUs {} ({}){}", *number, cpus, card,
                            has_memory ? "" : ", without its memory, which this container may not use")};
}

}  // namespace rankshim::node
