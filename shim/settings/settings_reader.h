#pragma once

#include <bitset>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "settings/settings.h"

namespace rankshim {

/// The option of that name, without "--"; null where there is none.
const OptionInfo* find_option(std::string_view name);

/// Reads one invocation. The sources are asked in the order of who wins, and the first to set an option keeps
/// it. Each source has its own file: command_line.cpp, settings.cpp (variables), config_file.cpp;
/// invocation_checks.cpp has what cannot go together.
class SettingsReader {
 public:
  /// `node` has to outlive it.
  explicit SettingsReader(const Node& node) : node_(node) {}

  /// Once only.
  std::variant<Invocation, Rejected> read(const std::vector<std::string>& arguments);

 private:
  void reject(int code, Fault fault);
  void reject_value(const OptionInfo& option, std::string_view text, Origin origin,
                    const std::string& detail);

  /// Sets an option by `detail`, the option as it is written, a variable or "PATH:KEY", unless an earlier
  /// source has set it. Given again on the command line, an option that takes a list becomes longer.
  void take(const OptionInfo& option, std::string_view text, Origin origin, const std::string& detail);

  void read_command_line(const std::vector<std::string>& arguments);
  void unknown_option(std::string_view name);
  /// Checks what was given in several parts as a whole.
  void check_lists();

  void read_variables();
  void unknown_variable(std::string_view name);

  void read_config();
  void read_config(const std::string& path, const std::string& document);
  /// `text` is the value as a variable would hold it; nothing where the key has none such.
  void read_key(const std::string& path, std::size_t line_number, std::string_view key,
                const std::optional<std::string>& text);

  void check_subcommand();
  /// What is asked to stop must hear of it before it is killed.
  void check_delay();
  void check_format();

  const Node& node_;
  Invocation invocation_;
  Rejected rejected_;
  std::bitset<option_count> lists_;  ///< given again on the command line
};

}  // namespace rankshim
