#pragma once

#include <boost/asio/ip/address.hpp>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// Addresses in texts and in the hosts file.
namespace rankshim::node {

/// The address, if `host` is a literal: IPv4, or IPv6 with or without brackets and a scope (fe80::1%eth0).
[[nodiscard]] std::optional<boost::asio::ip::address> literal(std::string_view host);

/// ::ffff:127.0.0.1 becomes 127.0.0.1; any other address is unchanged.
[[nodiscard]] boost::asio::ip::address unmapped(const boost::asio::ip::address& address);

/// Whether no host can have that address: it is unspecified, broadcast or multicast.
[[nodiscard]] bool is_unassignable(const boost::asio::ip::address& address);

/// The text with each address, and the port that follows it, replaced by what `name_of` returns for the
/// address; if that is empty, the address stays. `name_of` gets an IPv4-mapped IPv6 address as IPv4.
[[nodiscard]] std::string with_names(std::string_view text,
                                     const std::function<std::string(const std::string& address)>& name_of);

/// The number of addresses that a name can have in a hosts file; further ones are ignored (musl,
/// src/network/lookup.h, MAXADDRS).
constexpr std::size_t most_addresses = 48;

/// The addresses that a hosts(5) file gives the name (ignoring case), in the file's order, each once; at most
/// `most_addresses`.
[[nodiscard]] std::vector<boost::asio::ip::address> addresses_in_hosts(std::string_view file,
                                                                       std::string_view name);

/// The domain of the first name in a hosts(5) file that is `host` followed by a domain; empty if there is
/// none.
[[nodiscard]] std::string domain_in_hosts(std::string_view file, std::string_view host);

/// Whether an interface of this node has the address: the kernel then allows a socket to be bound to it.
/// (With net.ipv4.ip_nonlocal_bind it allows binding any address.)
[[nodiscard]] bool is_own(const boost::asio::ip::address& address);

}  // namespace rankshim::node
