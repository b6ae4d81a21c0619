#pragma once

#include "launch/launch.h"
#include "topology/topology.h"

namespace rankshim {

/// What this node is to do: everything up to, and not including, the first thing that touches the world.
struct Job {
  Topology topology;
  LaunchPlan plan;
};

}  // namespace rankshim
