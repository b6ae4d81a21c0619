#include "topology/topology.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/crc.hpp>

#include "base/text.h"
#include "node/addresses.h"

namespace rankshim::topology {
namespace {

/// The host in lower case, without brackets and trailing dot; a literal address in its canonical form.
std::string canonical(std::string_view host) {
  host = without_brackets(host);
  if (host.size() > 1 && host.ends_with('.')) host.remove_suffix(1);
  const auto address = node::literal(host);
  return address ? address->to_string() : lower_case(host);
}

}  // namespace

bool is_host(std::string_view text) {
  const std::string_view host = without_brackets(text);
  const std::string_view bare = host.substr(0, host.find('%'));
  const bool letters = std::all_of(host.begin(), host.end(), [](char c) {
    return is_letter_or_digit(c) || std::string_view(".-_:%").find(c) != std::string_view::npos;
  });
  const bool is_nothing = has_part("none,null,nil", lower_case(host), ",");
  // getaddrinfo reads 1 as 0.0.0.1.
  return letters && !is_nothing && !bare.empty() && !parse_count(host) &&
         (bare.find(':') == std::string_view::npos || is_literal(bare));
}

bool is_literal(std::string_view host) { return node::literal(canonical(host)).has_value(); }

bool is_localhost_name(std::string_view host) {
  const std::string name = canonical(host);
  return is_localhost(without_brackets(host)) || name == "localhost.localdomain" || name == "ip6-localhost" ||
         name == "ip6-loopback" || name == "0.0.0.0" || name == "::";
}

bool is_loopback(std::string_view host) {
  const auto address = node::literal(canonical(host));
  return is_localhost_name(host) || (address && node::unmapped(*address).is_loopback());
}

bool same_host(std::string_view a, std::string_view b) {
  std::string left = canonical(a);
  std::string right = canonical(b);
  if (left == right) return true;
  if (left.size() > right.size()) std::swap(left, right);
  return !left.empty() && !is_literal(left) && !is_literal(right) && right.starts_with(left) &&
         right[left.size()] == '.';
}

std::string Master::text() const { return host_port(host, fmt::format("{}", port)); }

bool Topology::is_alone() const {
  const auto* process = as<CreatedProcess>();
  return is<LoneNode>() || (process != nullptr && process->world_size == 1);
}

std::optional<bool> Topology::hosts_master() const {
  if (const auto* node = as<StaticNode>()) return node->rank == 0;
  if (const auto* node = as<ElasticNode>()) return node->hosts_master;
  if (const auto* process = as<CreatedProcess>()) return process->rank == 0;
  return is<LoneNode>() ? std::optional(true) : std::nullopt;
}

std::optional<unsigned> Topology::number(Fact fact) const {
  const auto [least, most] = min_and_max(facts.text(fact));
  return is<Idle>() || least != most ? std::nullopt : parse_count(least);
}

std::uint16_t default_port(std::string_view run_id) {
  boost::crc_32_type crc;
  crc.process_bytes(run_id.data(), run_id.size());
  return static_cast<std::uint16_t>(20000 + crc.checksum() % 10000);
}

std::optional<unsigned> parse_count(std::string_view text) {
  constexpr unsigned largest = 1'000'000'000;
  const auto number = parse_number<unsigned>(text);
  return number && *number <= largest ? number : std::nullopt;
}

}  // namespace rankshim::topology
