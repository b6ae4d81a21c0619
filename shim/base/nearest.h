#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace rankshim {

/// The known name that begins with `wrong`, or else the one with the least edit distance to it, ignoring case
/// and the spelling of dashes. Two neighbouring characters in the wrong order are one step; a name whose
/// first words are one step away counts too. Empty if none is near enough to be a typing mistake: by default
/// one step more than a third of the characters.
std::string_view nearest(std::string_view wrong, std::span<const std::string_view> known,
                         std::optional<std::size_t> most_steps = std::nullopt);

/// What follows "there is no NAME" in a message: ", the nearest is NEAR", or nothing if `near` is empty.
inline std::string and_nearest(std::string_view near) {
  return near.empty() ? std::string() : ", the nearest is " + std::string(near);
}

}  // namespace rankshim
