#pragma once

#include <string_view>

namespace rankshim {

/// A file that the build puts into the binary as it is (embed() in CMakeLists.txt). A source includes its
/// .inc as the entries of an array of these.
struct EmbeddedFile {
  std::string_view name;  ///< without folder and ending
  std::string_view text;
};

}  // namespace rankshim
