#pragma once

#include <sys/types.h>

#include <string_view>

namespace rankshim::log {

/// Writes a line, at most PIPE_BUF bytes of it, to a descriptor if that can be done at once, even if other
/// processes write there. It does not change the descriptor's flags, because O_NONBLOCK belongs to the open
/// file description, which the command shares. Returns whether the line was written. Only a write to a
/// regular file may wait.
bool write_without_waiting(int descriptor, std::string_view line);

/// The same for a text of any length. Returns how many bytes were written, or −1 with errno: EAGAIN if
/// nothing can be written now.
ssize_t write_what_fits(int descriptor, std::string_view text);

}  // namespace rankshim::log
