#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/text.h"
#include "topology/near_miss.h"
#include "topology/resolution.h"

namespace rankshim {
namespace {

constexpr const char* set_nnodes =
    "set NNODES on every node, or --nnodes (RANKSHIM_NNODES=1 if this node is alone)";
constexpr const char* set_master_addr =
    "set MASTER_ADDR to node 0's name or address, or --master-addr (RANKSHIM_MASTER_ADDR)";

/// What a program writes for a text that it does not have.
bool names_nothing(std::string_view host) {
  return std::ranges::any_of(std::array<std::string_view, 3>{"none", "null", "nil"},
                             [host](std::string_view nothing) { return same_but_case(host, nothing); });
}

/// A torchrun on a single node that makes its rendezvous itself (--standalone, c10d without an endpoint)
/// needs none from rankshim.
void leave_own_rendezvous(Resolution& r) {
  if (r.torchrun == nullptr) return;
  const auto& nnodes = r.fact(Fact::nnodes);
  if (nnodes && nnodes->text != "1" && nnodes->text != "1:1") return;
  const bool nowhere = r.torchrun->facts.has(Fact::rdzv_backend) && !r.fact(Fact::rdzv_endpoint) &&
                       !r.fact(Fact::master_addr) && !r.fact(Fact::node_rank);
  if (!r.torchrun->meets_itself && !nowhere) return;
  r.fact(Fact::rdzv_backend).reset();
  r.fact(Fact::rdzv_endpoint).reset();
}

/// torchrun's static rendezvous is at --rdzv_endpoint if that is given (torch/distributed/run.py,
/// get_rdzv_endpoint, and elastic/rendezvous/static_tcp_rendezvous.py).
void use_static_endpoint(Resolution& r) {
  auto& endpoint = r.fact(Fact::rdzv_endpoint);
  if (r.torchrun == nullptr || !r.torchrun->facts.has(Fact::rdzv_endpoint) || !endpoint) return;
  const auto& backend = r.fact(Fact::rdzv_backend);
  const auto& nnodes = r.fact(Fact::nnodes);
  if (backend ? backend->text != "static" : nnodes && nnodes->text.find(':') != std::string::npos) return;
  const auto [host, port] = split_host_port(endpoint->text);
  r.fact(Fact::master_addr) = Value{std::string(host.empty() ? std::string_view(endpoint->text) : host),
                                    endpoint->origin, endpoint->detail};
  if (!port.empty()) r.fact(Fact::master_port) = Value{std::string(port), endpoint->origin, endpoint->detail};
  endpoint.reset();
}

/// nnodes is "N" or "MIN:MAX"; decides whether the job is elastic. Returns false if it is invalid.
bool check_nnodes(Resolution& r) {
  const auto& backend = r.fact(Fact::rdzv_backend);
  r.is_elastic = backend && backend->text != "static";
  auto& nnodes = r.fact(Fact::nnodes);
  if (!nnodes) return true;
  const auto [least, most] = min_and_max(nnodes->text);
  const auto min = parse_count(least), max = parse_count(most);
  if (!min || !max || *min == 0 || *max < *min) {
    r.wrong(Anchor::no_number, Fact::nnodes,
            min && max && *min != 0 ? "has MIN above MAX" : "is not a number of nodes, N or MIN:MAX");
    return false;
  }
  if (*min < *max) {
    if (backend && backend->text == "static") {
      r.clash(Anchor::contradiction, Fact::nnodes, "is a range, but", Fact::rdzv_backend,
              "set --nnodes (RANKSHIM_NNODES) to one number, or --rdzv-backend=c10d (RANKSHIM_RDZV_BACKEND)");
      return false;
    }
    r.is_elastic = true;
  } else if (!r.is_elastic) {
    nnodes->text = fmt::format("{}", *min);
  }
  return true;
}

/// Whether something indicates other nodes although their number is not known; if so, adds a fault about
/// what is missing.
bool shows_others(Resolution& r) {
  std::vector<std::string> shown, names;
  for (const Fact known : {Fact::node_rank, Fact::master_addr, Fact::rdzv_endpoint}) {
    const auto& value = r.fact(known);
    if (!value || (known == Fact::master_addr && is_loopback(value->text))) continue;
    // The flags of a torchrun on a single node are often complete: --node_rank=0 without --nnodes.
    if (known == Fact::node_rank && r.torchrun != nullptr && r.torchrun->facts.has(known) &&
        value->text == "0")
      continue;
    shown.push_back(r.words(known));
    names.push_back(r.source(known));
  }
  if (names.empty()) return false;
  std::string shown_by = joined(shown);
  // An address of this node has no name.
  if (r.topology.facts.has(Fact::master_addr) && r.fact(Fact::master_addr)->origin == Origin::derived &&
      has_own_words(r)) {
    const platform::Causes causes = causes_of_platform(r);
    shown_by += fmt::format(" of {} ({})", r.platform.name, causes.text);
    names.insert(names.end(), causes.names.begin(), causes.names.end());
  }
  const Missing missing = why_missing(r, Fact::nnodes, names);
  for (const char* generic : {"NNODES", "WORLD_SIZE"}) names.emplace_back(generic);
  r.fault(Anchor::nnodes_unknown,
          fmt::format("{} {} that there are other nodes, but their number is unknown{}", shown_by,
                      shown_by.find(", ") == std::string::npos ? "says" : "say", missing.why),
          names, missing.remedy + set_nnodes);
  return true;
}

/// Whether a platform with its own variable for the number of nodes did not set it: guessing one node would
/// be wrong.
bool platform_lacks_nnodes(Resolution& r) {
  if (!has_own_words(r)) return false;
  std::vector<std::string> names;
  const Missing missing = why_missing(r, Fact::nnodes, names);
  if (!missing.is_expected) return false;
  const platform::Causes causes = causes_of_platform(r);
  names.insert(names.end(), causes.names.begin(), causes.names.end());
  r.fault(Anchor::nnodes_unknown,
          fmt::format("this is {} ({}), but the number of nodes is unknown{}", r.platform.name, causes.text,
                      missing.why),
          names, missing.remedy + set_nnodes);
  return true;
}

void complete_single(Resolution& r) {
  if (const auto& rank = r.fact(Fact::node_rank); rank && rank->text != "0") {
    r.clash(Anchor::not_below, Fact::node_rank, "is not below", Fact::nnodes, settle_nodes);
    return;
  }
  if (!r.fact(Fact::node_rank)) r.fact(Fact::node_rank) = Value{"0", Origin::fallback, ""};
  if (!r.fact(Fact::master_addr)) r.fact(Fact::master_addr) = Value{"127.0.0.1", Origin::fallback, ""};
  r.hosts_master = true;
  r.is_alone = true;
  complete_run_id(r);
  if (check_port(r) && !r.fact(Fact::master_port)) {
    constexpr std::uint16_t torch_port = 29500;
    constexpr std::uint16_t last_tried = torch_port + 100;
    std::uint16_t port = torch_port;
    while (port < last_tried && !r.node.take_port(port)) ++port;
    r.fact(Fact::master_port) =
        port == torch_port ? Value{"29500", Origin::fallback, ""}
                           : Value{fmt::format("{}", port), Origin::derived, "29500, which is in use"};
  }
}

void complete_static(Resolution& r) {
  const Value& nnodes = *r.fact(Fact::nnodes);
  const auto& rank = r.fact(Fact::node_rank);
  if (!rank) {
    std::vector<std::string> names = {r.source(Fact::nnodes), "NODE_RANK", "RANK"};
    Missing missing = why_missing(r, Fact::node_rank, names);
    if (const auto& endpoint = r.fact(Fact::rdzv_endpoint); endpoint && !r.fact(Fact::rdzv_backend)) {
      missing.why += fmt::format(", and without PET_RDZV_BACKEND the nodes do not rank themselves at {}",
                                 endpoint->text);
      missing.remedy += "set --rdzv-backend (RANKSHIM_RDZV_BACKEND), or ";
      names.emplace_back("PET_RDZV_BACKEND");
    }
    r.fault(Anchor::rank_unknown,
            fmt::format("{}, but this node's rank is unknown{}", r.words(Fact::nnodes), missing.why), names,
            missing.remedy + (nnodes.detail == "WORLD_SIZE"
                                  ? "set NNODES and NODE_RANK (0 on the master), or --nnodes and --node-rank "
                                    "(RANKSHIM_NNODES, RANKSHIM_NODE_RANK)"
                                  : "set NODE_RANK (0 on the master), or --node-rank (RANKSHIM_NODE_RANK)"));
  } else if (const auto number = parse_count(rank->text); !number) {
    r.fault(Anchor::not_below, r.words(Fact::node_rank) + " is not a number",
            {r.source(Fact::node_rank), r.source(Fact::nnodes)}, settle_nodes);
  } else if (*number >= *parse_count(nnodes.text)) {
    r.clash(Anchor::not_below, Fact::node_rank, "is not below", Fact::nnodes, settle_nodes);
  } else {
    r.hosts_master = *number == 0;
  }
  if (!r.fact(Fact::master_addr) && r.platform.command_finds_master) return;
  if (!r.fact(Fact::master_addr)) {
    std::vector<std::string> names = {r.source(Fact::nnodes), "MASTER_ADDR"};
    const Missing missing = why_missing(r, Fact::master_addr, names);
    r.fault(Anchor::master_unknown,
            fmt::format("{}, but the master's address is unknown{}", r.words(Fact::nnodes), missing.why),
            names, missing.remedy + set_master_addr);
    return;
  }
  if (!check_master_addr(r)) return;
  complete_run_id(r);
  complete_port(r);
}

/// Whether node 0 is another host than the endpoint's: an elastic PyTorchJob with a master gives the master
/// rank 0, but meets at its first worker (kubeflow/trainer@v1.9.4:pkg/controller.v1/pytorch/elastic.go).
bool rank_0_is_elsewhere(const Resolution& r, std::string_view endpoint) {
  if (!r.reads_variables) return false;
  for (const char* variable : {"PET_MASTER_ADDR", "MASTER_ADDR"}) {
    const auto address = r.node.environment().get(variable);
    if (address && !is_loopback(*address) && !same_host(*address, endpoint)) return true;
  }
  return false;
}

/// The store of c10d is at the endpoint: node 0 if there are ranks, else the node whose name or address it
/// is.
void decide_elastic_host(Resolution& r) {
  if (r.fact(Fact::rdzv_backend)->text != "c10d") {
    r.hosts_master = false;  // etcd is a separate service
    return;
  }
  const std::string& host = r.fact(Fact::master_addr)->text;
  const auto rank = r.known(Fact::node_rank);
  if (rank && !rank_0_is_elsewhere(r, host)) {
    r.hosts_master = *rank == 0;
  } else if (is_this_node(r, host)) {
    r.hosts_master = true;
  }
}

void check_elastic_rank(Resolution& r) {
  auto& rank = r.fact(Fact::node_rank);
  if (!rank) return;
  // A rank that the platform does not give is none: left over, it would make each node the host.
  const auto says = [&](Fact fact, Source source) {
    return std::any_of(r.claims.begin(), r.claims.end(),
                       [&](const Claim& claim) { return claim.fact == fact && claim.source == source; });
  };
  if (platform_is_elastic(r) && !rank->from_user() && !says(Fact::node_rank, Source::platform) &&
      !says(Fact::node_rank, Source::flag))
    return rank.reset();
  const auto max = parse_count(min_and_max(r.fact(Fact::nnodes)->text).second);
  const auto number = parse_count(rank->text);
  if (number && *number < max.value_or(0)) return;
  if (r.fact(Fact::nnodes)->from_user() && !rank->from_user())
    return rank.reset();  // torch assigns the ranks
  // training-operator counts only the workers in PET_NNODES, but gives the master a rank too (elastic.go).
  r.clash(Anchor::not_below, Fact::node_rank, "is not below", Fact::nnodes,
          "correct one of them, or " + settle(Fact::nnodes));
}

void complete_elastic(Resolution& r) {
  if (!r.fact(Fact::rdzv_backend)) r.fact(Fact::rdzv_backend) = Value{"c10d", Origin::derived, "nnodes"};
  auto& endpoint = r.fact(Fact::rdzv_endpoint);
  const bool has_endpoint = endpoint.has_value();
  if (has_endpoint) {
    const auto [host, port] = split_host_port(endpoint->text);
    const bool c10d = r.fact(Fact::rdzv_backend)->text == "c10d";
    const bool is_nobody = host.empty() || names_nothing(host);
    if (is_nobody || (c10d && (!is_host(host) || (!port.empty() && !is_port(port)))))
      return r.wrong(Anchor::no_host, Fact::rdzv_endpoint,
                     is_nobody ? "does not name a host" : "is not HOST:PORT",
                     "correct it to HOST:PORT, or set --rdzv-endpoint (RANKSHIM_RDZV_ENDPOINT)");
    r.fact(Fact::master_addr) = Value{std::string(host), Origin::derived, "rdzv_endpoint"};
    r.fact(Fact::master_port).reset();
    if (!port.empty()) {
      r.fact(Fact::master_port) = Value{std::string(port), Origin::derived, "rdzv_endpoint"};
    } else if (c10d && r.torchrun != nullptr && r.torchrun->facts.has(Fact::rdzv_endpoint)) {
      // torchrun's default (elastic/rendezvous/c10d_rendezvous_backend.py).
      r.fact(Fact::master_port) = Value{"29400", Origin::fallback, ""};
    }
    normalise(r);
  } else if (!r.fact(Fact::master_addr)) {
    std::vector<std::string> names = {r.source(Fact::nnodes), "PET_RDZV_ENDPOINT"};
    const Missing missing = why_missing(r, Fact::master_addr, names);
    r.fault(Anchor::master_unknown,
            fmt::format("{} is an elastic job, but its rendezvous endpoint is unknown{}",
                        r.words(Fact::nnodes), missing.why),
            names, "set --rdzv-endpoint (RANKSHIM_RDZV_ENDPOINT) to HOST:PORT of one node");
    return;
  } else if (!check_master_addr(r)) {
    return;
  }
  check_elastic_rank(r);
  complete_run_id(r);
  r.fact(Fact::rdzv_id) = Value{r.fact(Fact::run_id)->text, Origin::derived, "run_id"};
  complete_port(r);
  if (!r.fact(Fact::master_port)) return;
  const std::string text = host_port(r.fact(Fact::master_addr)->text, r.fact(Fact::master_port)->text);
  if (!has_endpoint)
    endpoint = Value{text, Origin::derived, "master_addr and master_port"};
  else if (endpoint->text != text)
    *endpoint = Value{text, Origin::derived, endpoint->detail};
  decide_elastic_host(r);
}

/// The generic variables for a fact, and names that some people and platforms use for it, and others for
/// something else.
struct Generic {
  std::vector<std::string_view> names, hints;
};

Generic generic(Fact fact) {
  switch (fact) {
    case Fact::nnodes:
      return {{"NNODES", "WORLD_SIZE"}, {"NODE_COUNT", "NUM_NODES", "WORLD_SIZE"}};
    case Fact::node_rank:
      return {{"NODE_RANK", "RANK"}, {"NODE_INDEX", "NODE_ID", "RANK"}};
    case Fact::master_addr:
      return {{"MASTER_ADDR"}, {}};
    case Fact::rank:
      return {{"RANK"}, {}};
    case Fact::world_size:
      return {{"WORLD_SIZE"}, {}};
    case Fact::local_rank:
      return {{"LOCAL_RANK"}, {}};
    default:
      return {};
  }
}

}  // namespace

bool check_master_addr(Resolution& r) {
  auto& master = r.fact(Fact::master_addr);
  master->text = std::string(without_brackets(master->text));
  if (names_nothing(master->text)) {
    r.wrong(Anchor::no_host, Fact::master_addr,
            "is what a program writes for an address that it does not have", set_master_addr);
    return false;
  }
  if (is_host(master->text)) return true;
  r.wrong(Anchor::no_host, Fact::master_addr, "is neither a host name nor an address",
          "correct it (the port is MASTER_PORT's), or " + settle(Fact::master_addr));
  return false;
}

void check_loopback(Resolution& r) {
  if (!r.faults.empty() || r.hosts_master.value_or(true)) return;
  const auto& master = r.fact(Fact::master_addr);
  if (!master || !is_loopback(master->text) || master->from_user()) return;
  if (is_localhost_name(master->text)) {
    r.wrong(
        Anchor::own_address, Fact::master_addr,
        fmt::format("on node {} is this node itself, not the master", r.topology.facts.text(Fact::node_rank)),
        fmt::format("{}; 127.0.0.1 for a trial with all nodes on one machine", set_master_addr));
  } else {
    r.topology.warnings.push_back(r.words(Fact::master_addr) +
                                  " is this machine itself, which is right only if all nodes are on it");
  }
}

void complete_node(Resolution& r) {
  leave_own_rendezvous(r);
  use_static_endpoint(r);
  if (!check_nnodes(r)) return;
  complete_nproc(r);
  complete_torchruns(r);
  if (!r.fact(Fact::nnodes)) {
    if (shows_others(r) || platform_lacks_nnodes(r)) return;
    r.fact(Fact::nnodes) = Value{"1", Origin::fallback, ""};
  }
  if (r.fact(Fact::nnodes)->text == "1" && !r.is_elastic) {
    weigh_alone(r);
    return complete_single(r);
  }
  r.is_elastic ? complete_elastic(r) : complete_static(r);
  check_loopback(r);
}

Missing why_missing(const Resolution& r, Fact fact, std::vector<std::string>& names) {
  Missing missing;
  platform::Lack lack;
  if (r.platform.profile != nullptr && !is_mere_names(r))
    lack = platform::lack_of(*r.platform.profile, fact, r.node);
  names.insert(names.end(), lack.names.begin(), lack.names.end());
  missing.remedy = lack.remedy;
  missing.unset = fmt::format("{}", fmt::join(lack.unset, " or "));
  std::vector<std::string>& reasons = lack.unusable;
  const auto add = [&](const std::vector<std::string>& all, const char* one, const char* many) {
    if (!all.empty())
      reasons.push_back(fmt::format("{} {}", fmt::join(all, ", "), all.size() == 1 ? one : many));
  };
  add(lack.unset, "is not set", "are not set");
  add(lack.absent, "is not there", "are not there");
  const Generic known = generic(fact);
  for (const std::string_view hint : known.hints) {
    const auto text = r.node.environment().get(hint);
    if (!text || std::find(names.begin(), names.end(), hint) != names.end()) continue;
    reasons.push_back(fmt::format("{}={} may give it, but not for certain", hint, *text));
    names.emplace_back(hint);
  }
  missing.is_expected = !reasons.empty();
  for (NearMiss& miss : near_misses(r.node.environment(), known.names)) {
    if (std::find(lack.unset.begin(), lack.unset.end(), miss.name) != lack.unset.end()) continue;
    reasons.push_back(std::move(miss.text));
    names.push_back(std::move(miss.name));
  }
  if (!reasons.empty()) missing.why = fmt::format(": {}", fmt::join(reasons, "; "));
  return missing;
}

}  // namespace rankshim
