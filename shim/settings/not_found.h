#pragma once

#include <string>
#include <string_view>

namespace rankshim::settings {

/// Where a program was looked for in vain, for the end of "PROGRAM was not found": " in PATH", or ": it is a
/// symbolic link to /opt/python3, which is not there"; empty for another path. It looks at this process's
/// PATH and files.
std::string where_not_found(std::string_view program);

/// "PROGRAM was not found in PATH", and what to do about what is often meant: a file in the working
/// directory, a whole command line in one word, torchrun, or a subcommand after an option.
std::string not_found(std::string_view program);

/// What to do about a word that has blanks, because it is a whole command line; empty for any other.
std::string_view advice_on_blanks(std::string_view word);

}  // namespace rankshim::settings
