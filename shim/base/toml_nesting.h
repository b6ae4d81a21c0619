#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace rankshim {

/// The line on which a TOML document has its 257th dot outside strings and comments; nothing if it has fewer.
/// toml++ 3.3 nests dotted keys without a limit, and recurses when it parses and when it frees them, so this
/// check comes before parsing. None of rankshim's documents needs as many dots.
std::optional<std::size_t> line_of_too_many_dots(std::string_view document);

}  // namespace rankshim
