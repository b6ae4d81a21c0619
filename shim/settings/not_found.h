#pragma once

#include <string>
#include <string_view>

namespace rankshim::settings {

/// The end of the sentence "PROGRAM was not found": " in PATH", or ": it is a symbolic link to /opt/python3,
/// which is not there"; empty for any other path. Looks at this process's PATH and files.
std::string where_not_found(std::string_view program);

/// "PROGRAM was not found in PATH", and advice on what was probably meant: a file in the working directory, a
/// whole command line in one word, torchrun, or a subcommand after an option.
std::string not_found(std::string_view program);

/// Advice on a word that contains blanks, because it is a whole command line; empty for any other word.
std::string_view advice_on_blanks(std::string_view word);

}  // namespace rankshim::settings
