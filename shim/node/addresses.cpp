#include "node/addresses.h"

#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/ip/udp.hpp>

#include "base/files.h"
#include "base/text.h"

namespace rankshim::node {

namespace ip = boost::asio::ip;

namespace {

/// Cuts the next line off a hosts file, without its comment.
std::string_view take_entry(std::string_view& file) {
  const std::string_view line = next_line(file);
  return line.substr(0, line.find('#'));
}

}  // namespace

std::optional<ip::address> literal(std::string_view host) {
  if (host.find(':') == host.npos && host.find_first_not_of("0123456789.") != host.npos) return {};  // a name
  boost::system::error_code error;
  ip::address address = ip::make_address(std::string(without_brackets(host)), error);
  return error ? std::nullopt : std::optional(address);
}

ip::address unmapped(const ip::address& address) {
  if (!address.is_v6() || !address.to_v6().is_v4_mapped()) return address;
  return ip::make_address_v4(ip::v4_mapped, address.to_v6());
}

bool is_unassignable(const ip::address& address) {
  const ip::address plain = unmapped(address);
  return plain.is_unspecified() || plain.is_multicast() || plain == ip::address_v4::broadcast();
}

std::string with_names(std::string_view text,
                       const std::function<std::string(const std::string& address)>& name_of) {
  const auto is_in_addresses = [](char c) {
    return is_letter_or_digit(c) || c == '.' || c == ':' || c == '[' || c == ']';
  };
  std::string named;
  while (!text.empty()) {
    const auto size =
        static_cast<std::size_t>(std::ranges::find_if_not(text, is_in_addresses) - text.begin());
    const std::string_view word = text.substr(0, std::max<std::size_t>(1, size));
    text.remove_prefix(word.size());
    // A full stop or colon after an address belongs to the sentence.
    const std::string_view plain = word.substr(0, word.find_last_not_of(".:") + 1);
    const auto address = literal(split_host_port(plain).first);
    const std::string name = address ? name_of(unmapped(*address).to_string()) : std::string();
    named.append(name.empty() ? plain : name).append(word.substr(plain.size()));
  }
  return named;
}

std::vector<ip::address> addresses_in_hosts(std::string_view file, std::string_view name) {
  if (name.ends_with('.')) name.remove_suffix(1);
  std::vector<ip::address> found;
  while (!file.empty() && found.size() < most_addresses) {
    std::string_view line = take_entry(file);
    const std::string_view first = next_word(line);
    std::string_view alias = next_word(line);
    while (!alias.empty() && !same_but_case(alias, name)) alias = next_word(line);
    if (const auto address = alias.empty() ? std::nullopt : literal(first)) add_once(*address, found);
  }
  return found;
}

std::string domain_in_hosts(std::string_view file, std::string_view host) {
  while (!host.empty() && !file.empty()) {
    std::string_view line = take_entry(file);
    next_word(line);  // the address
    for (std::string_view name = next_word(line); !name.empty(); name = next_word(line))
      if (name.starts_with(host) && name.substr(host.size()).starts_with('.'))
        return std::string(name.substr(host.size() + 1));
  }
  return {};
}

bool is_own(const ip::address& address) {
  if (is_unassignable(address)) return false;  // a socket can be bound to these as well
  const ip::udp::endpoint endpoint(address, 0);
  const UniqueFd probe(socket(endpoint.protocol().family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
  return probe.number() >= 0 &&
         bind(probe.number(), endpoint.data(), static_cast<socklen_t>(endpoint.size())) == 0;
}

}  // namespace rankshim::node
