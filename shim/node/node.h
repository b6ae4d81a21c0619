#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "base/read_file.h"
#include "node/environment.h"

namespace rankshim {

/// A number of devices and what was counted, for the reader ("/dev/nvidia[0-9]*").
struct DeviceCount {
  unsigned count = 0;
  std::string what;
};

/// This node as seen from inside: all that the pure stages may ask of the world. Nothing here touches the
/// network. Tests stand in for it.
class Node {
 public:
  explicit Node(Environment environment) : environment_(std::move(environment)) {}
  virtual ~Node() = default;
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  [[nodiscard]] const Environment& environment() const { return environment_; }

  /// False for a node that is only described (recorded_node.h): its devices, CPUs and ports are not to be
  /// found here.
  [[nodiscard]] virtual bool is_here() const { return true; }

  /// The file's content, or why it cannot be read (base/read_file.h).
  [[nodiscard]] virtual std::variant<std::string, Unreadable> read(const std::string& path) const = 0;

  /// The same where the reason does not matter.
  [[nodiscard]] std::optional<std::string> file(const std::string& path) const {
    auto content = read(path);
    auto* text = std::get_if<std::string>(&content);
    return text == nullptr ? std::nullopt : std::optional(std::move(*text));
  }

  /// Hands each name in a folder to `see`, in no order, but for those that begin with a dot; no one where
  /// the folder cannot be read.
  virtual void each_name(const char* folder, void (*see)(void* context, std::string_view name),
                         void* context) const = 0;

  /// gethostname(2); empty where it fails.
  [[nodiscard]] virtual std::string host_name() const = 0;

  /// The accelerators that a worker could use (accelerators.h); nothing where there is none.
  [[nodiscard]] virtual std::optional<DeviceCount> accelerators() const = 0;

  /// The CPUs this container may use: its cgroup's quota, rounded up, or its affinity, at least 1.
  [[nodiscard]] virtual DeviceCount cpus() const = 0;

  /// Takes 127.0.0.1:PORT for the command, which binds it seconds later. False where a listener could not
  /// bind it now, or another rankshim that shares this network has taken it. What is taken is given back by
  /// the end of this process.
  [[nodiscard]] virtual bool take_port(std::uint16_t port) const = 0;

  /// Whether some interface of this node has this literal address.
  [[nodiscard]] virtual bool owns_address(std::string_view literal) const = 0;

  /// The own address from which packets to the literal address `peer` would leave (empty: the default
  /// route's); nothing where there is no route. The kernel's routing table is asked, nothing is sent.
  [[nodiscard]] virtual std::optional<std::string> address_towards(std::string_view peer) const = 0;

  /// The name of the interface that has the address which address_towards(peer) gives; empty where there is
  /// none.
  [[nodiscard]] virtual std::string interface_towards(std::string_view peer) const = 0;

  /// The full path that running `program` by PATH would execute (execvp(3)); nothing where there is none.
  [[nodiscard]] virtual std::optional<std::string> find_program(std::string_view program) const = 0;

 private:
  Environment environment_;
};

/// The node this process runs on.
class RealNode final : public Node {
 public:
  using Node::Node;
  [[nodiscard]] std::variant<std::string, Unreadable> read(const std::string& path) const override;
  void each_name(const char* folder, void (*see)(void* context, std::string_view name),
                 void* context) const override;
  [[nodiscard]] std::string host_name() const override;
  [[nodiscard]] std::optional<DeviceCount> accelerators() const override;
  [[nodiscard]] DeviceCount cpus() const override;
  [[nodiscard]] bool take_port(std::uint16_t port) const override;
  [[nodiscard]] bool owns_address(std::string_view literal) const override;
  [[nodiscard]] std::optional<std::string> address_towards(std::string_view peer) const override;
  [[nodiscard]] std::string interface_towards(std::string_view peer) const override;
  [[nodiscard]] std::optional<std::string> find_program(std::string_view program) const override;

 private:
  mutable std::uint16_t taken_port_ = 0;
};

}  // namespace rankshim
