#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/text.h"
#include "topology/topology_resolver.h"

namespace rankshim {

namespace {

/// What a program writes for a text that it does not have.
bool names_nothing(std::string_view host) {
  return std::ranges::any_of(std::array<std::string_view, 3>{"none", "null", "nil"},
                             [host](std::string_view nothing) { return same_but_case(host, nothing); });
}

}  // namespace

void TopologyResolver::complete_node() {
  leave_own_rendezvous();
  use_static_endpoint();
  if (!check_nnodes()) return;
  complete_nproc();
  complete_torchruns();
  if (!fact(Fact::nnodes)) {
    if (shows_others() || platform_lacks_nnodes()) return;
    fact(Fact::nnodes) = Value{"1", Origin::fallback, ""};
  }
  if (fact(Fact::nnodes)->text == "1" && !is_elastic_) {
    weigh_alone();
    return complete_single();
  }
  is_elastic_ ? complete_elastic() : complete_static();
  check_loopback();
}

void TopologyResolver::leave_own_rendezvous() {
  if (torchrun_ == nullptr) return;
  const auto& nnodes = fact(Fact::nnodes);
  if (nnodes && nnodes->text != "1" && nnodes->text != "1:1") return;
  const bool nowhere = torchrun_->facts.has(Fact::rdzv_backend) && !fact(Fact::rdzv_endpoint) &&
                       !fact(Fact::master_addr) && !fact(Fact::node_rank);
  if (!torchrun_->meets_itself && !nowhere) return;
  fact(Fact::rdzv_backend).reset();
  fact(Fact::rdzv_endpoint).reset();
}

void TopologyResolver::use_static_endpoint() {
  auto& endpoint = fact(Fact::rdzv_endpoint);
  if (torchrun_ == nullptr || !torchrun_->facts.has(Fact::rdzv_endpoint) || !endpoint) return;
  const auto& backend = fact(Fact::rdzv_backend);
  const auto& nnodes = fact(Fact::nnodes);
  if (backend ? backend->text != "static" : nnodes && nnodes->text.find(':') != std::string::npos) return;
  const auto [host, port] = split_host_port(endpoint->text);
  fact(Fact::master_addr) = Value{std::string(host.empty() ? std::string_view(endpoint->text) : host),
                                  endpoint->origin, endpoint->detail};
  if (!port.empty()) fact(Fact::master_port) = Value{std::string(port), endpoint->origin, endpoint->detail};
  endpoint.reset();
}

bool TopologyResolver::check_nnodes() {
  const auto& backend = fact(Fact::rdzv_backend);
  is_elastic_ = backend && backend->text != "static";
  auto& nnodes = fact(Fact::nnodes);
  if (!nnodes) return true;
  const auto [least, most] = min_and_max(nnodes->text);
  const auto min = parse_count(least), max = parse_count(most);
  if (!min || !max || *min == 0 || *max < *min) {
    const char* why =
        min && max && *min != 0 ? "has MIN above MAX" : "is not a number of nodes, N or MIN:MAX";
    fault(fmt::format("{} {}", in_words(Fact::nnodes, *nnodes), why), {name_of(Fact::nnodes, *nnodes)},
          "correct it, or settle it with --nnodes (RANKSHIM_NNODES)");
    return false;
  }
  if (*min < *max) {
    if (backend && backend->text == "static") {
      fault(fmt::format("{} is a range, but {}", in_words(Fact::nnodes, *nnodes),
                        in_words(Fact::rdzv_backend, *backend)),
            {name_of(Fact::nnodes, *nnodes), name_of(Fact::rdzv_backend, *backend)},
            "set --nnodes (RANKSHIM_NNODES) to one number, or --rdzv-backend=c10d (RANKSHIM_RDZV_BACKEND)");
      return false;
    }
    is_elastic_ = true;
  } else if (!is_elastic_) {
    nnodes->text = fmt::format("{}", *min);
  }
  return true;
}

bool TopologyResolver::shows_others() {
  std::string shown_by;
  std::vector<std::string> names;
  const auto add = [&](std::string_view text, std::string variable) {
    shown_by += fmt::format("{}{}", shown_by.empty() ? "" : ", ", text);
    names.push_back(std::move(variable));
  };
  for (const Fact known : {Fact::node_rank, Fact::master_addr, Fact::rdzv_endpoint}) {
    const auto& value = fact(known);
    if (!value || (known == Fact::master_addr && is_loopback(value->text))) continue;
    // The flags of a torchrun on a single node are often complete: --node_rank=0 without --nnodes.
    if (known == Fact::node_rank && torchrun_ != nullptr && torchrun_->facts.has(known) && value->text == "0")
      continue;
    add(in_words(known, *value), name_of(known, *value));
  }
  if (names.empty()) return false;
  // An address of this node has no name.
  if (facts().has(Fact::master_addr) && fact(Fact::master_addr)->origin == Origin::derived &&
      has_own_words()) {
    const platform::Causes causes = this->causes();
    shown_by += fmt::format(" of {} ({})", platform_.name, causes.text);
    names.insert(names.end(), causes.names.begin(), causes.names.end());
  }
  const Missing missing = this->missing(Fact::nnodes, names);
  for (const char* generic : {"NNODES", "WORLD_SIZE"}) names.emplace_back(generic);
  const char* says = shown_by.find(", ") == std::string::npos ? "says" : "say";
  fault(fmt::format("{} {} that there are other nodes, but their number is unknown{}", shown_by, says,
                    missing.why),
        names,
        fmt::format("{}set NNODES on every node, or --nnodes (RANKSHIM_NNODES=1 if this node is alone)",
                    missing.remedy));
  return true;
}

bool TopologyResolver::platform_lacks_nnodes() {
  if (!has_own_words()) return false;
  std::vector<std::string> names;
  const Missing missing = this->missing(Fact::nnodes, names);
  if (!missing.is_expected) return false;
  const platform::Causes causes = this->causes();
  names.insert(names.end(), causes.names.begin(), causes.names.end());
  fault(fmt::format("this is {} ({}), but the number of nodes is unknown{}", platform_.name, causes.text,
                    missing.why),
        names,
        fmt::format("{}set NNODES on every node, or --nnodes (RANKSHIM_NNODES=1 if this node is alone)",
                    missing.remedy));
  return true;
}

void TopologyResolver::complete_single() {
  if (const auto& rank = fact(Fact::node_rank); rank && rank->text != "0") {
    fault(fmt::format("{} is not below {}", in_words(Fact::node_rank, *rank),
                      in_words(Fact::nnodes, *fact(Fact::nnodes))),
          {name_of(Fact::node_rank, *rank), name_of(Fact::nnodes, *fact(Fact::nnodes))}, settle_nodes);
    return;
  }
  if (!fact(Fact::node_rank)) fact(Fact::node_rank) = Value{"0", Origin::fallback, ""};
  if (!fact(Fact::master_addr)) fact(Fact::master_addr) = Value{"127.0.0.1", Origin::fallback, ""};
  hosts_master_ = true;
  is_alone_ = true;
  complete_run_id();
  if (check_port() && !fact(Fact::master_port)) {
    constexpr std::uint16_t torch_port = 29500;
    constexpr std::uint16_t last_tried = torch_port + 100;
    std::uint16_t port = torch_port;
    while (port < last_tried && !node_.take_port(port)) ++port;
    fact(Fact::master_port) = port == torch_port
                                  ? Value{"29500", Origin::fallback, ""}
                                  : Value{fmt::format("{}", port), Origin::derived, "29500, which is in use"};
  }
}

void TopologyResolver::complete_static() {
  const Value nnodes = *fact(Fact::nnodes);
  const auto& rank = fact(Fact::node_rank);
  if (!rank) {
    std::vector<std::string> names = {name_of(Fact::nnodes, nnodes), "NODE_RANK", "RANK"};
    Missing missing = this->missing(Fact::node_rank, names);
    if (const auto& endpoint = fact(Fact::rdzv_endpoint); endpoint && !fact(Fact::rdzv_backend)) {
      missing.why += fmt::format(", and without PET_RDZV_BACKEND the nodes do not rank themselves at {}",
                                 endpoint->text);
      missing.remedy += "set --rdzv-backend (RANKSHIM_RDZV_BACKEND), or ";
      names.emplace_back("PET_RDZV_BACKEND");
    }
    fault(fmt::format("{}, but this node's rank is unknown{}", in_words(Fact::nnodes, nnodes), missing.why),
          names,
          nnodes.detail == "WORLD_SIZE"
              ? fmt::format("{}set NNODES and NODE_RANK (0 on the master), or --nnodes and --node-rank "
                            "(RANKSHIM_NNODES, RANKSHIM_NODE_RANK)",
                            missing.remedy)
              : fmt::format("{}set NODE_RANK (0 on the master), or --node-rank (RANKSHIM_NODE_RANK)",
                            missing.remedy));
  } else if (const auto number = parse_count(rank->text); !number || *number >= *parse_count(nnodes.text)) {
    fault(number ? fmt::format("{} is not below {}", in_words(Fact::node_rank, *rank),
                               in_words(Fact::nnodes, nnodes))
                 : fmt::format("{} is not a number", in_words(Fact::node_rank, *rank)),
          {name_of(Fact::node_rank, *rank), name_of(Fact::nnodes, nnodes)}, settle_nodes);
  } else {
    hosts_master_ = *number == 0;
  }
  if (!fact(Fact::master_addr) && platform_.command_finds_master) return;
  if (!fact(Fact::master_addr)) {
    std::vector<std::string> names = {name_of(Fact::nnodes, nnodes), "MASTER_ADDR"};
    const Missing missing = this->missing(Fact::master_addr, names);
    fault(
        fmt::format("{}, but the master's address is unknown{}", in_words(Fact::nnodes, nnodes), missing.why),
        names,
        fmt::format("{}set MASTER_ADDR to node 0's name or address, or --master-addr (RANKSHIM_MASTER_ADDR)",
                    missing.remedy));
    return;
  }
  if (!check_master_addr()) return;
  complete_run_id();
  complete_port();
}

bool TopologyResolver::check_master_addr() {
  auto& master = fact(Fact::master_addr);
  master->text = std::string(without_brackets(master->text));
  if (names_nothing(master->text)) {
    fault(fmt::format("{} is what a program writes for an address that it does not have",
                      in_words(Fact::master_addr, *master)),
          {name_of(Fact::master_addr, *master)},
          "set MASTER_ADDR to node 0's name or address, or --master-addr (RANKSHIM_MASTER_ADDR)");
    return false;
  }
  if (is_host(master->text)) return true;
  fault(fmt::format("{} is neither a host name nor an address", in_words(Fact::master_addr, *master)),
        {name_of(Fact::master_addr, *master)},
        "correct it (the port is MASTER_PORT's), or settle it with --master-addr (RANKSHIM_MASTER_ADDR)");
  return false;
}

void TopologyResolver::complete_elastic() {
  if (!fact(Fact::rdzv_backend)) fact(Fact::rdzv_backend) = Value{"c10d", Origin::derived, "nnodes"};
  auto& endpoint = fact(Fact::rdzv_endpoint);
  const bool has_endpoint = endpoint.has_value();
  if (has_endpoint) {
    const auto [host, port] = split_host_port(endpoint->text);
    const bool c10d = fact(Fact::rdzv_backend)->text == "c10d";
    if (host.empty() || names_nothing(host) ||
        (c10d && (!is_host(host) || (!port.empty() && !is_port(port))))) {
      fault(host.empty() || names_nothing(host)
                ? fmt::format("{} does not name a host", in_words(Fact::rdzv_endpoint, *endpoint))
                : fmt::format("{} is not HOST:PORT", in_words(Fact::rdzv_endpoint, *endpoint)),
            {name_of(Fact::rdzv_endpoint, *endpoint)},
            "correct it to HOST:PORT, or set --rdzv-endpoint (RANKSHIM_RDZV_ENDPOINT)");
      return;
    }
    fact(Fact::master_addr) = Value{std::string(host), Origin::derived, "rdzv_endpoint"};
    fact(Fact::master_port).reset();
    if (!port.empty()) {
      fact(Fact::master_port) = Value{std::string(port), Origin::derived, "rdzv_endpoint"};
    } else if (c10d && torchrun_ != nullptr && torchrun_->facts.has(Fact::rdzv_endpoint)) {
      // torchrun's default (elastic/rendezvous/c10d_rendezvous_backend.py).
      fact(Fact::master_port) = Value{"29400", Origin::fallback, ""};
    }
    normalise();
  } else if (!fact(Fact::master_addr)) {
    const Value nnodes = *fact(Fact::nnodes);
    std::vector<std::string> names = {name_of(Fact::nnodes, nnodes), "PET_RDZV_ENDPOINT"};
    const Missing missing = this->missing(Fact::master_addr, names);
    fault(fmt::format("{} is an elastic job, but its rendezvous endpoint is unknown{}",
                      in_words(Fact::nnodes, nnodes), missing.why),
          names, "set --rdzv-endpoint (RANKSHIM_RDZV_ENDPOINT) to HOST:PORT of one node");
    return;
  } else if (!check_master_addr()) {
    return;
  }
  check_elastic_rank();
  complete_run_id();
  fact(Fact::rdzv_id) = Value{fact(Fact::run_id)->text, Origin::derived, "run_id"};
  complete_port();
  if (!fact(Fact::master_port)) return;
  const std::string text = host_port(fact(Fact::master_addr)->text, fact(Fact::master_port)->text);
  if (!has_endpoint)
    endpoint = Value{text, Origin::derived, "master_addr and master_port"};
  else if (endpoint->text != text)
    *endpoint = Value{text, Origin::derived, endpoint->detail};
  decide_elastic_host();
}

void TopologyResolver::check_elastic_rank() {
  auto& rank = fact(Fact::node_rank);
  if (!rank) return;
  // A rank that the platform does not give is none: left over, it would make each node the host.
  const auto says = [&](Fact fact, Source source) {
    return std::any_of(claims_.begin(), claims_.end(),
                       [&](const Claim& claim) { return claim.fact == fact && claim.source == source; });
  };
  if (platform_is_elastic() && !rank->from_user() && !says(Fact::node_rank, Source::platform) &&
      !says(Fact::node_rank, Source::flag))
    return rank.reset();
  const auto max = parse_count(min_and_max(fact(Fact::nnodes)->text).second);
  const auto number = parse_count(rank->text);
  if (number && *number < max.value_or(0)) return;
  if (fact(Fact::nnodes)->from_user() && !rank->from_user()) return rank.reset();  // torch assigns the ranks
  // training-operator counts only the workers in PET_NNODES, but gives the master a rank too (elastic.go).
  fault(fmt::format("{} is not below {}", in_words(Fact::node_rank, *rank),
                    in_words(Fact::nnodes, *fact(Fact::nnodes))),
        {name_of(Fact::node_rank, *rank), name_of(Fact::nnodes, *fact(Fact::nnodes))},
        "correct one of them, or settle it with --nnodes (RANKSHIM_NNODES)");
}

void TopologyResolver::decide_elastic_host() {
  if (fact(Fact::rdzv_backend)->text != "c10d") {
    hosts_master_ = false;  // etcd is a separate service
    return;
  }
  const std::string& host = fact(Fact::master_addr)->text;
  const auto rank = parse_count(facts().text(Fact::node_rank));
  if (rank && !rank_0_is_elsewhere(host)) {
    hosts_master_ = *rank == 0;
  } else if (is_this_node(host)) {
    hosts_master_ = true;
  }
}

bool TopologyResolver::rank_0_is_elsewhere(std::string_view endpoint) const {
  if (!reads_variables_) return false;
  for (const char* variable : {"PET_MASTER_ADDR", "MASTER_ADDR"}) {
    const auto address = node_.environment().get(variable);
    if (address && !is_loopback(*address) && !same_host(*address, endpoint)) return true;
  }
  return false;
}

void TopologyResolver::check_loopback() {
  if (!faults_.empty() || hosts_master_.value_or(true)) return;
  const auto& master = fact(Fact::master_addr);
  if (!master || !is_loopback(master->text) || master->from_user()) return;
  if (is_localhost_name(master->text)) {
    fault(
        fmt::format("{} on node {} is this node itself, not the master", in_words(Fact::master_addr, *master),
                    facts().text(Fact::node_rank)),
        {name_of(Fact::master_addr, *master)},
        "set MASTER_ADDR to node 0's name or address, or --master-addr (RANKSHIM_MASTER_ADDR); 127.0.0.1 for "
        "a trial with all nodes on one machine");
  } else {
    topology_.warnings.push_back(
        fmt::format("{} is this machine itself, which is right only if all nodes are on it",
                    in_words(Fact::master_addr, *master)));
  }
}

}  // namespace rankshim
