#pragma once

#include <string_view>

namespace rankshim {

/// Whether this text, an exception's one line, is the error of a worker whose peer has gone: torch's backends
/// then report an error of their connection. An error that has other causes too (a broken pipe to a data
/// loader) does not count.
bool is_error_of_lost_peer(std::string_view exception);

}  // namespace rankshim
