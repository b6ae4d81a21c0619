#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string_view>
#include <vector>

namespace rankshim::torchrun {

/// Whether a launcher's agent waits for the other nodes, as far as it can be seen from outside: the agent, or
/// a process that it started, listens at the port of the store or is connected to it. Before that it imports
/// torch, which on a cold image takes minutes. False if /proc does not show it.
bool is_in_rendezvous(pid_t agent, std::uint16_t port);

/// The numbers (inodes) of the sockets that listen at `port` or are connected to it, from a table of
/// /proc/PID/net (tcp, tcp6; proc(5)).
std::vector<std::uint64_t> sockets_at(std::string_view table, std::uint16_t port);

}  // namespace rankshim::torchrun
