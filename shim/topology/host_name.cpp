#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/text.h"
#include "topology/topology.h"

namespace rankshim {
namespace {

/// The host in lower case, without brackets and trailing dot; an IPv6 literal in its canonical form.
std::string canonical(std::string_view host) {
  host = without_brackets(host);
  if (host.size() > 1 && host.ends_with('.')) host.remove_suffix(1);
  std::string text = lower_case(host);
  if (text.find(':') == std::string::npos) return text;
  in6_addr v6{};
  std::array<char, INET6_ADDRSTRLEN> out{};
  if (inet_pton(AF_INET6, text.c_str(), &v6) == 1 &&
      inet_ntop(AF_INET6, &v6, out.data(), out.size()) != nullptr) {
    return out.data();
  }
  return text;
}

}  // namespace

bool is_host(std::string_view text) {
  const std::string_view host = without_brackets(text);
  const std::string_view bare = host.substr(0, host.find('%'));
  const bool letters = std::all_of(host.begin(), host.end(), [](char c) {
    return is_letter_or_digit(c) || std::string_view(".-_:%").find(c) != std::string_view::npos;
  });
  // getaddrinfo takes 1 for 0.0.0.1.
  return letters && !bare.empty() && !parse_count(host) &&
         (bare.find(':') == std::string_view::npos || is_literal(bare));
}

bool is_literal(std::string_view host) {
  const std::string text = canonical(host);
  in6_addr address{};
  return inet_pton(text.find(':') == std::string::npos ? AF_INET : AF_INET6, text.c_str(), &address) == 1;
}

bool is_localhost_name(std::string_view host) {
  const std::string name = canonical(host);
  return is_localhost(without_brackets(host)) || name == "localhost.localdomain" || name == "ip6-localhost" ||
         name == "ip6-loopback" || name == "0.0.0.0" || name == "::";
}

bool is_loopback(std::string_view host) {
  if (is_localhost_name(host)) return true;
  const std::string name = canonical(host);
  in_addr v4{};
  if (inet_pton(AF_INET, name.c_str(), &v4) == 1) return (ntohl(v4.s_addr) >> 24U) == 127;
  return name == "::1" || name.starts_with("::ffff:127.");
}

bool same_host(std::string_view a, std::string_view b) {
  std::string left = canonical(a);
  std::string right = canonical(b);
  if (left == right) return true;
  if (left.size() > right.size()) std::swap(left, right);
  return !left.empty() && !is_literal(left) && !is_literal(right) && right.starts_with(left) &&
         right[left.size()] == '.';
}

}  // namespace rankshim
