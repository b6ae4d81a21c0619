#pragma once

#include <string_view>

#include "pod/flat.h"

namespace rankshim::json {

/// Reads a JSON document; numbers stay as they are written. It is as bounded as flat.h says.
flat::Document read_flat(std::string_view text);

}  // namespace rankshim::json
