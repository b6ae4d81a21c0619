#pragma once

#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rankshim {

/// A process environment: the entries as they came, in their order. An empty variable counts as not set when
/// it is read (platforms emit empty ones), but is kept in the entries.
class Environment {
 public:
  Environment() = default;
  explicit Environment(std::vector<std::string> entries) : entries_(std::move(entries)) {}

  /// Copies a null-terminated array as in environ(7).
  static Environment from(const char* const* environ);

  /// The variable's value, without blanks and ends of lines around it (who writes a number by `echo` leaves
  /// one); nothing where it is not set or empty.
  [[nodiscard]] std::optional<std::string_view> get(std::string_view name) const;

  /// Whether an entry of that name exists, an empty one too.
  [[nodiscard]] bool has(std::string_view name) const;

  /// Sets or replaces; a name that stands twice is left once.
  void set(std::string_view name, std::string_view value);

  void unset(std::string_view name);

  /// A copy without these, which has room for as many more. Linear, however many they are.
  [[nodiscard]] Environment without(const std::vector<std::string>& names, std::size_t more) const;

  /// All entries as NAME=VALUE, what is malformed too.
  [[nodiscard]] const std::vector<std::string>& entries() const& { return entries_; }
  [[nodiscard]] std::vector<std::string> entries() && { return std::move(entries_); }

 private:
  std::vector<std::string> entries_;
};

/// The name part of an entry; empty where there is no '='.
std::string_view entry_name(std::string_view entry);

/// Whether an entry is NAME=….
[[gnu::always_inline]] inline bool is_named(std::string_view entry, std::string_view name) {
  // Most differ in their first letter already, and this is asked thousands of times in a start.
  return !name.empty() && entry.size() > name.size() && entry.front() == name.front() &&
         entry[name.size()] == '=' && std::memcmp(entry.data(), name.data(), name.size()) == 0;
}

/// Whether a value is what Kubernetes injects as NAME_PORT for a Service (`tcp://10.0.0.1:80`), and so no
/// port of ours. Source: Kubernetes documentation, "Accessing the Service", environment variables.
bool is_service_link(std::string_view value);

/// Whether a variable named RANKSHIM_… was injected by Kubernetes for a Service of that name, and so is not a
/// setting.
bool is_service_link_name(std::string_view name);

}  // namespace rankshim
