#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/fault.h"
#include "node/node.h"
#include "platform/profile.h"

namespace rankshim::platform {

/// The profiles of config/platforms, compiled into the binary; sorted by name.
std::span<const Profile> builtin_profiles();

/// The folder of users' profiles, *.toml.
inline constexpr const char* profile_folder = "/etc/rankshim.d";

/// The end of the name of a file that describes a launcher (launchers/by_name/named_launcher.h), and no
/// platform.
inline constexpr std::string_view launcher_extension = ".launcher.toml";

struct ProfileSet {
  /// All: the users' first, then the built-in ones that no user's profile of the same name replaces.
  std::span<const Profile> profiles = builtin_profiles();
  std::size_t own = 0;  ///< how many of the first are users'
  Store store;
};

/// Reads `file`, if it is not empty, and every *.toml of profile_folder by the rules of profile.h, except
/// launchers' files. A profile's name is its file's name without .toml; of two with the same name, `file` is
/// used. Every mistake in every file is a fault.
Outcome<ProfileSet> read_profiles(std::string_view file, const Node& node);

/// The paths of the users' files, `file` first if it is not empty: launchers' files, or all others.
std::vector<std::string> users_files(std::string_view file, bool of_launchers, const Node& node);

/// The fault of a file that cannot be read.
Fault unreadable_profile(const std::string& path);

/// The faults of one profile's file; empty if it is valid. An entry of `supersedes` that fits no other
/// profile, built-in, in profile_folder or beside the file, is one too, although a run would accept it.
Faults check_profile(const std::string& path, const Node& node);

}  // namespace rankshim::platform
