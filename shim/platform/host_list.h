#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

/// Hosts and their addresses as texts.
namespace rankshim::platform {

/// The separators between the entries of any list.
inline constexpr std::string_view list_separators = ", \t\r\n";

/// The hosts of a list or host file, in their order, each once. An entry may end with `:PORT` or `:SLOTS` and
/// have brackets around a V6 address. `slots=8` and the like, bare numbers (LSF's `h1 8 h2 8`) and comments
/// from `#` to the end of the line are no hosts and are left out.
std::vector<std::string_view> host_list(std::string_view list);

/// The index of `host` in host_list(list). Whole names are compared first, ignoring case. If none is equal,
/// one name may be the start of the other up to a dot (a name and its full name), if that holds for only one
/// host of the list.
std::optional<std::size_t> position(std::string_view host, std::string_view list);

}  // namespace rankshim::platform
