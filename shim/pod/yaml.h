#pragma once

#include <string_view>

#include "pod/flat.h"

namespace rankshim::yaml {

/// Reads the first document of `text`, in the part of YAML 1.2 that kubectl writes: block mappings and lists,
/// plain, quoted and block scalars; no anchors, tags, or flow collections but the empty ones. It is as
/// bounded as flat.h says. Of our own, for this is 8 kB of the binary and the parser of libyaml 0.2.5 alone
/// 49 kB (-Oz, link-time optimisation), for a YAML that no Pod is written in.
flat::Document read(std::string_view text);

}  // namespace rankshim::yaml
