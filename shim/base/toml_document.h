#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/fault.h"
#include "base/toml.h"

namespace rankshim {

/// Reads a user's TOML document and collects what is wrong with it. Every fault begins with "PATH:LINE: " and
/// names the path.
class TomlDocument {
 public:
  /// A longer document is refused: none needs it, and it bounds the nesting.
  static constexpr std::size_t longest = std::size_t{64} * 1024;

  TomlDocument(std::string_view path, Faults& faults) : path_(path), faults_(faults) {}

  /// The document's tables; nothing, and a fault, if it is no TOML, too long or too deep.
  std::optional<toml::table> parse(std::string_view document);

  void fault(const toml::node& where, const std::string& what, const std::string& fix) {
    fault(where.source(), what, fix);
  }
  void fault(const toml::source_region& where, const std::string& what, const std::string& fix) {
    fault(where.begin.line, what, fix);
  }
  void fault(std::size_t line, const std::string& what, const std::string& fix);

  /// The value of a key as that type; nothing, and a fault, if it has another type.
  template <class Type>
  const Type* get(const toml::table& table, std::string_view key, std::string_view wanted) {
    const toml::node* node = table.get(key);
    if (node == nullptr) return nullptr;
    const Type* value = node->template as<Type>();
    if (value == nullptr)
      fault(*node, "'" + std::string(key) + "' is not " + std::string(wanted),
            "write " + std::string(wanted));
    return value;
  }

  /// A fault for each key that is not one of `known`.
  void reject_unknown(const toml::table& table, std::span<const std::string_view> known);

 private:
  std::string_view path_;
  Faults& faults_;
};

}  // namespace rankshim
