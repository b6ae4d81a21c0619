#pragma once

#include <string_view>

namespace rankshim {

/// Whether the whole text matches the glob: `*` is any run of characters, `?` any one, each other character
/// itself. It takes time in the order of the two lengths' product at most. fnmatch(3) is not used, because in
/// it brackets have a meaning, and because it takes C strings: the hundreds of comparisons at the start would
/// copy both texts each time.
bool fits(std::string_view text, std::string_view glob);

}  // namespace rankshim
