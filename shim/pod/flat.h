#pragma once

#include <cstddef>
#include <string>
#include <variant>
#include <vector>

/// A document of YAML or JSON, flat: its scalars in their order.
namespace rankshim::flat {

/// One scalar: its keys and list positions joined by dots ("spec.containers.0.name"). What is null, and empty
/// lists and mappings, have none.
struct Entry {
  std::string path;
  std::string text;
};

/// Why a document cannot be read, and in which line.
struct Mistake {
  unsigned line = 0;
  std::string what;
};

using Document = std::variant<std::vector<Entry>, Mistake>;

/// What a document may hold at most.
inline constexpr std::size_t most_entries = 20'000;
inline constexpr std::size_t most_path_bytes = 16U << 20U;
inline constexpr unsigned deepest = 32;

}  // namespace rankshim::flat
