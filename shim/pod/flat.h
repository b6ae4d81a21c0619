#pragma once

#include <cstddef>
#include <string>
#include <variant>
#include <vector>

/// A flat document of YAML or JSON: its scalars in their order.
namespace rankshim::flat {

/// One scalar, with its keys and list positions joined by dots ("spec.containers.0.name"). Null, empty lists
/// and empty mappings have no entry.
struct Entry {
  std::string path;
  std::string text;
};

/// Why a document cannot be read, and on which line.
struct Mistake {
  unsigned line = 0;
  std::string what;
};

using Document = std::variant<std::vector<Entry>, Mistake>;

/// The most entries that a document may have.
inline constexpr std::size_t most_entries = 20'000;
inline constexpr std::size_t most_path_bytes = 16U << 20U;
inline constexpr unsigned deepest = 32;

}  // namespace rankshim::flat
