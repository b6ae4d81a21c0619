#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/fault.h"
#include "node/node.h"
#include "platform/reader.h"

namespace rankshim::platform {

/// The folder of users' profiles, *.toml.
inline constexpr const char* profile_folder = "/etc/rankshim.d";

/// All profiles: the users' first, then the built-in ones that no user's profile of the same name replaces.
class ProfileSet {
 public:
  [[nodiscard]] std::span<const Profile> profiles() const;
  [[nodiscard]] std::size_t own() const { return owned_.size(); }  ///< how many of the first are users'
  /// The TOML document of the profile of that name; empty if there is none.
  [[nodiscard]] std::string document(std::string_view name) const;

 private:
  friend Outcome<ProfileSet> read_profiles(std::string_view file, const Node& node);
  std::vector<OwnedProfile> owned_;
  std::vector<Profile> all_;  // empty if there are no users' profiles
};

/// Reads `file`, if it is not empty, and every *.toml of profile_folder by the rules of reader.h. A profile's
/// name is its file's name without .toml; of two with the same name, `file` is used. Every mistake in every
/// file is a fault.
Outcome<ProfileSet> read_profiles(std::string_view file, const Node& node);

/// The faults of one profile's file; empty if it is valid.
Faults check_profile(const std::string& path, const Node& node);

}  // namespace rankshim::platform
