#pragma once

#include <string_view>

#include "base/fault.h"

namespace rankshim::cli {

/// Writes all of `text` to stdout; what cannot be written is lost (nobody is left to read it).
void print(std::string_view text);
/// The same to stderr.
void print_error(std::string_view text);

/// One line per fault on stderr; what a program reads of it (`json`) on stdout.
void report(const Faults& faults, bool json);

}  // namespace rankshim::cli
