#pragma once

#include <string_view>

#include "base/fault.h"

namespace rankshim::cli {

/// Writes all of `text` to stdout; what cannot be written is lost, because then there is no reader.
void print(std::string_view text);
/// The same to stderr.
void print_error(std::string_view text);

/// Writes one line per fault to stderr, and, if `json` is set, JSON for programs to stdout.
void report(const Faults& faults, bool json);

}  // namespace rankshim::cli
