#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rankshim::node {

/// Names of variables and their values.
using Variables = std::vector<std::pair<std::string, std::string>>;

/// A process environment: its entries, unchanged and in order. Reading treats an empty variable as not set
/// (platforms set empty ones), but it stays in the entries.
class Environment {
 public:
  Environment() = default;
  explicit Environment(std::vector<std::string> entries) : entries_(std::move(entries)) {}

  /// Copies a null-terminated array like environ(7).
  static Environment from(const char* const* environ);

  /// The variable's value, without surrounding blanks and line ends (a number written by `echo` has one).
  /// Returns nullopt if it is not set or empty.
  [[nodiscard]] std::optional<std::string_view> get(std::string_view name) const;

  /// Whether there is an entry of that name, even if its value is empty.
  [[nodiscard]] bool has(std::string_view name) const;

  /// Sets or replaces a variable; a name that occurs twice is reduced to one entry.
  void set(std::string_view name, std::string_view value);

  /// All entries as NAME=VALUE, malformed ones too.
  [[nodiscard]] const std::vector<std::string>& entries() const& { return entries_; }
  [[nodiscard]] std::vector<std::string> entries() && { return std::move(entries_); }

 private:
  std::vector<std::string> entries_;
};

/// The name part of an entry; empty if there is no '='.
std::string_view entry_name(std::string_view entry);

/// Whether an entry is NAME=….
inline bool is_named(std::string_view entry, std::string_view name) {
  return !name.empty() && entry.size() > name.size() && entry[name.size()] == '=' && entry.starts_with(name);
}

/// Whether a value is what Kubernetes sets as NAME_PORT for a Service (`tcp://10.0.0.1:80`), and therefore
/// not a port for rankshim. Source: Kubernetes documentation, "Accessing the Service", environment variables.
bool is_service_link(std::string_view value);

/// Whether a variable RANKSHIM_… is one that Kubernetes sets for a Service called rankshim…, and therefore
/// not a setting.
bool is_service_link_name(std::string_view name);

/// Where a program is searched for if PATH is not set: musl's default, a superset of glibc's.
inline constexpr std::string_view default_path = "/usr/local/bin:/bin:/usr/bin";

/// The files that execvp(3) tries for a program, in order: the name in each folder of `path`, where an empty
/// folder means the working directory. A name with a slash is its own only candidate.
std::vector<std::string> executable_candidates(std::string_view program, std::string_view path);

}  // namespace rankshim::node
