#include "platform/builtin.h"

#include <cstdint>
#include <string_view>

namespace rankshim::platform {
namespace {

using namespace std::string_view_literals;

#include "builtin_profiles.inc"

}  // namespace

std::span<const Profile> builtin_profiles() { return all_profiles; }

}  // namespace rankshim::platform
