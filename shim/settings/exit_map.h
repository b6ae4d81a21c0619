#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

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

/// `--exit-map`: FROM[-TO]=CODE or CAUSE=CODE, separated by commas. The rule for a cause comes before one for
/// a number; of several rules that match, the first is used.
class ExitMap {
 public:
  /// Returns nothing if the text does not have that form or a code is above 255.
  static std::optional<ExitMap> parse(std::string_view text);

  /// The code to exit with.
  [[nodiscard]] int apply(Cause cause, int code) const;

 private:
  struct Rule {
    Cause cause = Cause::none;
    int from = 0;
    int to = 0;
    int code = 0;
  };
  std::vector<Rule> rules_;
};

}  // namespace rankshim
