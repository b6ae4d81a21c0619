#pragma once

#include <string>
#include <vector>

#include "base/fault.h"
#include "launch/launch.h"
#include "node/node.h"
#include "settings/settings.h"
#include "topology/topology.h"

namespace rankshim {

/// What this node is to do: everything up to, and not including, the first thing that touches the world.
struct Job {
  Topology topology;
  LaunchPlan plan;
};

/// Settings, platform, topology and plan for `command` (empty: the environment and the waiting only); pure.
/// Faults and warnings are redacted (report/redact.h).
Outcome<Job> resolve_job(const Settings& settings, const std::vector<std::string>& command, const Node& node);

}  // namespace rankshim
