#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "wait/schedule.h"

namespace rankshim::wait {

/// The state of a port; later ones are closer to open.
enum class PortState : std::uint8_t {
  failed,    ///< this node could not try: no descriptor, unsupported address family, …
  no_route,  ///< EHOSTUNREACH, ENETUNREACH
  silent,    ///< no answer to the SYN in time
  closed,    ///< connection refused
  hung_up,   ///< accepted, but closed by the other side within Timing::settle_time
  open,
};

struct PortProbe {
  PortState state = PortState::failed;  ///< the best state of all addresses
  boost::asio::ip::address address;     ///< the first address in this state
  int error = 0;                        ///< errno, if state is `failed`

  /// A few words for a log line.
  [[nodiscard]] std::string reason() const;
  bool operator==(const PortProbe&) const = default;
};

/// Opens the socket, which the command does not inherit, and connects it; gives up at `until`.
boost::asio::awaitable<PortProbe> connect(boost::asio::ip::tcp::socket& socket,
                                          boost::asio::ip::tcp::endpoint endpoint, Clock::time_point until);

/// Connects to all addresses at once (at most 16), sends nothing and closes again, which torch's TCPStore
/// takes for a peer that went away. Finishes with the first connection that stays open for
/// Timing::settle_time, because a mesh's proxy accepts every connection, and closes it if it finds no
/// listener. The deadline and Timing::connect_timeout limit the connecting. Needs at least one address.
boost::asio::awaitable<PortProbe> probe_port(std::span<const boost::asio::ip::address> addresses,
                                             std::uint16_t port, Timing timing, Clock::time_point deadline);

/// The port of a mesh's proxy that listens in this network namespace and intercepts outgoing connections; 0
/// if there is none. `tables` is the text of /proc/net/tcp and tcp6.
[[nodiscard]] std::uint16_t sidecar_port(std::string_view tables);
/// The same, from this node's own tables.
[[nodiscard]] std::uint16_t find_sidecar();

}  // namespace rankshim::wait
