#pragma once

#include <string>

namespace rankshim {

/// Copies the running binary to FOLDER/rankshim, mode 0755, by a temporary file and a rename, so that no
/// process ever sees an incomplete one. Returns what went wrong; empty if nothing did.
std::string install(const std::string& folder);

}  // namespace rankshim
