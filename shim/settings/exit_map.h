#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace rankshim {

/// Why we end, where it is more than the command's own end.
enum class Cause : std::uint8_t {
  none,
  oom,      ///< killed for want of memory
  wait,     ///< the master did not come in time
  config,   ///< environment or configuration incomplete or contradictory
  stopped,  ///< a stop was asked for
};

/// `--exit-map`: FROM[-TO]=CODE or CAUSE=CODE, separated by commas. A cause's rule goes before a number's; of
/// several that fit, the first.
class ExitMap {
 public:
  /// Nothing where the text has not that form or a code is above 255.
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
