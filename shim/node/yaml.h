#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace rankshim::yaml {

/// One scalar of a document: its keys and list positions joined by dots ("spec.containers.0.name"). What is
/// null, and empty lists and mappings, have none.
struct Entry {
  std::string path;
  std::string text;
};

/// Why a document cannot be read, and in which line.
struct Mistake {
  unsigned line = 0;
  std::string what;
};

/// Reads the first document of `text`, in the part of YAML 1.2 that kubectl writes: block mappings and lists,
/// plain, quoted and block scalars; no anchors, tags, or flow collections but the empty ones. Bounded: at
/// most 20,000 scalars, a depth of 32, and 16 MiB of paths.
std::variant<std::vector<Entry>, Mistake> read(std::string_view text);

}  // namespace rankshim::yaml
