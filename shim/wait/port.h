#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/address.hpp>
#include <cstdint>
#include <span>
#include <string>

#include "wait/pace.h"
#include "wait/poll_set.h"

namespace rankshim::wait {

/// What a port was like, the later the nearer to open.
enum class PortState : std::uint8_t {
  failed,    ///< this node could not try: no descriptor, address family not supported, …
  no_route,  ///< EHOSTUNREACH, ENETUNREACH
  silent,    ///< no answer to the SYN in time
  closed,    ///< connection refused
  hung_up,   ///< accepted, and closed by the other side before Pace::settle was over
  open,
};

struct PortLook {
  PortState state = PortState::failed;  ///< the best of all addresses
  boost::asio::ip::address address;     ///< the one that was in this state first
  int error = 0;                        ///< errno, where state is `failed`

  /// Few words for a line.
  [[nodiscard]] std::string reason() const;
};

/// Connects to all addresses at once (the first 16), sends nothing and closes again, which torch's TCPStore
/// takes as a peer that went away. Ends with the first connection that stays open for Pace::settle: a mesh's
/// proxy accepts anything, and hangs up when nothing is behind it. Deadline and Pace::connect bound the
/// connecting. Throws only system_error when cancelled, or as PollSet does.
boost::asio::awaitable<PortLook> look_at_port(boost::asio::any_io_executor executor,
                                              std::span<const boost::asio::ip::address> addresses,
                                              std::uint16_t port, Pace pace, Clock::time_point deadline);

/// Whether the address is one of this node's: the kernel lets us bind it. (Where net.ipv4.ip_nonlocal_bind is
/// set it lets us bind anything.)
[[nodiscard]] bool is_own(const boost::asio::ip::address& address);

}  // namespace rankshim::wait
