#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/fault.h"
#include "base/pattern.h"
#include "node/environment.h"

namespace rankshim {

/// Takes out of a text what must not be shown to who reads a log or a report.
///
/// Secrets are: the values of variables whose names speak of one (`is_secret_name`), also as Python's repr()
/// shows them and, of several lines, each line; the password in `scheme://user:password@`; and what the
/// user's pattern (--redact) matches within a line. All of it together takes no longer than its time: PID 1
/// does nothing else meanwhile.
class Redactor {
 public:
  static constexpr std::size_t longest_line = 4096;
  static constexpr std::size_t longest_message = std::size_t{64} << 10U;
  static constexpr std::size_t most_lines = 50;
  static constexpr std::chrono::milliseconds most_time{500};

  /// `pattern` is empty for none. `time` is what all its redactions together may take.
  Redactor(const Environment& environment, std::string_view pattern,
           std::chrono::nanoseconds time = most_time);

  /// The text with "[redacted]" for each secret: of its beginning, at most `longest_message` bytes. A line
  /// above `longest_line` is cut behind a word, so that no half of a secret is left. Once the time of this
  /// object is used up, "[redacted: too long]".
  [[nodiscard]] std::string message(std::string_view text);

  /// The same for the last `most_lines` lines of a traceback.
  [[nodiscard]] std::string traceback(std::string_view text);

  /// The same for a text of our own, or of this node's person, of which nothing is to be cut.
  [[nodiscard]] std::string whole(std::string_view text);

  /// The words of a command line. What an option or a key says to be a secret is one here, too: `--token X`,
  /// `--api-key=X`, `protocol=https,password=X`.
  [[nodiscard]] std::vector<std::string> words(std::vector<std::string> command);

 private:
  [[nodiscard]] std::string lines(std::string_view text, std::size_t longest);
  [[nodiscard]] std::optional<std::string> without_secrets(std::string text) const;

  std::vector<std::string> secrets_;  // the longer first
  std::optional<Pattern> pattern_;
  std::chrono::nanoseconds left_;
  Pattern::Clock::time_point end_;
};

/// What was wrong, as a log and a report may tell it.
Faults redacted(Faults faults, Redactor& redactor);

/// Whether a variable of that name holds a secret: AWS_SECRET_ACCESS_KEY, HF_TOKEN, DB_PASS, SENTRY_DSN.
bool is_secret_name(std::string_view name);

}  // namespace rankshim
