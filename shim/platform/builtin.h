#pragma once

#include <span>
#include <string_view>

#include "platform/profile.h"

namespace rankshim::platform {

/// The profiles of config/platforms, compiled into the binary; sorted by name.
std::span<const Profile> builtin_profiles();

/// The whole TOML document of a built-in profile; empty if there is none of that name.
std::string_view builtin_document(std::string_view name);

}  // namespace rankshim::platform
