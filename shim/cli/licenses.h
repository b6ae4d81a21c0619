#pragma once

#include <string_view>

namespace rankshim {

/// The notices of everything that is linked into this binary, as `--licenses` prints them. Made at build time
/// from licenses/.
std::string_view licenses();

}  // namespace rankshim
