#pragma once

#include <string_view>

namespace rankshim::log {

/// Writes a line, at most PIPE_BUF bytes of it, to a descriptor if that can be done at once, whoever else
/// writes there, and without a change of its flags, which belong to the command too (O_NONBLOCK is an open
/// file description's). Returns whether it was taken. Only a regular file is waited for, as everybody does.
bool write_without_waiting(int descriptor, std::string_view line);

}  // namespace rankshim::log
