#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "link/roster.h"

namespace rankshim::link {

/// The text, in which the nodes' addresses have become their names: gloo, NCCL and torch's store know only
/// addresses, "Connection closed by peer [10.0.0.9]:4711", and this says "peer node 7 (host e, 10.0.0.9)". An
/// address that several nodes have stays as it is. Pure.
std::string with_node_names(std::string_view text, const std::vector<Node>& nodes);

}  // namespace rankshim::link
