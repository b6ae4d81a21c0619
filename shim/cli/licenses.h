#pragma once

#include <string>

namespace rankshim {

/// The notices of everything that is linked into this binary, as `--licenses` prints them. Made at build time
/// from licenses/.
std::string licenses();

}  // namespace rankshim
