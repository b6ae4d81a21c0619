#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace rankshim::settings {

/// The section of docs/when-it-fails.md about an error code (base/fault.h) such as "R26", in upper or lower
/// case; empty if there is no such code.
std::string_view about_code(std::string_view code);

/// All codes, in the order of that page.
std::vector<std::string_view> all_codes();

}  // namespace rankshim::settings
