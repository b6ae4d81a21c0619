#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

/// Parses and names signals as people write them. Numbers are the kernel's, 1 to 64.
namespace rankshim {

/// Bit N−1 is signal N.
using SignalSet = std::uint64_t;

inline constexpr int last_signal = 64;
inline constexpr int first_real_time_signal = 32;  ///< the kernel's; libcs reserve 32 and 33
constexpr SignalSet bit(int signal) { return SignalSet{1} << (signal - 1); }

/// "SIGTERM", "SIGRTMIN+3", "signal 32".
std::string signal_name(int signal);

/// The number of "TERM", "SIGTERM", "term", "15", "RTMIN+3" or "RTMAX-2". RTMIN is 34, as for kill(1) and
/// container engines. Returns nullopt if the number is not 1 to 64.
std::optional<int> parse_signal(std::string_view text);

/// Reads signals separated by commas. "none" and the empty text are the empty set.
std::optional<SignalSet> parse_signals(std::string_view text);

/// Maps each signal that arrives to the one that is passed on instead.
class SignalMap {
 public:
  /// Reads "FROM=TO,…"; TO may be "none". Returns nullopt if the text does not have that form, or FROM is
  /// KILL, STOP or CHLD, which no process can catch or which is not passed on.
  static std::optional<SignalMap> parse(std::string_view text);

  /// The signal to pass on for this one; 0 for none.
  [[nodiscard]] int apply(int signal) const {
    const auto found = changed_.find(signal);
    return found == changed_.end() ? signal : found->second;
  }

 private:
  std::map<int, int> changed_;
};

/// Which processes get a signal that rankshim passes on.
enum class SignalScope : std::uint8_t {
  /// A stop goes down the command's tree to the processes that handle it (supervise/tree.h). Any other signal
  /// goes to the command's process group; if the command is a launcher that stops its workers itself, only to
  /// it.
  handlers,
  child,  ///< the command alone
  group,  ///< the command's process group
  tree,   ///< everything that the command started, in other sessions too
};

}  // namespace rankshim
