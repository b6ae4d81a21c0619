#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fault.h"
#include "node/node.h"
#include "platform/profile.h"

namespace rankshim::platform {

/// What the platform says about this node.
struct Platform {
  std::string name =
      "single-node";  ///< the profile's, "single-node" where none was recognised, "none" where not asked
  Granularity granularity = Granularity::node;
  Facts facts;  ///< as the profile's places gave them, units and words not yet interpreted
  std::vector<std::string> also_matched;  ///< other profiles that were recognised, the most specific first
  std::string idle_role;                  ///< this container's role, where it is one that does not train
  std::vector<std::string> warnings;      ///< service links ignored, and the like
};

/// Finds the platform. `wanted` is "auto", "none" or a profile's name. Of several profiles that are
/// recognised, the lowest `fallback` wins, then the one whose fulfilled alternative has the most positive
/// conditions (that something is there; what must not be there makes nothing more specific), then the name
/// that sorts first. An unknown name is a fault that lists the nearest.
Outcome<Platform> recognise(std::span<const Profile> profiles, std::string_view wanted, const Node& node);

/// What the profile's places yield on this node, whether it is recognised or not. Warnings are appended, each
/// once.
///
/// A fact's source is "env NAME" for a bare variable, "file PATH" for file(PATH), "hostname" for hostname(),
/// "default" for text alone, else "derived from" the variables and files that were used. Values that are
/// Kubernetes service links count as not set, with a warning.
Facts read_facts(const Profile& profile, const Node& node, std::vector<std::string>& warnings);

/// The profile of that name; nullptr where there is none.
const Profile* find(std::span<const Profile> profiles, std::string_view name);

}  // namespace rankshim::platform
