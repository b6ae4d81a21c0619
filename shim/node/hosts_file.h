#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace rankshim {

/// What stands as address in the lines of a hosts(5) file that have the name, letter case aside, in the
/// file's order; it need not be one. Views into `file`.
std::vector<std::string_view> addresses_in_hosts(std::string_view file, std::string_view name);

/// The domain of the first name in a hosts(5) file that is `host` with one behind it; empty where there is
/// none.
std::string domain_in_hosts(std::string_view file, std::string_view host);

}  // namespace rankshim
