#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

/// Signals as people write and read them. Their numbers are the kernel's, 1 to 64.
namespace rankshim::supervise {

/// Bit N−1 is signal N.
using SignalSet = std::uint64_t;

inline constexpr int last_signal = 64;
inline constexpr int first_real_time_signal =
    32;  ///< the kernel's; 32 and 33 belong to the libcs, but can be sent
constexpr SignalSet bit(int signal) { return SignalSet{1} << (signal - 1); }

/// "SIGTERM", "SIGRTMIN+3", "signal 32".
std::string signal_name(int signal);

/// The number of "TERM", "SIGTERM", "term", "15", "RTMIN+3" or "RTMAX-2", where RTMIN is 34 as kill(1) and
/// container engines mean it; nothing where it is none of 1 to 64.
std::optional<int> parse_signal(std::string_view text);

/// Signals separated by commas; "none" and nothing at all are the empty set.
std::optional<SignalSet> parse_signals(std::string_view text);

/// What is passed on in the place of what arrives.
class SignalMap {
 public:
  /// "FROM=TO,…", TO may be "none". Nothing where the text has not that form or FROM is KILL, STOP or CHLD,
  /// which never reach anybody.
  static std::optional<SignalMap> parse(std::string_view text);

  /// The signal to pass on for this one; 0: none.
  [[nodiscard]] int apply(int signal) const {
    const int to = to_[static_cast<std::size_t>(signal)];
    return to == unchanged ? signal : to;
  }

 private:
  static constexpr std::uint8_t unchanged = 255;
  std::array<std::uint8_t, last_signal + 1> to_ = [] {
    std::array<std::uint8_t, last_signal + 1> same{};
    same.fill(unchanged);
    return same;
  }();
};

}  // namespace rankshim::supervise
