#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "settings/settings.h"

namespace rankshim {

/// The option of that name, without "--"; null if there is none.
const OptionInfo* find_option(std::string_view name);

/// The name of the nearest option, of those that have this (a variable, a key); empty if none is near.
std::string_view nearest_option(std::string_view name, bool OptionInfo::* has);

/// Reads one invocation. The sources are read in order of precedence, and the first that sets an option
/// decides it. Each source has its file: command_line.cpp (which also checks
/// what cannot be combined), settings.cpp (variables), config_file.cpp.
class SettingsReader {
 public:
  /// `node` must outlive it.
  explicit SettingsReader(const Node& node) : node_(node) {}

  /// To be called once.
  std::variant<Invocation, Rejected> read(const std::vector<std::string>& arguments);

 private:
  void reject(int code, Fault fault);
  void reject_value(const OptionInfo& option, std::string_view text, Origin origin,
                    const std::string& detail);

  /// Sets an option unless an earlier source has set it. `detail` is the source: the option as it was
  /// written, a variable or "PATH:KEY". On the command line, a list option that is given again is extended.
  void take(const OptionInfo& option, std::string_view text, Origin origin, const std::string& detail);

  void read_command_line(const std::vector<std::string>& arguments);
  void unknown_option(std::string_view name);
  /// Rejects a first word that is nearly a subcommand, and no program.
  void check_misspelt(const std::string& word);

  void read_variables();
  void unknown_variable(std::string_view name);

  void read_config();
  void read_config(const std::string& path, const std::string& document);
  /// `text` is the value as a variable would hold it; nothing if the key's value has no such form.
  void read_key(const std::string& path, std::size_t line_number, std::string_view key,
                const std::optional<std::string>& text);

  void check_subcommand();
  void check_help();
  void check_format();

  const Node& node_;
  Invocation invocation_;
  Rejected rejected_;
};

}  // namespace rankshim
