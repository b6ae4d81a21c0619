#pragma once

#include <string_view>

namespace rankshim {

/// Whether this text, an exception's one line, is what a worker says when another worker is no longer there:
/// torch's backends tell it by an error of their own connection. What a backend says for its own reasons too
/// (a broken pipe to a data loader) is none.
bool tells_of_lost_peer(std::string_view exception);

}  // namespace rankshim
