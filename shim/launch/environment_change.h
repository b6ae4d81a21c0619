#pragma once

#include <string>
#include <utility>
#include <vector>

#include "node/node.h"
#include "topology/topology.h"

namespace rankshim {

/// Names and values.
using Variables = std::vector<std::pair<std::string, std::string>>;

/// What is added to and taken from our own environment for the command.
struct EnvironmentChange {
  Variables set;
  std::vector<std::string> unset;

  /// `environment` with the change.
  [[nodiscard]] Environment apply(const Environment& environment) const;
};

/// The variables that say the topology, in order: NNODES, NODE_RANK, NPROC_PER_NODE, MASTER_ADDR,
/// MASTER_PORT, and where they are to be set PORT, RANK and WORLD_SIZE, MIN_NNODES, MAX_NNODES and RDZV_ID.
/// The platform's PET_* are kept in step; `with_pet`: those that it did not set are added.
EnvironmentChange environment_change(const Topology& topology, const Node& node, bool with_pet = false);

}  // namespace rankshim
