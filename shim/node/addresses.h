#pragma once

#include <boost/asio/ip/address.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// Addresses: as texts, in the hosts file, and on this node.
namespace rankshim {

/// The address if `host` is a literal: IPv4, or IPv6 with or without brackets and with or without a scope
/// (fe80::1%eth0).
[[nodiscard]] std::optional<boost::asio::ip::address> literal(std::string_view host);

/// ::ffff:127.0.0.1 becomes 127.0.0.1; any other address is unchanged.
[[nodiscard]] boost::asio::ip::address unmapped(const boost::asio::ip::address& address);

/// Whether no host can have that address: an unspecified, broadcast or multicast one.
[[nodiscard]] bool is_nobodys(const boost::asio::ip::address& address);

/// All addresses that a hosts(5) file gives the name (ignoring case), in the file's order, each once.
[[nodiscard]] std::vector<boost::asio::ip::address> addresses_in_hosts(std::string_view file,
                                                                       std::string_view name);

/// The domain of the first name in a hosts(5) file that is `host` followed by a domain; empty if there is
/// none.
[[nodiscard]] std::string domain_in_hosts(std::string_view file, std::string_view host);

/// gethostname(2); empty if it fails.
[[nodiscard]] std::string own_host_name();

/// Whether an interface of this node has the address: the kernel then allows a socket to be bound to it.
/// (With net.ipv4.ip_nonlocal_bind it allows binding any address.)
[[nodiscard]] bool is_own(const boost::asio::ip::address& address);

/// The local address from which packets to the literal address `peer` would leave; for an empty `peer`, that
/// of the default route. Nothing if there is no route.
[[nodiscard]] std::optional<boost::asio::ip::address> source_towards(std::string_view peer);

/// The name of the interface that has this address; empty if there is none.
[[nodiscard]] std::string interface_with(const boost::asio::ip::address& own);

}  // namespace rankshim
