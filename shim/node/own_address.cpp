#include "node/own_address.h"

#include <netinet/in.h>
#include <unistd.h>

namespace rankshim {
namespace {

bool is_no_nodes(const sockaddr& address) {
  if (address.sa_family == AF_INET) {
    const in_addr_t v4 = reinterpret_cast<const sockaddr_in&>(address).sin_addr.s_addr;
    return v4 == INADDR_ANY || v4 == INADDR_BROADCAST || IN_MULTICAST(ntohl(v4));
  }
  const in6_addr& v6 = reinterpret_cast<const sockaddr_in6&>(address).sin6_addr;
  return IN6_IS_ADDR_UNSPECIFIED(&v6) || IN6_IS_ADDR_MULTICAST(&v6);
}

}  // namespace

bool is_own_address(const sockaddr& address, socklen_t length) {
  if (is_no_nodes(address)) return false;
  const int probe = socket(address.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (probe < 0) return false;
  const bool bound = bind(probe, &address, length) == 0;
  close(probe);
  return bound;
}

}  // namespace rankshim
