#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string_view>
#include <vector>

namespace rankshim::torchrun {

/// Whether a launcher's agent waits for the other nodes, as far as can be seen from outside: it, or a process
/// that it started, listens at the port of the store or has a connection to it. Before, it imports torch,
/// which on a cold image takes minutes. False where /proc does not tell.
bool is_in_rendezvous(pid_t agent, std::uint16_t port);

/// The numbers (inodes) of the sockets in a table of /proc/PID/net (tcp, tcp6; proc(5)) that listen at `port`
/// or are connected to it.
std::vector<std::uint64_t> sockets_at(std::string_view table, std::uint16_t port);

}  // namespace rankshim::torchrun
