#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/fact.h"
#include "base/fault.h"
#include "node/node.h"
#include "settings/option_value.h"
#include "settings/options.h"

namespace rankshim {

/// The settings by precedence: command line > RANKSHIM_* > configuration file > default. Each has been parsed
/// as its kind says.
class Settings {
 public:
  /// The value and its source; nothing if it was not set and has no default.
  [[nodiscard]] const std::optional<Setting>& operator[](Option option) const {
    return values_[index(option)];
  }
  [[nodiscard]] std::optional<Setting>& operator[](Option option) { return values_[index(option)]; }

  /// The value as it was written; empty if there is none.
  [[nodiscard]] std::string_view text(Option option) const {
    const auto& value = (*this)[option];
    return value ? std::string_view(value->text) : std::string_view{};
  }
  /// What the value of an option of that kind means; nothing if there is none.
  template <class Kind>
  [[nodiscard]] std::optional<Kind> get(Option option) const {
    const auto& value = (*this)[option];
    return value ? std::optional(std::get<Kind>(value->meaning)) : std::nullopt;
  }
  [[nodiscard]] bool flag(Option option) const { return get<bool>(option).value_or(false); }
  [[nodiscard]] std::optional<std::chrono::milliseconds> time(Option option) const {
    return get<std::chrono::milliseconds>(option);
  }

 private:
  static constexpr std::size_t index(Option option) { return static_cast<std::size_t>(option); }
  std::array<std::optional<Setting>, option_count> values_;
};

/// A command line that was understood.
struct Invocation {
  Subcommand subcommand = Subcommand::run;
  std::vector<std::string> arguments;  ///< the command, or the subcommand's arguments
  Settings settings;
};

/// A command line or settings that cannot be used.
struct Rejected {
  int exit_code = 0;  ///< exit_code::usage for the command line, exit_code::configuration for variables and
                      ///< the file, exit_code::system if memory or descriptors are lacking to read the file
  Faults faults;
  Invocation invocation;  ///< what was understood nevertheless, defaults included
};

/// Reads `arguments` (argv without argv[0]), RANKSHIM_* and the configuration file. Reports every fault that
/// it finds; a fault of the command line decides the exit code.
std::variant<Invocation, Rejected> read_settings(const std::vector<std::string>& arguments, const Node& node);

/// "PROGRAM was not found in PATH", and what to do where that is known: about torchrun, and about a
/// subcommand that follows an option.
std::string not_found(std::string_view program);

/// `--help`, for 80 columns: everything, or what one subcommand takes.
std::string help_text(std::string_view subcommand = {});

/// What to do, in a few lines, for a call without arguments.
std::string_view short_help();

}  // namespace rankshim
