#pragma once

#include <string>
#include <vector>

#include "node/node.h"
#include "pod/env_file.h"

namespace rankshim {

/// A node that a file describes: its variables and its name, without its devices. It can read only those of
/// this machine's files that the command line names (--config, the script).
class RecordedNode final : public Node {
 public:
  /// `command_line` and `here` must outlive it.
  RecordedNode(Recorded recorded, const std::vector<std::string>& command_line, const Node& here)
      : Node(std::move(recorded.environment)),
        recorded_(std::move(recorded)),
        command_line_(command_line),
        here_(here) {}

  /// What the file does not contain, one sentence each.
  [[nodiscard]] const std::vector<std::string>& notes() const { return recorded_.notes; }

  [[nodiscard]] bool is_here() const override { return false; }
  [[nodiscard]] std::variant<std::string, Unreadable> read(const std::string& path) const override;
  void each_name(const char* /*folder*/, void (* /*see*/)(void*, std::string_view),
                 void* /*context*/) const override {}
  [[nodiscard]] std::string host_name() const override { return recorded_.host_name; }
  [[nodiscard]] std::optional<DeviceCount> accelerators() const override { return std::nullopt; }
  [[nodiscard]] DeviceCount cpus() const override { return {1, "unknown"}; }
  [[nodiscard]] bool take_port(std::uint16_t /*port*/) const override { return true; }
  [[nodiscard]] bool owns_address(std::string_view literal) const override {
    return !literal.empty() && literal == recorded_.address;
  }
  [[nodiscard]] std::optional<std::string> address_towards(std::string_view /*peer*/) const override {
    return recorded_.address.empty() ? std::nullopt : std::optional(recorded_.address);
  }
  [[nodiscard]] std::string interface_towards(std::string_view /*peer*/) const override { return {}; }
  /// Any program is taken as found; for Python the usual name is returned.
  [[nodiscard]] std::optional<std::string> find_program(std::string_view program) const override {
    return program == "python" ? std::nullopt : std::optional(std::string(program));
  }

 private:
  Recorded recorded_;
  const std::vector<std::string>& command_line_;
  const Node& here_;
};

}  // namespace rankshim
