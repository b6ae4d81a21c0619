#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace rankshim {

/// The word as a POSIX shell reads it back unchanged; plain words stay as they are.
std::string shell_quote(std::string_view word);

/// A whole command line.
std::string shell_quote(const std::vector<std::string>& words);

}  // namespace rankshim
