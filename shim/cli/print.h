#pragma once

#include <string>
#include <string_view>

#include "base/fault.h"

namespace rankshim::cli {

/// Writes all of `text` to stdout. Returns the exit code: 71, with a line on stderr, if that fails, because
/// half an answer must not look like a whole one.
[[nodiscard]] int print(std::string_view text);
/// Writes to stderr what can be written.
void print_error(std::string_view text);

/// Writes one line per fault to stderr, and, if `json` is set, JSON for programs to stdout.
void report(const Faults& faults, bool json);

/// The notices of everything that is linked into this binary, as `--licenses` prints them. Made at build time
/// from licenses/.
std::string licenses();

}  // namespace rankshim::cli
