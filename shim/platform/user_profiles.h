#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/fault.h"
#include "node/node.h"
#include "platform/reader.h"

namespace rankshim::platform {

/// The folder whose *.toml are users' own profiles.
inline constexpr const char* profile_folder = "/etc/rankshim.d";

/// All profiles there are: users' own first, then the built-in ones that none of them replaces by its name.
class ProfileSet {
 public:
  [[nodiscard]] std::span<const Profile> profiles() const;
  [[nodiscard]] std::size_t own() const { return owned_.size(); }  ///< how many of the first are users'
  /// The TOML document of the profile of that name; empty where there is none.
  [[nodiscard]] std::string document(std::string_view name) const;

 private:
  friend Outcome<ProfileSet> read_profiles(std::string_view file, const Node& node);
  std::vector<OwnedProfile> owned_;
  std::vector<Profile> all_;  // empty where there is none of users' own
};

/// Reads `file`, where it is not empty, and every *.toml of profile_folder by the rules of reader.h; a
/// profile is named by its file without .toml, and of two of one name `file` counts. Every mistake of every
/// file is a fault.
Outcome<ProfileSet> read_profiles(std::string_view file, const Node& node);

/// The faults of one profile's file; empty where it is good.
Faults check_profile(const std::string& path, const Node& node);

}  // namespace rankshim::platform
