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
#include "base/signals.h"
#include "node/environment.h"
#include "settings/options.h"

/// The values that an option can have, by its kind.
namespace rankshim {

/// Why rankshim ends, if that is more than the command's end.
enum class Cause : std::uint8_t {
  none,
  oom,      ///< out of memory: a process was killed for it
  wait,     ///< the master was not reachable in time
  config,   ///< the environment or configuration is incomplete or contradictory
  stopped,  ///< a stop was requested
  peer,     ///< a worker of another node was lost (lost_peer.h)
};

/// As `--exit-map` names it; empty for `none`.
std::string_view word(Cause cause);

/// `--permanent`: exit codes, ranges of them and causes, separated by commas.
class Ends {
 public:
  /// Returns nothing if the text does not have that form.
  static std::optional<Ends> parse(std::string_view text, std::span<const std::string_view> causes);

  [[nodiscard]] bool has_code(int code) const;
  [[nodiscard]] bool has_cause(std::string_view cause) const;

 private:
  std::vector<std::pair<int, int>> codes_;
  std::vector<std::string> causes_;
};

/// `--exit-map`: FROM[-TO]=CODE or CAUSE=CODE, separated by commas. The rule for a cause comes before one for
/// a number; of several rules that match, the first is used.
class ExitMap {
 public:
  /// Returns nothing if the text does not have that form or a code is above 255.
  static std::optional<ExitMap> parse(std::string_view text);

  /// The code to exit with.
  [[nodiscard]] int apply(Cause cause, int code) const;

 private:
  std::vector<std::pair<Ends, int>> rules_;
};

/// `--job-restarts`: N, or N/TIME: at most N within that time.
struct RestartLimit {
  unsigned most = 0;
  std::optional<std::chrono::milliseconds> within;

  /// Returns nothing if the text does not have that form.
  static std::optional<RestartLimit> parse(std::string_view text);
};

/// What a value means: nothing more than its text for a text, a choice and a fact of the topology; for every
/// other kind it is parsed here, once.
using Meaning =
    std::variant<std::monostate, bool, std::chrono::milliseconds, int, supervise::SignalSet,
                 supervise::SignalMap, ExitMap, RestartLimit, Ends, std::vector<std::string>, Variables>;

/// A value, its source and what it means.
struct Setting : Value {
  Meaning meaning;
};

/// What the text means; nothing if the kind does not allow it.
std::optional<Meaning> parse(const OptionInfo& option, std::string_view text);

/// What the option allows, for a message such as "… is not a number"; of choices also which is the nearest.
std::string wanted(const OptionInfo& option, std::string_view instead = {});

/// The separator of an option that takes a list; '\0' if it takes none.
char separator(ValueKind kind);

/// "one of text, json" of "text|json", and where one of them is near, ", the nearest is json".
std::string one_of(std::string_view choices, std::string_view instead);

}  // namespace rankshim
