#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace rankshim {

/// The address fields of the lines in a hosts(5) file that have the name (ignoring case), in the file's
/// order. They need not be valid addresses. The results are views into `file`.
std::vector<std::string_view> addresses_in_hosts(std::string_view file, std::string_view name);

/// The domain of the first name in a hosts(5) file that is `host` followed by a domain; empty if there is
/// none.
std::string domain_in_hosts(std::string_view file, std::string_view host);

}  // namespace rankshim
