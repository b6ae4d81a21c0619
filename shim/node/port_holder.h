#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

/// Finds which process holds a TCP port in this network namespace, from /proc.
namespace rankshim::node {

/// A socket that holds a port: a listener, or else a connection with that local port.
struct PortSocket {
  uid_t user = 0;
  std::uint64_t inode = 0;  ///< of the socket, as /proc/PID/fd names it: "socket:[INODE]"
  bool listens = false;
};

/// Finds the socket with that local port in the text of /proc/net/tcp or tcp6 (proc_pid_net(5)); nullopt if
/// there is none. A connection that no process owns any more (TIME_WAIT) does not hold the port.
std::optional<PortSocket> find_port_socket(std::string_view table, std::uint16_t port);

/// The holder of the TCP port, for use in a sentence: "python3 (pid 17)"; or "a process of user 1000 in
/// another container" if /proc does not show the process, because it runs in another container that shares
/// this network. Empty if no socket holds the port, or /proc/net cannot be read.
std::string holder_of_port(std::uint16_t port);

}  // namespace rankshim::node
