#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/fact.h"
#include "base/fault.h"
#include "base/signals.h"
#include "node/host.h"
#include "outcome/outcome.h"
#include "settings/options.h"

namespace rankshim::settings {

/// The word for a cause in `--exit-map` and the log; empty if they have none.
std::string_view word_of_exit_map(outcome::Cause cause);

/// The word for a cause in `--permanent`; empty if it has none.
std::string_view word_of_permanent(outcome::Cause cause);

/// An option's word for a cause; several causes may share one.
struct CauseWord {
  std::string_view word;
  outcome::Cause cause;
};

/// Exit codes, ranges of exit codes, and causes, separated by commas: what `--permanent` and a rule of
/// `--exit-map` match.
class ExitPattern {
 public:
  /// nullopt if the text does not have that form.
  static std::optional<ExitPattern> parse(std::string_view text, std::span<const CauseWord> words);

  [[nodiscard]] bool has_code(int code) const;
  [[nodiscard]] bool has_cause(outcome::Cause cause) const;

 private:
  std::vector<std::pair<int, int>> codes_;
  std::vector<outcome::Cause> causes_;
};

/// `--exit-map`: FROM[-TO]=CODE or CAUSE=CODE, separated by commas. A rule for a cause takes precedence over
/// one for a number; otherwise the first rule that matches is used.
class ExitMap {
 public:
  /// nullopt if the text does not have that form, or a code is above 255.
  static std::optional<ExitMap> parse(std::string_view text);

  /// The code to exit with.
  [[nodiscard]] int apply(outcome::Cause cause, int code) const;

 private:
  std::vector<std::pair<ExitPattern, int>> rules_;
};

/// `--job-restarts`: N, or N/TIME: at most N within that time.
struct RestartLimit {
  unsigned most = 0;
  std::optional<std::chrono::milliseconds> within;

  /// nullopt if the text does not have that form.
  static std::optional<RestartLimit> parse(std::string_view text);
};

/// The position of a choice's value in its option's argument: 1 for "on" of "auto|on|off".
struct Choice {
  std::uint8_t position = 0;
};

/// A value parsed once, as its option's kind demands. monostate: the text itself is the value, as for a text
/// and a fact of the topology.
using ParsedValue =
    std::variant<std::monostate, Choice, bool, std::chrono::milliseconds, int, SignalSet, SignalMap, ExitMap,
                 RestartLimit, ExitPattern, std::vector<std::string>, node::Variables>;

/// A value, its source, and the parsed value.
struct Setting : Value {
  ParsedValue parsed;
};

/// Parses the text as the option's kind demands; nullopt if it is not valid.
std::optional<ParsedValue> parse(const OptionInfo& option, std::string_view text);

/// The setting if nobody but rankshim chooses the value, which must be valid.
Setting builtin_setting(Option option, std::string_view text);

/// What the option allows, for a message such as "… is not a number"; for a choice also the value nearest to
/// `instead`.
std::string wanted(const OptionInfo& option, std::string_view instead = {});

/// The separator of an option that takes a list; '\0' if it takes none.
char separator(const OptionInfo& option);

/// "one of text, json" for "text|json", followed by ", the nearest is json" if one of them is near to
/// `instead`.
std::string one_of(std::string_view choices, std::string_view instead);

/// The parsed settings, by precedence: command line > RANKSHIM_* > configuration file > default.
class Settings : public ByKey<Option, Setting, option_count> {
 public:
  /// The parsed value of an option of that kind; nullopt if it has none.
  template <class Kind>
  [[nodiscard]] std::optional<Kind> get(Option option) const {
    const auto& value = (*this)[option];
    return value ? std::optional(std::get<Kind>(value->parsed)) : std::nullopt;
  }
  /// The value of an option that is a choice, as its enum in options.h.
  template <class Enum>
  [[nodiscard]] Enum choice(Option option) const {
    return static_cast<Enum>(get<Choice>(option).value_or(Choice{}).position);
  }
  [[nodiscard]] bool flag(Option option) const { return get<bool>(option).value_or(false); }
  [[nodiscard]] std::optional<std::chrono::milliseconds> time(Option option) const {
    return get<std::chrono::milliseconds>(option);
  }
};

/// A valid command line.
struct Invocation {
  Subcommand subcommand = Subcommand::run;
  std::vector<std::string> arguments;  ///< the command, or the subcommand's arguments
  Settings settings;
};

/// A command line or settings that cannot be used.
struct Rejected {
  int exit_code = 0;  ///< exit_code::usage for the command line, exit_code::configuration for variables and
                      ///< the file, exit_code::system if there is no memory or descriptor to read the file
  Faults faults;
  Invocation invocation;  ///< what was valid nevertheless, defaults included
};

/// Reads `arguments` (argv without argv[0]), RANKSHIM_* and the configuration file. Reports every fault that
/// it finds; a fault in the command line determines the exit code.
std::variant<Invocation, Rejected> read_settings(const std::vector<std::string>& arguments,
                                                 const node::Host& host);

/// The text of `--help`, for 80 columns: one screen of 24 lines by default; everything for "all"; or the
/// options of a subcommand, or the meaning of a code (codes.h).
std::string help_text(std::string_view topic = {});

/// A few lines of advice, for a call without arguments.
std::string_view short_help();

}  // namespace rankshim::settings
