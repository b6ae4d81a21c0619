#pragma once

#include <string_view>

#include "pod/flat.h"

namespace rankshim::yaml {

/// Reads the first document of `text`, in the part of YAML 1.2 that kubectl writes: block mappings and lists,
/// and plain, quoted and block scalars, but no anchors or tags, and no flow collections except the empty
/// ones. The limits of flat.h apply. It is no library, because this is 8 kB of the binary, and the parser of
/// libyaml 0.2.5 alone would be 49 kB (-Oz, link-time optimisation), for a YAML in which no Pod is written.
flat::Document read(std::string_view text);

}  // namespace rankshim::yaml
