#pragma once

#include <string>
#include <vector>

#include "node/node.h"
#include "settings/settings.h"
#include "topology/topology.h"

namespace rankshim {

/// Why a program might not do what is expected of it on this topology, one sentence each.
std::vector<std::string> program_warnings(const Topology& topology, const Settings& settings,
                                          const std::vector<std::string>& command, const Node& node);

}  // namespace rankshim
