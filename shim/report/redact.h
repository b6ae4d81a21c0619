#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "node/environment.h"
#include "pattern/pattern.h"

namespace rankshim {

/// Takes out of a text what must not be told.
class Redactor {
 public:
  /// `pattern` is the user's (--redact), empty for none. Besides, the values of variables whose names speak
  /// of a secret (TOKEN, SECRET, PASSWORD, PASSWD, CREDENTIAL, API_KEY, ACCESS_KEY, PRIVATE_KEY) are taken
  /// out.
  Redactor(const Environment& environment, std::string_view pattern);

  /// The text with "[redacted]" for each of them, line by line.
  [[nodiscard]] std::string apply(std::string_view text) const;

 private:
  std::vector<std::string> secrets_;
  std::optional<Pattern> pattern_;
};

}  // namespace rankshim
