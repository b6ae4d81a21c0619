#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

/// Who holds a TCP port of this network namespace, as /proc shows it.
namespace rankshim::node {

/// A socket that holds a port: a listener, or else a connection that has it as its local port.
struct PortSocket {
  uid_t user = 0;
  std::uint64_t inode = 0;  ///< of the socket, as /proc/PID/fd names it: "socket:[INODE]"
  bool listens = false;
};

/// The socket with that local port in the text of /proc/net/tcp or tcp6 (proc_pid_net(5)); nullopt if there
/// is none. A connection that no process owns any more (TIME_WAIT) does not hold the port.
std::optional<PortSocket> find_port_socket(std::string_view table, std::uint16_t port);

/// Whoever holds the TCP port, for a sentence: "python3 (pid 17)". If /proc does not show the process,
/// because it is in another container that shares this network, it is "a process of user 1000 in another
/// container". Empty if no socket holds the port, or /proc/net cannot be read.
std::string holder_of_port(std::uint16_t port);

}  // namespace rankshim::node
