#pragma once

#include <string>
#include <vector>

#include "node/environment.h"

namespace rankshim::platform {

/// Variables whose names and values look like a job of several nodes, each as NAME=VALUE, in the
/// environment's order: a node's index above 0, a number of nodes above 1, or both with one prefix and the
/// index below the number (ROCKET_INDEX=0 beside ROCKET_SIZE=2, ROCKET_JOB_INDEX=0 beside
/// ROCKET_JOBS_COUNT=2); a place where nodes meet (ROCKET_HEAD_IP, ROCKET_RDZV_ENDPOINT); a list of addresses
/// (ROCKET_NODE_IPS). It is a safety net for platforms without a profile. Variables that count other things,
/// such as the tasks of an array or of a CI system, are left out. The words are in
/// config/unknown-platforms.toml.
std::vector<std::string> signs_of_several_nodes(const Environment& environment);

}  // namespace rankshim::platform
