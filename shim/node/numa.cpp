#include "node/numa.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "base/text.h"

namespace rankshim {
namespace {

using Names = std::vector<std::string>;

/// Where a driver tells about its cards.
struct Driver {
  const char* cards;        ///< a folder with a folder for each card
  std::string_view file;    ///< in the card's folder
  std::string_view number;  ///< what precedes the card's number there
  const char* devices;      ///< the folder of the cards' device files
  std::string_view device;  ///< what precedes the number in their names
};
constexpr Driver nvidia_driver = {"/proc/driver/nvidia/gpus", "/information", "Device Minor:", "/dev",
                                  "nvidia"};
constexpr Driver amd_driver = {"/sys/class/kfd/kfd/topology/nodes", "/properties", "drm_render_minor ",
                               "/dev/dri", "renderD"};

/// The names in a folder. Numbers without leading zeros are in their order.
Names names_in(const Node& node, const char* folder) {
  Names names;
  node.each_name(folder, [&](std::string_view name) { names.emplace_back(name); });
  std::ranges::sort(names, [](const std::string& one, const std::string& other) {
    return one.size() != other.size() ? one.size() < other.size() : one < other;
  });
  return names;
}

bool has(const Names& names, std::string_view name) { return std::ranges::find(names, name) != names.end(); }

/// The file's content; empty if it cannot be read.
std::string content(const Node& node, const std::string& path) { return node.file(path).value_or(""); }

/// The cards that have a device file: each as its name in /sys and, after a blank, its UUID.
Names cards_of(const Node& node, const Driver& driver) {
  const Names files = names_in(node, driver.devices);
  // A machine has no device files before the first use of NVIDIA's driver (accelerators.cpp).
  const bool unused = has(files, "kmsg") && !has(files, "nvidiactl");
  Names cards;
  for (std::string& name : names_in(node, driver.cards)) {
    const std::string text = content(node, fmt::format("{}/{}{}", driver.cards, name, driver.file));
    std::string file(driver.device);
    file += trimmed(text_after(text, driver.number));
    if (!unused && !has(files, file)) continue;
    cards.push_back(std::move(&driver == &nvidia_driver ? name : file));
    cards.back().append(" ").append(trimmed(text_after(text, "GPU UUID:")));
  }
  return cards;
}

/// Leaves what a list shows, in its order. An entry is a number, or the begin of a UUID; the first one that
/// fits no card ends the list (accelerators.h, count_shown). Returns whether there is a list.
bool show_only(Names& cards, const Environment& environment, std::string_view variable) {
  if (!environment.has(variable)) return false;
  std::string_view list = environment.get(variable).value_or("");
  Names shown;
  while (!list.empty()) {
    const std::string_view entry = trimmed(take_part(list, ","));
    std::size_t at = parse_number<std::size_t>(entry).value_or(cards.size());
    if (entry.starts_with("GPU-"))
      for (at = 0; at < cards.size() && cards[at].find(entry) == std::string::npos;) ++at;
    if (at >= cards.size()) break;
    shown.push_back(cards[at]);
  }
  cards.swap(shown);
  return true;
}

/// Reads the kernel's form of a set: "0-31,64-95".
cpu_set_t read_set(std::string_view text) {
  cpu_set_t set;
  CPU_ZERO(&set);
  while (!text.empty()) {
    const auto range = number_range<std::size_t>(trimmed(take_part(text, ",")));
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

NearAccelerator near_accelerator(const Node& node, const Environment& environment, unsigned local_rank) {
  Names cards = cards_of(node, nvidia_driver);
  const bool is_nvidia = !cards.empty();
  if (!is_nvidia) {
    cards = cards_of(node, amd_driver);
    show_only(cards, environment, "ROCR_VISIBLE_DEVICES");
  }
  if (is_nvidia || !show_only(cards, environment, "HIP_VISIBLE_DEVICES"))
    show_only(cards, environment, "CUDA_VISIBLE_DEVICES");
  if (cards.empty()) return {{}, "not bound: no accelerator is known that it can use"};
  std::string_view rest = cards[local_rank % cards.size()];
  const std::string_view address = take_part(rest, " ");
  const std::string card = fmt::format("{} {}", is_nvidia ? "NVIDIA" : "AMD", address);
  const std::string numa =
      content(node, is_nvidia ? fmt::format("/sys/bus/pci/devices/{}/numa_node", address)
                              : fmt::format("/sys/class/drm/{}/device/numa_node", address));
  const auto number = parse_number<unsigned>(trimmed(numa));
  if (!number || *number >= CPU_SETSIZE)
    return {{}, fmt::format("not bound: the kernel names no NUMA node of {}", card)};
  const std::string status = content(node, "/proc/self/status");
  const cpu_set_t there =
      read_set(content(node, fmt::format("/sys/devices/system/node/node{}/cpulist", *number)));
  const cpu_set_t allowed = read_set(trimmed(text_after(status, "Cpus_allowed_list:")));
  const cpu_set_t memory = read_set(trimmed(text_after(status, "Mems_allowed_list:")));
  const bool has_memory = CPU_ISSET(*number, &memory);
  Affinity near{.cpus = {}, .memory_node = has_memory ? static_cast<int>(*number) : -1};
  CPU_AND(&near.cpus, &there, &allowed);
  const std::string cpus = write_set(near.cpus);
  if (cpus.empty())
    return {{}, fmt::format("not bound: this container may use no CPU of NUMA node {} ({})", *number, card)};
  return {near, fmt::format("NUMA node {}, CPUs {} ({}){}", *number, cpus, card,
                            has_memory ? "" : ", without its memory, which this container may not use")};
}

}  // namespace rankshim
