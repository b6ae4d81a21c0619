#pragma once

#include <regex.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace rankshim {

/// A POSIX extended regular expression (regex(7)), matched by libc. It also knows `\d`, `\w`, `\s` and `\t`,
/// in a set too, and `\D`, `\W` and `\S` outside of one.
class Pattern {
 public:
  using Clock = std::chrono::steady_clock;

  /// Returns nothing if the text is malformed, empty or longer than 1,000 bytes; if it has a back-reference,
  /// which needs backtracking; if a `{N,M}` follows anything but one character or set, or all of them add up
  /// to more than 512; or if repetitions nest more than 8 deep. libc copies each repeated part, and compiles
  /// deeper ones for minutes.
  static std::optional<Pattern> compile(std::string_view text);

  /// The text, one line, with each match (the leftmost, then the longest, never empty) replaced. Returns
  /// nothing if that is not done by `end`. A NUL ends the text: what follows it is left out.
  [[nodiscard]] std::optional<std::string> replace(const std::string& text, std::string_view by,
                                                   Clock::time_point end) const;

 private:
  struct Free {
    void operator()(regex_t* compiled) const;
  };
  std::unique_ptr<regex_t, Free> compiled_;
};

}  // namespace rankshim
