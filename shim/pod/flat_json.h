#pragma once

#include <string_view>

#include "pod/flat.h"

namespace rankshim::json {

/// Reads a JSON document; numbers keep their spelling. The limits of flat.h apply.
flat::Document read_flat(std::string_view text);

}  // namespace rankshim::json
