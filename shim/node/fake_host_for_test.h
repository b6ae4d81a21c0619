#pragma once

#include <cerrno>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "node/host.h"

namespace rankshim::node {

/// A node that a test invents.
class FakeHost final : public Host {
 public:
  explicit FakeHost(std::vector<std::string> variables) : Host(Environment(std::move(variables))) {}

  std::map<std::string, std::string> files;
  std::map<std::string, int> unreadable;  ///< the errno of reading a path
  std::map<std::string, std::vector<std::string>, std::less<>> folders;
  std::string name = "fake-host";
  std::optional<DeviceCount> devices;
  unsigned cpu_count = 4;
  std::set<std::uint16_t> taken_ports;
  std::set<std::string, std::less<>> own_addresses = {"127.0.0.1"};
  std::map<std::string, std::string, std::less<>> interfaces;  ///< by further addresses of its own
  std::set<std::string, std::less<>> programs = {"/usr/bin/python3"};

  [[nodiscard]] std::variant<std::string, Unreadable> read(const std::string& path) const override {
    if (const auto found = files.find(path); found != files.end()) return found->second;
    const auto refused = unreadable.find(path);
    return Unreadable{refused == unreadable.end() ? ENOENT : refused->second};
  }
  void each_name(const char* folder, const std::function<void(std::string_view name)>& see) const override {
    const std::string prefix = std::string(folder) + "/";
    for (const auto& [path, content] : files)
      if (path.starts_with(prefix) && path[prefix.size()] != '.')
        see(std::string_view(path).substr(prefix.size()));
    const auto found = folders.find(folder);
    if (found == folders.end()) return;
    for (const std::string& entry : found->second) see(entry);
  }
  [[nodiscard]] std::string host_name() const override { return name; }
  [[nodiscard]] std::optional<DeviceCount> accelerators() const override { return devices; }
  [[nodiscard]] DeviceCount cpus() const override { return {cpu_count, "cgroup CPU quota"}; }
  [[nodiscard]] bool take_port(std::uint16_t port) const override { return !taken_ports.contains(port); }
  [[nodiscard]] bool owns_address(std::string_view address) const override {
    return own_addresses.contains(address);
  }
  [[nodiscard]] std::optional<std::string> address_towards(std::string_view peer) const override {
    return own_addresses.contains(peer) ? std::string(peer) : "10.9.9.9";
  }
  [[nodiscard]] std::string interface_towards(std::string_view peer) const override {
    if (const auto other = interfaces.find(peer); other != interfaces.end()) return other->second;
    return own_addresses.contains(peer) && peer.starts_with("127.") ? "lo" : "eth0";
  }
  [[nodiscard]] std::optional<std::string> find_program(std::string_view program) const override {
    for (const std::string& path : programs) {
      if (path == program || std::string_view(path).substr(path.rfind('/') + 1) == program) return path;
    }
    return std::nullopt;
  }
};

}  // namespace rankshim::node
