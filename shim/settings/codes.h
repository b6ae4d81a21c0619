#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace rankshim::settings {

/// What docs/when-it-fails.md says about the code at an error's end (base/fault.h), from its heading on:
/// "R26", in any case; empty if there is no such code.
std::string_view about_code(std::string_view code);

/// All codes, in the page's order.
std::vector<std::string_view> all_codes();

}  // namespace rankshim::settings
