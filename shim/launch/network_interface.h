#pragma once

#include <optional>
#include <string>

#include "launch/launch.h"

namespace rankshim {

/// Adds to the plan the variables by which torch's communication libraries choose the network interface, once
/// the master's literal `address` is known (nothing: --wait none).
///
/// gloo listens at the address of this node's name. If that is a loopback address, or no address of this
/// node, gloo listens at 127.0.0.1, and the other nodes hang
/// (torch/csrc/distributed/c10d/ProcessGroupGloo.cpp, createDefaultDevice). If /etc/hosts does not give the
/// name an address of this node, GLOO_SOCKET_IFNAME becomes the interface with the route to the master.
/// NCCL_SOCKET_IFNAME is set only with --nccl-ifname. A variable that the user has set is unchanged.
void set_network_interface(LaunchPlan& plan, const Topology& topology, const Settings& settings,
                           const Node& node, const std::optional<std::string>& address);

}  // namespace rankshim
