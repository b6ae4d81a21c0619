#pragma once

#include <optional>
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

  /// Removes a variable, whatever was to become of it.
  void remove(const std::string& name, const Environment& environment);

  /// `environment` with the change.
  [[nodiscard]] Environment apply(const Environment& environment) const;
};

/// The variables for the topology, in order: NNODES, NODE_RANK, NPROC_PER_NODE, MASTER_ADDR, MASTER_PORT,
/// and, where they apply, PORT, RANK and WORLD_SIZE, MIN_NNODES, MAX_NNODES and RDZV_ID. The platform's PET_*
/// are made to agree; `with_pet` adds those that it did not set.
EnvironmentChange environment_change(const Topology& topology, const Node& node, bool with_pet = false);

/// The variables by which torch's communication libraries choose the network interface, as far as they have
/// to be set. `address` is the master's literal address (nothing: --wait none).
///
/// gloo listens at the address of this node's name. If that is a loopback address, or no address of this
/// node, gloo listens at 127.0.0.1, and the other nodes hang
/// (torch/csrc/distributed/c10d/ProcessGroupGloo.cpp, createDefaultDevice). If /etc/hosts does not give the
/// name an address of this node, GLOO_SOCKET_IFNAME becomes the interface with the route to the master.
/// A variable that the user has set is unchanged.
Variables network_interface(const Topology& topology, const Node& node,
                            const std::optional<std::string>& address);

}  // namespace rankshim
