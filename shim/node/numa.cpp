#include "node/numa.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "base/number.h"
#include "base/sort.h"
#include "base/text.h"

namespace rankshim {
namespace {

using Names = std::vector<std::string>;

struct Device {
  std::string name;    ///< for messages
  std::string uuid;    ///< empty if it is not known
  std::string folder;  ///< in /sys
};
using Devices = std::vector<Device>;

/// The names in a folder. Numbers without leading zeros are in their order.
Names names_in(const Node& node, const char* folder) {
  Names names;
  const auto add = [](void* list, std::string_view name) { static_cast<Names*>(list)->emplace_back(name); };
  node.each_name(folder, add, &names);
  insertion_sort(names, [](const std::string& one, const std::string& other) {
    return one.size() != other.size() ? one.size() < other.size() : one < other;
  });
  return names;
}

std::string path(std::string_view folder, std::string_view name, std::string_view file) {
  return std::string(folder).append("/").append(name).append("/").append(file);
}

bool has(const Names& names, std::string_view name) { return std::ranges::find(names, name) != names.end(); }

Devices nvidia_devices(const Node& node) {
  constexpr const char* folder = "/proc/driver/nvidia/gpus";
  const Names files = names_in(node, "/dev");
  // A machine has no device files before the first use of the driver (accelerators.cpp).
  const bool unused = has(files, "kmsg") && !has(files, "nvidiactl");
  Devices devices;
  for (const std::string& address : names_in(node, folder)) {
    const auto text = node.file(path(folder, address, "information"));
    if (!text) continue;
    const std::string file = "nvidia" + std::string(trimmed(text_after(*text, "Device Minor:")));
    if (unused || has(files, file))
      devices.push_back({"NVIDIA " + address, std::string(trimmed(text_after(*text, "GPU UUID:"))),
                         "/sys/bus/pci/devices/" + address});
  }
  return devices;
}

Devices amd_devices(const Node& node) {
  constexpr const char* folder = "/sys/class/kfd/kfd/topology/nodes";
  const Names files = names_in(node, "/dev/dri");
  Devices devices;
  for (const std::string& number : names_in(node, folder)) {
    const auto text = node.file(path(folder, number, "properties"));
    if (!text) continue;
    const std::string file = "renderD" + std::string(text_after(*text, "drm_render_minor "));
    if (has(files, file)) devices.push_back({"AMD " + file, {}, "/sys/class/drm/" + file + "/device"});
  }
  return devices;
}

/// Leaves what a list shows, in its order. An entry is a number, or the begin of a UUID; the first one that
/// fits no device ends the list (accelerators.h, count_shown). Returns whether there is a list.
bool show_only(Devices& devices, const Environment& environment, std::string_view variable) {
  if (!environment.has(variable)) return false;
  std::string_view list = environment.get(variable).value_or("");
  Devices shown;
  while (!list.empty()) {
    const std::string_view entry = trimmed(take_part(list, ","));
    const auto number = parse_number<std::size_t>(entry);
    const auto found = std::ranges::find_if(devices, [&](const Device& device) {
      return number ? &device == devices.data() + *number
                    : entry.starts_with("GPU-") && device.uuid.starts_with(entry);
    });
    if (found == devices.end()) break;
    shown.push_back(*found);
  }
  devices = std::move(shown);
  return true;
}

Devices shown_devices(const Node& node, const Environment& environment) {
  constexpr std::string_view cuda_list = "CUDA_VISIBLE_DEVICES";
  Devices devices = nvidia_devices(node);
  if (!devices.empty()) {
    show_only(devices, environment, cuda_list);
    return devices;
  }
  devices = amd_devices(node);
  show_only(devices, environment, "ROCR_VISIBLE_DEVICES");
  if (!show_only(devices, environment, "HIP_VISIBLE_DEVICES")) show_only(devices, environment, cuda_list);
  return devices;
}

/// Reads the kernel's form of a set: "0-31,64-95".
cpu_set_t read_set(std::string_view text) {
  cpu_set_t set;
  CPU_ZERO(&set);
  while (!text.empty()) {
    std::string_view range = take_part(text, ",");
    const auto first = take_number<std::size_t>(range);
    if (!first) continue;
    if (range.starts_with('-')) range.remove_prefix(1);
    const std::size_t last = first_number<std::size_t>(range).value_or(*first);
    for (std::size_t number = *first; number <= last && number < CPU_SETSIZE; ++number) CPU_SET(number, &set);
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

NearAccelerator near_accelerator(const Node& node, const Environment& environment, unsigned local_rank) {
  const Devices devices = shown_devices(node, environment);
  if (devices.empty()) return {{}, "not bound: no accelerator is known that it can use"};
  const Device& device = devices[local_rank % devices.size()];
  const auto number = parse_number<unsigned>(trimmed(node.file(device.folder + "/numa_node").value_or("")));
  if (!number || *number >= CPU_SETSIZE)
    return {{}, "not bound: the kernel names no NUMA node of " + device.name};
  const std::string name = "NUMA node " + std::to_string(*number);
  const std::string cpus =
      node.file("/sys/devices/system/node/node" + std::to_string(*number) + "/cpulist").value_or("");
  const std::string status = node.file("/proc/self/status").value_or("");
  const cpu_set_t there = read_set(cpus);
  const cpu_set_t allowed = read_set(trimmed(text_after(status, "Cpus_allowed_list:")));
  Affinity affinity{.cpus = {}, .memory_node = -1};
  CPU_AND(&affinity.cpus, &there, &allowed);
  if (CPU_COUNT(&affinity.cpus) == 0)
    return {{},
            "not bound: of the CPUs of " + name + " (" + device.name + "), " + std::string(trimmed(cpus)) +
                ", this container may use none"};
  std::string text = name + ", CPUs " + write_set(affinity.cpus) + " (" + device.name + ")";
  const cpu_set_t memory = read_set(trimmed(text_after(status, "Mems_allowed_list:")));
  if (CPU_ISSET(*number, &memory))
    affinity.memory_node = static_cast<int>(*number);
  else
    text += ", without its memory, which this container may not use";
  return {affinity, std::move(text)};
}

}  // namespace rankshim
