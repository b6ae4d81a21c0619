/// A secret and the text that holds it, separated by NUL.

#include "report/redact.h"

#include "target.h"

FUZZ_TARGET(redaction) {
  using namespace rankshim;
  const auto parts = fuzz::split(fuzz::text_of(data, size), '\0', 2);
  if (parts.size() < 2) return 0;
  const std::string& secret = parts[0];
  report::Redactor redactor(node::Environment({"A_TOKEN=" + secret}), std::chrono::milliseconds(50));
  const std::string text = redactor.message(parts[1]);
  fuzz::check(text.size() <= 16 * (report::Redactor::longest_message + 1));
  (void)redactor.traceback(parts[1]);
  (void)redactor.words({parts[1], "--token", secret, "--token=" + secret});
  // It may stand within the mark itself, or across its ends.
  const std::string_view mark = "[redacted: too long] [redacted] [cut]";
  const bool shortest = secret.size() >= 6 && secret.find_first_of("\r\n[]") == std::string::npos;
  if (shortest && mark.find(secret) == std::string_view::npos)
    fuzz::check(text.find(secret) == std::string::npos);
  return 0;
}
