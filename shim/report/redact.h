#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "base/fault.h"
#include "node/environment.h"

namespace rankshim::report {

/// Removes from a text what a reader of a log or a report must not see.
///
/// Secrets are: the values of variables whose names suggest one (`is_secret_name`), also in the form of
/// Python's repr() and, if there are several lines, each line; the password in `scheme://user:password@`; and
/// the credentials of HTTP: what headers such as `Authorization` and `Cookie` carry, and the token behind the
/// name of a scheme (Bearer, Basic, …). There is a time limit for all of it, because PID 1 does nothing else
/// meanwhile; each text takes time in the order of its length.
class Redactor {
 public:
  static constexpr std::size_t longest_line = 4096;
  static constexpr std::size_t longest_message = std::size_t{64} << 10U;
  static constexpr std::size_t most_lines = 50;
  static constexpr std::chrono::milliseconds most_time{500};

  /// `time` is how long this object redacts.
  explicit Redactor(const node::Environment& environment, std::chrono::nanoseconds time = most_time);

  /// The text with "[redacted]" for each secret, at most `longest_message` bytes of its beginning. A line
  /// above `longest_line` is cut after a word, so that no half of a secret is left. Once the time of this
  /// object is over, the result is "[redacted: too long]".
  [[nodiscard]] std::string message(std::string_view text) const;

  /// The same for the last `most_lines` lines of a traceback.
  [[nodiscard]] std::string traceback(std::string_view text) const;

  /// The same for a text of rankshim or of this node's user, without cutting anything.
  [[nodiscard]] std::string whole(std::string_view text) const;

  /// The words of a command line. The value of an option or key whose name suggests a secret is redacted too:
  /// `--token X`, `--api-key=X`, `protocol=https,password=X`.
  [[nodiscard]] std::vector<std::string> words(std::vector<std::string> command) const;

 private:
  [[nodiscard]] std::string lines(std::string_view text, std::size_t longest) const;

  using Clock = std::chrono::steady_clock;
  std::vector<std::string> secrets_;  // the longer first: one may begin with another
  Clock::time_point end_;
};

/// The faults in the form for a log or a report.
Faults redacted(Faults faults, const Redactor& redactor);

/// Whether a variable of that name holds a secret: AWS_SECRET_ACCESS_KEY, HF_TOKEN, DB_PASS, SENTRY_DSN.
bool is_secret_name(std::string_view name);

}  // namespace rankshim::report
