#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace rankshim::json {

/// A JSON string with its quotes. What is no UTF-8 is taken as Latin-1, byte by byte, so that the document is
/// always valid.
std::string quote(std::string_view text);

/// A JSON list of strings.
std::string list(const std::vector<std::string>& texts);

}  // namespace rankshim::json
