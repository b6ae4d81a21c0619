#include <fmt/format.h>

#include "base/text.h"
#include "topology/resolution.h"

namespace rankshim {
namespace {

/// A job that is started again must not meet what is left of the one before: the attempt is part of the run
/// id, and so of the default port, unless the user has set the run id.
void complete_run_id(Resolution& r) {
  // A constant is a name that all nodes have; what they call the master may be spelt differently on each.
  r.fill(Fact::run_id, {"rankshim"});
  Value& run_id = *r.fact(Fact::run_id);
  const auto& attempt = r.fact(Fact::attempt);
  if (!attempt || attempt->text == "0" || run_id.from_user()) return;
  run_id = {
      run_id.text + "." + attempt->text, Origin::derived,
      fmt::format("{} and {}", run_id.detail.empty() ? run_id.source() : run_id.detail, attempt->detail)};
}

/// A port that is free, for a node that is alone.
Value free_port(const Node& node) {
  constexpr std::uint16_t torch_port = 29500;
  constexpr std::uint16_t last_tried = torch_port + 100;
  std::uint16_t port = torch_port;
  while (port < last_tried && !node.take_port(port)) ++port;
  if (port == torch_port) return {"29500"};
  return {std::to_string(port), Origin::derived, "29500, which is in use"};
}

void complete_port(Resolution& r, bool names_job) {
  if (r.has(Fact::master_port)) {
    if (is_port(r.text(Fact::master_port))) {
      r.fact(Fact::master_port)->text = std::to_string(r.number(Fact::master_port));
      return;
    }
    return r.refuse(Anchor::no_number, r.said(Fact::master_port) + " is not a port, 1 to 65535",
                    "correct it, or " + settle(Fact::master_port));
  }
  if (!r.topology.is_alone()) warn_of_near_misses(r, "MASTER_PORT");
  r.fact(Fact::master_port) =
      r.topology.is<LoneNode>() ? free_port(r.node)
      : names_job ? Value{std::to_string(default_port(r.text(Fact::run_id))), Origin::derived, "run_id"}
                  : Value{"29500"};
}

}  // namespace

bool is_port(std::string_view text) {
  const auto number = parse_count(text);
  return number && *number >= 1 && *number <= 65535;
}

bool check_master_addr(Resolution& r) {
  auto& master = r.fact(Fact::master_addr)->text;
  master = std::string(without_brackets(master));
  if (is_host(master)) return true;
  r.refuse(Anchor::no_host, r.said(Fact::master_addr) + " is neither a host name nor an address",
           fmt::format("correct it (the port is MASTER_PORT's), or {}", settle(Fact::master_addr)));
  return false;
}

void complete_meeting(Resolution& r, bool hosts_master) {
  const bool names_job = r.has(Fact::run_id);
  complete_run_id(r);
  complete_port(r, names_job);
  const std::string_view host = r.text(Fact::master_addr);
  r.topology.meeting =
      Master{std::string(without_brackets(host)), static_cast<std::uint16_t>(r.number(Fact::master_port))};
  if (!r.faults.empty() || hosts_master || !is_loopback(host) || r.is_users(Fact::master_addr)) return;
  if (is_localhost_name(host))
    r.refuse(Anchor::own_address,
             r.said(Fact::master_addr) +
                 fmt::format(" on node {} is this node itself, not the master", r.text(Fact::node_rank)),
             fmt::format("{}; 127.0.0.1 for a trial with all nodes on one machine", set_master_addr));
  else
    r.warn(r.said(Fact::master_addr).text +
           " is this machine itself, which is right only if all nodes are on it");
}

}  // namespace rankshim
