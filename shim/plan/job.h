#pragma once

#include "plan/launch.h"
#include "topology/topology.h"

namespace rankshim {

/// What this node has to do: the result of all steps before the first one that has effects outside this
/// process. What is executed for it (LaunchPlan) is made just before the start.
struct Job {
  Topology topology;
  LaunchChoice choice;
};

}  // namespace rankshim
