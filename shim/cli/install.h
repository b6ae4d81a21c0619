#pragma once

#include <string>

namespace rankshim {

/// Copies the running binary to FOLDER/rankshim, mode 0755, by a temporary file and a rename, so that nobody
/// ever sees half of it. Returns what went wrong, empty if nothing.
std::string install(const std::string& folder);

}  // namespace rankshim
