#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
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

/// The limits of a document: the nodes that are visited (scalars, lists and mappings, and all of them again
/// for each alias), the bytes of their paths, and how deep they are.
inline constexpr std::size_t most_nodes = 20'000;
inline constexpr std::size_t most_path_bytes = 16U << 20U;
inline constexpr unsigned deepest = 32;

/// Puts a flat document together within the limits.
class Builder {
 public:
  /// Begins a node. False if a limit is passed or there was a mistake before: then it is not to be visited.
  bool visit(const std::string& path, unsigned depth, unsigned line) {
    if (mistake_.line != 0) return false;
    path_bytes_ += path.size();
    if (depth > deepest) return fail(line, "the document is too deep");
    if (++nodes_ > most_nodes || path_bytes_ > most_path_bytes)
      return fail(line, "the document is too large");
    return true;
  }

  void add(std::string path, std::string text) { entries_.push_back({std::move(path), std::move(text)}); }

  /// Those that were added so far.
  [[nodiscard]] const std::vector<Entry>& entries() const { return entries_; }

  /// Records the first mistake. `line` counts from 1. Returns false.
  bool fail(unsigned line, std::string what) {
    if (mistake_.line == 0) mistake_ = {line, std::move(what)};
    return false;
  }

  /// The document, or its first mistake. The builder is empty afterwards.
  Document take() {
    if (mistake_.line != 0) return std::move(mistake_);
    return std::move(entries_);
  }

 private:
  std::vector<Entry> entries_;
  std::size_t nodes_ = 0;
  std::size_t path_bytes_ = 0;
  Mistake mistake_;
};

/// The path of a member: its key or its position below `path`.
inline std::string below(const std::string& path, std::string_view key) {
  std::string child = path;
  if (!child.empty()) child += '.';
  return child.append(key);
}

}  // namespace rankshim::flat
