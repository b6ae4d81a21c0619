#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace rankshim {

/// The line on which a TOML document has its 257th dot outside strings and comments; nothing where it has
/// fewer. toml++ 3.3 nests dotted keys without bound, by recursion when it parses and when it frees, so a
/// document is asked this before it is parsed. None of ours needs as many.
std::optional<std::size_t> line_of_too_many_dots(std::string_view document);

}  // namespace rankshim
