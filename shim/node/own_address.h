#pragma once

#include <sys/socket.h>

namespace rankshim {

/// Whether an interface of this node has the address, an IPv4 or IPv6 one with port 0: the kernel then allows
/// a socket to be bound to it. Unspecified, broadcast and multicast addresses can be bound too, but belong to
/// no node.
bool is_own_address(const sockaddr& address, socklen_t length);

}  // namespace rankshim
