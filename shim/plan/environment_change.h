#pragma once

#include <string>
#include <utility>
#include <vector>

#include "node/node.h"
#include "topology/topology.h"

namespace rankshim {

/// What is added to and removed from rankshim's environment for the command.
struct EnvironmentChange {
  Variables set;
  std::vector<std::string> unset;

  /// Sets a variable, whatever was to become of it.
  void replace(std::string name, std::string value);

  /// `environment` with the change.
  [[nodiscard]] Environment apply(const Environment& environment) const;
};

/// The variables for the topology, in order: NNODES, NODE_RANK, NPROC_PER_NODE, MASTER_ADDR, MASTER_PORT,
/// and, where they apply, PORT, RANK and WORLD_SIZE, MIN_NNODES, MAX_NNODES and RDZV_ID. The platform's PET_*
/// are made to agree; `with_pet` adds those that it did not set.
EnvironmentChange environment_change(const Topology& topology, const Node& node, bool with_pet = false);

}  // namespace rankshim
