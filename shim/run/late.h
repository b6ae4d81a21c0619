#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// What a command that was started early is told when it may go (supervise/prepared.h). Both functions are
/// pure.
namespace rankshim::run {

using Names = std::span<const std::string>;

/// The entries of `now` that `before` lacks; nullopt if a variable outside `may_come` and `may_change` is
/// new, or one outside `may_change` has a new value or is gone.
std::optional<std::vector<std::string>> changed_variables(const std::vector<std::string>& before,
                                                          const std::vector<std::string>& now, Names may_come,
                                                          Names may_change);

/// The words --NAME=VALUE of the command line `now` that have another value in `before`; nullopt if the two
/// differ in anything but the values of `may_change`. The process replaces the first word of that name
/// (python/gate.py), so it is also nullopt if a later one differs, which may be the script's.
std::optional<std::vector<std::string>> changed_flags(const std::vector<std::string>& before,
                                                      const std::vector<std::string>& now, Names may_change);

}  // namespace rankshim::run
