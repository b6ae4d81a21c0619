#pragma once

#include <span>
#include <string_view>

namespace rankshim {

/// The known name that begins with `wrong`, or else the one with the least edit distance to it, ignoring case
/// and the spelling of dashes. Empty if none is near enough to be a typing mistake.
std::string_view nearest(std::string_view wrong, std::span<const std::string_view> known);

}  // namespace rankshim
