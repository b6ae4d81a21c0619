#pragma once

#include <optional>
#include <string>

#include "node/node.h"
#include "plan/environment_change.h"
#include "topology/topology.h"

namespace rankshim {

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
