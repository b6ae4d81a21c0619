#include "node/addresses.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <boost/asio/ip/udp.hpp>
#include <cstring>
#include <memory>
#include <span>

#include "base/files.h"
#include "base/text.h"

namespace rankshim {

namespace ip = boost::asio::ip;

namespace {

/// Cuts the next line off a hosts file, without its comment.
std::string_view take_entry(std::string_view& file) {
  const std::string_view line = take_line(file);
  return line.substr(0, line.find('#'));
}

Descriptor open_probe(int family) { return Descriptor(socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0)); }

/// An interface's address; the unspecified one for other families than IPv4 and IPv6.
ip::address address_of(const sockaddr& address) {
  ip::udp::endpoint endpoint;
  const std::size_t size = address.sa_family == AF_INET    ? sizeof(sockaddr_in)
                           : address.sa_family == AF_INET6 ? sizeof(sockaddr_in6)
                                                           : 0;
  std::memcpy(endpoint.data(), &address, size);
  return endpoint.address();
}

}  // namespace

std::optional<ip::address> literal(std::string_view host) {
  boost::system::error_code error;
  ip::address address = ip::make_address(std::string(without_brackets(host)), error);
  return error ? std::nullopt : std::optional(address);
}

ip::address unmapped(const ip::address& address) {
  if (!address.is_v6() || !address.to_v6().is_v4_mapped()) return address;
  return ip::make_address_v4(ip::v4_mapped, address.to_v6());
}

bool is_nobodys(const ip::address& address) {
  const ip::address plain = unmapped(address);
  return plain.is_unspecified() || plain.is_multicast() || plain == ip::address_v4::broadcast();
}

std::vector<ip::address> addresses_in_hosts(std::string_view file, std::string_view name) {
  if (name.ends_with('.')) name.remove_suffix(1);
  std::vector<ip::address> found;
  while (!file.empty()) {
    std::string_view line = take_entry(file);
    const std::optional<ip::address> address = literal(take_word(line));
    std::string_view alias = take_word(line);
    while (!alias.empty() && !same_but_case(alias, name)) alias = take_word(line);
    if (!alias.empty() && address && std::ranges::find(found, *address) == found.end())
      found.push_back(*address);
  }
  return found;
}

std::string domain_in_hosts(std::string_view file, std::string_view host) {
  while (!host.empty() && !file.empty()) {
    std::string_view line = take_entry(file);
    take_word(line);  // the address
    for (std::string_view name = take_word(line); !name.empty(); name = take_word(line))
      if (name.starts_with(host) && name.substr(host.size()).starts_with('.'))
        return std::string(name.substr(host.size() + 1));
  }
  return {};
}

std::string own_host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

bool is_own(const ip::address& address) {
  if (is_nobodys(address)) return false;  // these can be bound, too
  const ip::udp::endpoint endpoint(address, 0);
  const Descriptor probe = open_probe(endpoint.protocol().family());
  return probe.number() >= 0 &&
         bind(probe.number(), endpoint.data(), static_cast<socklen_t>(endpoint.size())) == 0;
}

// Connecting a datagram socket only looks up the route (udp(7)); 192.0.2.1 and 2001:db8::1 belong to no host
// (RFC 5737, 3849).
std::optional<ip::address> source_towards(std::string_view peer) {
  for (const std::string_view target :
       {peer, std::string_view("192.0.2.1"), std::string_view("2001:db8::1")}) {
    const auto address = literal(target);
    if (!address) continue;
    ip::udp::endpoint endpoint(*address, 9);
    auto length = static_cast<socklen_t>(endpoint.size());
    const Descriptor probe = open_probe(endpoint.protocol().family());
    if (probe.number() >= 0 && connect(probe.number(), endpoint.data(), length) == 0 &&
        getsockname(probe.number(), endpoint.data(), &length) == 0)
      return endpoint.address();
  }
  return std::nullopt;
}

// For IPv4 this takes one call: getifaddrs reads all details of all interfaces from the kernel, which takes
// longer than rankshim's whole start.
std::string interface_with(const ip::address& own) {
  const Descriptor probe = open_probe(AF_INET);
  std::array<ifreq, 64> requests{};
  ifconf found{};
  found.ifc_len = sizeof requests;
  found.ifc_req = requests.data();
  if (own.is_v4() && ioctl(probe.number(), SIOCGIFCONF, &found) == 0 &&
      static_cast<std::size_t>(found.ifc_len) < sizeof requests) {
    for (const ifreq& one :
         std::span(requests).first(static_cast<std::size_t>(found.ifc_len) / sizeof(ifreq)))
      if (address_of(one.ifr_addr) == own) return one.ifr_name;
    return {};
  }
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return {};
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, freeifaddrs);
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next)
    if (entry->ifa_addr != nullptr && address_of(*entry->ifa_addr) == own) return entry->ifa_name;
  return {};
}

}  // namespace rankshim
