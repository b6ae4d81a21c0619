#pragma once

#include <optional>
#include <string>

#include "launch/launch.h"

namespace rankshim {

/// Adds to the plan what tells torch's communication libraries which network interface to use, once the
/// master's literal `address` is known (nothing: --wait none).
///
/// gloo listens at the address that this node's own name has, and where that is a loopback address, or no
/// address of this node at all, at 127.0.0.1: the other nodes then hang
/// (torch/csrc/distributed/c10d/ProcessGroupGloo.cpp, createDefaultDevice). Where /etc/hosts does not give
/// the name one of our addresses, GLOO_SOCKET_IFNAME becomes the interface that routes to the master.
/// NCCL_SOCKET_IFNAME is set only with --nccl-ifname. What the user has set stays.
void set_network_interface(LaunchPlan& plan, const Topology& topology, const Settings& settings,
                           const Node& node, const std::optional<std::string>& address);

}  // namespace rankshim
