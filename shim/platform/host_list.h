#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

/// Hosts and their addresses as texts.
namespace rankshim::platform {

/// What separates the entries of any list.
inline constexpr std::string_view list_separators = ", \t\r\n";

/// HOST and PORT of HOST, HOST:PORT, [V6] or [V6]:PORT; the port is empty where there is none, both where the
/// text is none of them.
std::pair<std::string_view, std::string_view> split_address(std::string_view address);

/// The hosts of a list or host file, in their order, each once. An entry may have `:PORT` or `:SLOTS` behind
/// it and brackets around a V6 address. `slots=8` and the like, bare numbers (LSF's `h1 8 h2 8`) and all from
/// `#` to the end of a line belong to no name and are left out.
std::vector<std::string_view> host_list(std::string_view list);

/// The index of `host` in host_list(list): by the whole name, case aside, or, where none is the same, if one
/// of the two is the beginning of the other before a dot (a name and its full name) and only one host of the
/// list fits so.
std::optional<std::size_t> position(std::string_view host, std::string_view list);

}  // namespace rankshim::platform
