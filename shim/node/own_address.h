#pragma once

#include <sys/socket.h>

namespace rankshim {

/// Whether some interface of this node has the address, an IPv4 or IPv6 one with port 0: the kernel lets a
/// socket be bound to it. Unspecified, broadcast and multicast addresses can be bound too, but are no node's.
bool is_own_address(const sockaddr& address, socklen_t length);

}  // namespace rankshim
