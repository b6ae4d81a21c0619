#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "base/fault.h"
#include "node/environment.h"

namespace rankshim::report {

/// Removes secrets from texts for logs and reports.
///
/// Secrets are: the values of variables whose names suggest one (`is_secret_name`), also as Python's repr()
/// shows them and, if there are several lines, each line; the password in `scheme://user:password@`; and HTTP
/// credentials: the values of headers such as `Authorization` and `Cookie`, and the token after the name of a
/// scheme (Bearer, Basic, …). There is an overall time limit, because PID 1 does nothing else meanwhile; each
/// text takes time proportional to its length.
class Redactor {
 public:
  static constexpr std::size_t longest_line = 4096;
  static constexpr std::size_t longest_message = std::size_t{64} << 10U;
  static constexpr std::size_t most_lines = 300;  // a call deep in FSDP takes 100
  static constexpr std::chrono::milliseconds most_time{500};

  /// `time` is the overall limit for this object.
  explicit Redactor(const node::Environment& environment, std::chrono::nanoseconds time = most_time);

  /// The text with each secret replaced by "[redacted]", at most its first `longest_message` bytes. A line
  /// longer than `longest_line` is cut at the end of a word, so that no half of a secret is left. Once this
  /// object's time is up, the result is "[redacted: too long]".
  [[nodiscard]] std::string message(std::string_view text) const;

  /// The same for the last `most_lines` lines of a traceback.
  [[nodiscard]] std::string traceback(std::string_view text) const;

  /// The same for a text of rankshim's or of this node's user, without cutting anything.
  [[nodiscard]] std::string whole(std::string_view text) const;

  /// The words of a command line, redacted. That includes the value of an option or key whose name suggests a
  /// secret: `--token X`, `--api-key=X`, `protocol=https,password=X`.
  [[nodiscard]] std::vector<std::string> words(std::vector<std::string> command) const;

 private:
  [[nodiscard]] std::string lines(std::string_view text, std::size_t longest) const;

  using Clock = std::chrono::steady_clock;
  std::vector<std::string> secrets_;  // longer ones first, because one may begin with another
  Clock::time_point end_;
};

/// The faults, redacted for a log or a report.
Faults redacted(Faults faults, const Redactor& redactor);

/// Whether a variable of that name holds a secret: AWS_SECRET_ACCESS_KEY, HF_TOKEN, DB_PASS, SENTRY_DSN.
bool is_secret_name(std::string_view name);

}  // namespace rankshim::report
