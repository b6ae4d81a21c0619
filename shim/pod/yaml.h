#pragma once

#include <string_view>

#include "pod/flat.h"

namespace rankshim::yaml {

/// Reads the first document of `text`, by libyaml. Scalars keep their spelling, and plain nulls have no entry
/// (YAML 1.2, core schema). An alias is read as what it names; tags and merge keys have no meaning. The
/// limits of flat.h apply.
flat::Document read(std::string_view text);

}  // namespace rankshim::yaml
