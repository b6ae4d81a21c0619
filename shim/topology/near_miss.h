#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "node/environment.h"

namespace rankshim {

/// A variable that is set and resembles one that is missing.
struct NearMiss {
  std::string name;  ///< of the variable that is set
  std::string text;  ///< "WORLDSIZE=2 is set, but the name is WORLD_SIZE", "WORLD_SIZE is set, but empty"
  bool is_empty = false;  ///< the name is right and the value is empty: templates leave such variables on a
                          ///< single node too
};

/// The near misses of these variables (RANK, WORLD_SIZE, …), in the environment's order: names with the same
/// letters ignoring underscores and case, a few other spellings, and variables that are set and empty. A
/// variable that is set properly has none.
std::vector<NearMiss> near_misses(const Environment& environment, std::span<const std::string_view> wanted);

/// The near misses that a node which is alone would not have: a number of nodes above 1, a rank above 0, a
/// master's address that is not the node's, and empty variables.
std::vector<NearMiss> near_misses_of_several_nodes(const Environment& environment);

/// Variables whose names and values look like a job of several nodes, each as NAME=VALUE, in the
/// environment's order: a node's index above 0, a number of nodes above 1, or both with one prefix and the
/// index below the number (ROCKET_INDEX=0 beside ROCKET_SIZE=2, ROCKET_JOB_INDEX=0 beside
/// ROCKET_JOBS_COUNT=2); a place where nodes meet (ROCKET_HEAD_IP, ROCKET_RDZV_ENDPOINT); a list of addresses
/// (ROCKET_NODE_IPS). It is a safety net for platforms without a profile. Variables that count other things,
/// such as the tasks of an array or of a CI system, are left out. The words are in
/// config/unknown-platforms.toml.
std::vector<std::string> signs_of_several_nodes(const Environment& environment);

}  // namespace rankshim
