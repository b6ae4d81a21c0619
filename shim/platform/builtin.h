#pragma once

#include <span>

#include "platform/profile.h"

namespace rankshim::platform {

/// The profiles of config/platforms, compiled into the binary; sorted by name.
std::span<const Profile> builtin_profiles();

}  // namespace rankshim::platform
