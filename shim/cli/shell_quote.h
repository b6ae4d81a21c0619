#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace rankshim {

/// The word with the quotes that a POSIX shell needs to read it back; plain words are unchanged.
std::string shell_quote(std::string_view word);

/// The same for a whole command line.
std::string shell_quote(const std::vector<std::string>& words);

}  // namespace rankshim
