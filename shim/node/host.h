#pragma once

#include <boost/core/noncopyable.hpp>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "base/files.h"
#include "node/environment.h"

namespace rankshim::node {

/// A number of devices and what was counted, for messages ("/dev/nvidia[0-9]*").
struct DeviceCount {
  unsigned count = 0;
  std::string what;
};

/// The machine that this process runs on, as seen from inside: everything that the pure stages may read from
/// the system. Nothing here uses the network. Tests replace it.
class Host : boost::noncopyable {
 public:
  explicit Host(Environment environment) : environment_(std::move(environment)) {}
  virtual ~Host() = default;

  [[nodiscard]] const Environment& environment() const { return environment_; }

  /// The file's content, or why it cannot be read (base/files.h).
  [[nodiscard]] virtual std::variant<std::string, Unreadable> read(const std::string& path) const;

  /// The same, if the reason does not matter.
  [[nodiscard]] std::optional<std::string> file(const std::string& path) const {
    auto content = read(path);
    auto* text = std::get_if<std::string>(&content);
    return text == nullptr ? std::nullopt : std::optional(std::move(*text));
  }

  /// The rest of the file's first line that begins with `key`, without surrounding blanks; empty if there is
  /// none.
  [[nodiscard]] std::string field(const std::string& path, std::string_view key = {}) const;

  /// Calls `see` with each name in a folder except those that begin with a dot, in no particular order. Never
  /// calls it if the folder cannot be read.
  virtual void each_name(const char* folder, const std::function<void(std::string_view name)>& see) const;

  /// gethostname(2); empty if it fails.
  [[nodiscard]] virtual std::string host_name() const;

  /// The accelerators that a worker could use (accelerators.h); nullopt if there are none.
  [[nodiscard]] virtual std::optional<DeviceCount> accelerators() const;

  /// The number of CPUs that this container may use: its cgroup's quota, rounded up, or its affinity; at
  /// least 1.
  [[nodiscard]] virtual DeviceCount cpus() const;

  /// Claims 127.0.0.1:PORT, until this process ends, for the command, which binds it seconds later. Returns
  /// false if a listener could not bind it now, or another rankshim in this network namespace has claimed it.
  [[nodiscard]] virtual bool take_port(std::uint16_t port) const;

  /// Whether an interface of this node has this literal address.
  [[nodiscard]] virtual bool owns_address(std::string_view address) const;

  /// The local address from which packets to the literal address `peer` would leave (on the default route if
  /// `peer` is empty); nullopt if there is no route. Sends nothing.
  [[nodiscard]] virtual std::optional<std::string> address_towards(std::string_view peer) const;

  /// The name of the interface with the address that address_towards(peer) returns; empty if unknown.
  [[nodiscard]] virtual std::string interface_towards(std::string_view peer) const;

  /// The full path of the file that execvp(3) would execute for `program`; nullopt if there is none.
  [[nodiscard]] virtual std::optional<std::string> find_program(std::string_view program) const;

 private:
  Environment environment_;
  mutable std::uint16_t taken_port_ = 0;
};

}  // namespace rankshim::node
