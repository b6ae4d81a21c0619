#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "base/text.h"
#include "platform/evaluation.h"
#include "topology/resolution.h"

namespace rankshim {
namespace {

constexpr const char* set_nnodes =
    "set NNODES on every node, or --nnodes (RANKSHIM_NNODES=1 if this node is alone)";
constexpr const char* give_devices =
    "give the container its devices, or set --nproc-per-node (RANKSHIM_NPROC_PER_NODE)";

/// A torchrun that meets only itself (--standalone, c10d without an endpoint) needs no rendezvous.
void leave_own_rendezvous(Resolution& r) {
  if (r.torchrun == nullptr) return;
  if (r.has(Fact::nnodes) && r.text(Fact::nnodes) != "1" && r.text(Fact::nnodes) != "1:1") return;
  const bool nowhere = r.is_flag(Fact::rdzv_backend) && !r.has(Fact::rdzv_endpoint) &&
                       !r.has(Fact::master_addr) && !r.has(Fact::node_rank);
  if (!r.torchrun->meets_itself && !nowhere) return;
  r.fact(Fact::rdzv_backend).reset();
  r.fact(Fact::rdzv_endpoint).reset();
}

/// The number of nodes is a range, or the rendezvous is not static.
bool is_elastic(const Resolution& r) {
  if (r.has(Fact::rdzv_backend)) return r.text(Fact::rdzv_backend) != "static";
  const auto [least, most] = min_and_max(r.text(Fact::nnodes));
  return parse_count(least) != parse_count(most);
}

/// torchrun's static rendezvous is at --rdzv_endpoint if that is given (torch/distributed/run.py,
/// get_rdzv_endpoint, and elastic/rendezvous/static_tcp_rendezvous.py).
void use_static_endpoint(Resolution& r) {
  auto& endpoint = r.fact(Fact::rdzv_endpoint);
  if (!r.is_flag(Fact::rdzv_endpoint) || !endpoint || is_elastic(r)) return;
  const auto [host, port] = split_host_port(endpoint->text);
  r.fact(Fact::master_addr) = {std::string(host.empty() ? std::string_view(endpoint->text) : host),
                               endpoint->origin, endpoint->detail};
  if (!port.empty()) r.fact(Fact::master_port) = {std::string(port), endpoint->origin, endpoint->detail};
  endpoint.reset();
}

/// nnodes is "N" or "MIN:MAX". Returns false, after a fault, if it is invalid.
bool check_nnodes(Resolution& r) {
  if (!r.has(Fact::nnodes)) return true;
  const auto [least, most] = min_and_max(r.text(Fact::nnodes));
  const auto min = parse_count(least), max = parse_count(most);
  if (!min || !max || *min == 0 || *max < *min) {
    r.refuse(ErrorCode::no_number,
             r.said(Fact::nnodes) +
                 (min && max && *min != 0 ? " has MIN above MAX" : " is not a number of nodes, N or MIN:MAX"),
             "correct it, or " + settle(Fact::nnodes));
    return false;
  }
  if (*min < *max && r.text(Fact::rdzv_backend) == "static") {
    r.refuse(ErrorCode::contradiction, r.said(Fact::nnodes) + " is a range, but " + r.said(Fact::rdzv_backend),
             "set --nnodes (RANKSHIM_NNODES) to one number, or --rdzv-backend=c10d (RANKSHIM_RDZV_BACKEND)");
    return false;
  }
  if (!is_elastic(r)) r.fact(Fact::nnodes)->text = std::to_string(*min);
  return true;
}

/// Makes "auto", "gpu" and "cpu" numbers.
void complete_nproc(Resolution& r) {
  auto& nproc = r.fact(Fact::nproc_per_node);
  const std::string wanted = nproc ? nproc->text : "auto";
  if (wanted == "cpu") {
    const DeviceCount cpus = r.node.cpus();
    nproc = {std::to_string(cpus.count), Origin::devices, cpus.what};
    return;
  }
  // What the user sets is final, and one worker needs no accelerator: there is nothing to look for.
  const unsigned number = parse_count(wanted).value_or(0);
  if (number != 0 && (nproc->from_user() || number == 1)) return;
  const auto visible = r.node.accelerators();
  if (wanted == "auto" || (wanted == "gpu" && visible)) {
    if (!nproc) warn_of_near_misses(r, Fact::nproc_per_node);
    nproc = visible ? Value{std::to_string(visible->count), Origin::devices, visible->what} : Value{"1"};
  } else if (wanted == "gpu") {
    r.refuse(ErrorCode::devices, r.said(Fact::nproc_per_node) + ", but this node has no visible accelerator",
             give_devices);
  } else if (number == 0) {
    r.refuse(ErrorCode::no_number,
             r.said(Fact::nproc_per_node) + " is not a number of workers, auto, gpu or cpu",
             "correct it, or " + settle(Fact::nproc_per_node));
  } else if (visible && number > visible->count) {
    r.refuse(
        ErrorCode::devices,
        r.said(Fact::nproc_per_node) + Phrase(fmt::format(", but only {} accelerators are visible here ({})",
                                                          visible->count, visible->what),
                                              {visible->what}),
        give_devices);
  }
}

/// Whether something shows other nodes although their number is not known, or the platform's own variable for
/// it is not set: then there is a fault, because to guess one node would be wrong.
bool lacks_nnodes(Resolution& r) {
  Phrase shown("");
  bool shows_others = false;
  for (const Fact known : {Fact::node_rank, Fact::master_addr, Fact::rdzv_endpoint}) {
    if (!r.has(known) || (known == Fact::master_addr && is_loopback(r.text(known)))) continue;
    const bool is_first_node = known == Fact::node_rank && r.text(known) == "0";
    // The flags of a torchrun on a single node are often complete: --node_rank=0 without --nnodes.
    if (is_first_node && r.is_flag(known)) continue;
    shown.list(r.said(known));
    shows_others = shows_others || !is_first_node;
  }
  const bool is_known = !shown.text.empty();
  if (!is_known && !r.has_own_words()) return false;
  const Missing missing = why_missing(r, Fact::nnodes);
  if (!is_known && !missing.is_expected) return false;
  Phrase what = "this is " + r.recognised() + ", but the number of nodes is unknown";
  if (shows_others) {
    what = std::move(shown);
    // An address of this node has no name.
    if (r.has_own_words() && r.has(Fact::master_addr) && r.fact(Fact::master_addr)->origin == Origin::derived)
      what += " of " + r.recognised();
    what += what.text.find(", ") == std::string::npos ? " says" : " say";
    what += " that there are other nodes, but their number is unknown";
  } else if (is_known) {
    what = std::move(shown);
    what += " is this node's rank, but the number of nodes is unknown";
  }
  r.refuse(ErrorCode::nnodes_unknown, what + missing.why, missing.remedy + set_nnodes);
  return true;
}

void complete_single(Resolution& r) {
  r.add(weigh_alone(r));
  r.fill(Fact::node_rank, {"0"});
  r.fill(Fact::master_addr, {"127.0.0.1"});
  check_below(r, Fact::node_rank, Fact::nnodes);
  r.topology.part = LoneNode{r.user_says_alone()};
  complete_meeting(r, true);
}

void complete_static(Resolution& r) {
  if (r.has(Fact::node_rank)) {
    check_below(r, Fact::node_rank, Fact::nnodes);
  } else {
    Missing missing = why_missing(r, Fact::node_rank);
    if (r.has(Fact::rdzv_endpoint) && !r.has(Fact::rdzv_backend)) {
      missing.why +=
          Phrase(fmt::format(", and without PET_RDZV_BACKEND the nodes do not rank themselves at {}",
                             r.text(Fact::rdzv_endpoint)),
                 {"PET_RDZV_BACKEND"});
      missing.remedy += "set --rdzv-backend (RANKSHIM_RDZV_BACKEND), or ";
    }
    r.refuse(ErrorCode::rank_unknown, r.said(Fact::nnodes) + ", but this node's rank is unknown" + missing.why,
             missing.remedy +
                 (r.fact(Fact::nnodes)->is_variable(variable_of(Fact::world_size))
                      ? fmt::format("set NNODES and NODE_RANK (0 on the master), or {}", settle_nodes)
                      : "set NODE_RANK (0 on the master), or --node-rank (RANKSHIM_NODE_RANK)") +
                 (r.is_users(Fact::nnodes) || r.is_flag(Fact::nnodes) ? "" : if_alone));
  }
  r.topology.part = StaticNode{.nodes = r.number(Fact::nnodes),
                               .rank = r.number(Fact::node_rank),
                               .workers = r.number(Fact::nproc_per_node),
                               .max_restarts = r.number(Fact::max_restarts)};
  if (!r.has(Fact::master_addr) && r.platform.command_finds_master) return;
  if (!r.has(Fact::master_addr)) {
    const Missing missing = why_missing(r, Fact::master_addr);
    return r.refuse(ErrorCode::master_unknown,
                    r.said(Fact::nnodes) + ", but the master's address is unknown" + missing.why,
                    missing.remedy + set_master_addr +
                        (r.is_users(Fact::nnodes) || r.is_flag(Fact::nnodes) ? "" : if_alone));
  }
  if (check_master_addr(r)) complete_meeting(r, r.known(Fact::node_rank).value_or(0) == 0);
}

/// Whether node 0 is another host than the endpoint's: an elastic PyTorchJob with a master gives the master
/// rank 0, but meets at its first worker (kubeflow/trainer@v1.9.4:pkg/controller.v1/pytorch/elastic.go).
bool rank_0_is_elsewhere(const Resolution& r) {
  return r.reads_variables() &&
         std::ranges::any_of(std::array{"PET_MASTER_ADDR", "MASTER_ADDR"}, [&](const char* variable) {
           const auto address = r.node.environment().get(variable);
           return address && !is_loopback(*address) && !same_host(*address, r.text(Fact::master_addr));
         });
}

/// The store of c10d is at the endpoint: node 0 if there are ranks, else the node whose name or address it
/// is. nullopt if neither says so. etcd is a separate service.
std::optional<bool> hosts_rendezvous(const Resolution& r) {
  if (r.text(Fact::rdzv_backend) != "c10d") return false;
  if (const auto rank = r.known(Fact::node_rank); rank && !rank_0_is_elsewhere(r)) return *rank == 0;
  return r.is_this_node(r.text(Fact::master_addr)) ? std::optional(true) : std::nullopt;
}

void check_elastic_rank(Resolution& r) {
  if (!r.has(Fact::node_rank)) return;
  // A rank that the platform does not give is none: left over, it would make each node the host.
  const bool is_platforms = std::ranges::any_of(r.claims, [](const Claim& claim) {
    return claim.fact == Fact::node_rank && claim.source == Source::platform;
  });
  const auto number = r.known(Fact::node_rank);
  const bool is_below = number && number < parse_count(min_and_max(r.text(Fact::nnodes)).second);
  if (!r.is_users(Fact::node_rank) && ((r.platform_is_elastic() && !is_platforms) ||
                                       (!is_below && r.is_users(Fact::nnodes))))  // torch assigns the ranks
    return r.fact(Fact::node_rank).reset();
  // training-operator counts only the workers in PET_NNODES, but gives the master a rank too (elastic.go).
  check_below(r, Fact::node_rank, Fact::nnodes, settle(Fact::nnodes));
}

/// Takes the master from the endpoint. Returns false, after a fault, if it names none.
bool use_endpoint(Resolution& r) {
  const auto [host, port] = split_host_port(r.text(Fact::rdzv_endpoint));
  if (!is_host(host) || (!port.empty() && !is_port(port))) {
    r.refuse(ErrorCode::no_host, r.said(Fact::rdzv_endpoint) + " does not name a host as HOST:PORT",
             "correct it to HOST:PORT, or set --rdzv-endpoint (RANKSHIM_RDZV_ENDPOINT)");
    return false;
  }
  r.fact(Fact::master_addr) = {std::string(host), Origin::derived, "rdzv_endpoint"};
  r.fact(Fact::master_port).reset();
  if (!port.empty())
    r.fact(Fact::master_port) = {std::string(port), Origin::derived, "rdzv_endpoint"};
  else if (r.text(Fact::rdzv_backend) == "c10d" && r.is_flag(Fact::rdzv_endpoint))
    r.fill(Fact::master_port, {"29400"});  // elastic/rendezvous/c10d_rendezvous_backend.py
  return true;
}

void complete_elastic(Resolution& r) {
  r.fill(Fact::rdzv_backend, {"c10d", Origin::derived, "nnodes"});
  if (!r.has(Fact::rdzv_endpoint) && !r.has(Fact::master_addr)) {
    const Missing missing = why_missing(r, Fact::master_addr);
    return r.refuse(
        ErrorCode::master_unknown,
        r.said(Fact::nnodes) +
            Phrase(" is an elastic job, but its rendezvous endpoint is unknown", {"PET_RDZV_ENDPOINT"}) +
            missing.why,
        "set --rdzv-endpoint (RANKSHIM_RDZV_ENDPOINT) to HOST:PORT of one node");
  }
  if (!(r.has(Fact::rdzv_endpoint) ? use_endpoint(r) : check_master_addr(r))) return;
  check_elastic_rank(r);
  const auto [least, most] = min_and_max(r.text(Fact::nnodes));
  const auto hosts = hosts_rendezvous(r);
  r.topology.part = ElasticNode{.backend = std::string(r.text(Fact::rdzv_backend)),
                                .least = parse_count(least).value_or(1),
                                .most = parse_count(most).value_or(1),
                                .hosts_master = hosts};
  complete_meeting(r, hosts.value_or(true));
  r.fact(Fact::rdzv_id) = {std::string(r.text(Fact::run_id)), Origin::derived, "run_id"};
  r.fill(Fact::rdzv_endpoint, {"", Origin::derived, "master_addr and master_port"});
  const std::string meeting = host_port(r.text(Fact::master_addr), r.text(Fact::master_port));
  if (auto& endpoint = *r.fact(Fact::rdzv_endpoint); endpoint.text != meeting)
    endpoint = {meeting, Origin::derived, endpoint.detail};
}

/// Refuses what a process cannot do without.
void check_complete(Resolution& r) {
  for (const Fact needed : {Fact::rank, Fact::world_size, Fact::local_rank}) {
    if (r.known(needed)) continue;
    if (r.has(needed)) {
      r.refuse(ErrorCode::no_number, r.said(needed) + " is not a number",
               fmt::format("correct it, or {}", settle_process));
      continue;
    }
    const Missing missing = why_missing(r, needed);
    r.refuse(
        ErrorCode::rank_unknown,
        r.recognised() + " has started this process, but " + std::string(name(needed)) + " is unknown" +
            missing.why,
        fmt::format("{}{}{}", missing.remedy,
                    missing.unset.empty() ? "" : fmt::format("set {}, or ", missing.unset), settle_process));
  }
}

/// Whether the user's word that the node is alone cannot be true.
bool has_other_nodes(const Resolution& r) {
  const bool one_node = std::ranges::any_of(r.claims, [](const Claim& claim) {
    return claim.fact == Fact::nnodes && claim.source != Source::user && claim.value.text == "1";
  });
  const unsigned here = r.number(Fact::local_world_size);
  return r.user_says_alone() && !one_node && here != 0 && here < r.number(Fact::world_size);
}

/// Each node has at least one of the job's processes, whoever says how many nodes there are.
void check_enough_processes(Resolution& r) {
  const unsigned least = parse_count(min_and_max(r.text(Fact::nnodes)).first).value_or(0);
  const unsigned here = std::max(r.number(Fact::local_world_size), 1U);
  if (least <= 1 || here + (least - 1) <= r.number(Fact::world_size)) return;
  Phrase processes = r.said(Fact::world_size);
  if (r.has(Fact::local_world_size)) processes += " and " + r.said(Fact::local_world_size);
  const Phrase what =
      r.said(Fact::nnodes) + " contradicts " + processes + ", which leave no process for each other node";
  std::string fix = correct(what) + ", or " + settle(Fact::nnodes);
  if (r.is_users(Fact::nnodes))
    fix =
        fmt::format("start processes on all nodes, or {}",
                    r.has_own_words()
                        ? "set --platform=generic (RANKSHIM_PLATFORM) if this process is its node's launcher"
                        : settle_nodes);
  r.refuse(ErrorCode::contradiction, what, std::move(fix));
}

/// Checks the number of processes on this node.
void check_local_size(Resolution& r) {
  const unsigned world = r.number(Fact::world_size), local = r.number(Fact::local_world_size);
  if (local == 0 || r.is_users(Fact::local_world_size)) return;
  const auto contradicts = [&](Fact other, const Phrase& more) {
    if (r.is_users(other)) return;  // a value that the user set needs no warning
    const Phrase what = r.said(Fact::local_world_size) + " contradicts " + r.said(other) + more;
    r.refuse(ErrorCode::contradiction, what, correct(what) + ", or " + settle(other));
  };
  const auto nnodes = r.known(Fact::nnodes), nproc = r.known(Fact::nproc_per_node);
  if (nnodes == 1U && local != world) contradicts(Fact::nnodes, " and " + r.said(Fact::world_size));
  const bool even = !nnodes || *nnodes * local == world;
  if (nproc && *nproc != local && even) contradicts(Fact::nproc_per_node, "");
}

void check_numbers_of_process(Resolution& r) {
  check_below(r, Fact::rank, Fact::world_size, settle_process);
  if (r.number(Fact::rank) < r.number(Fact::local_rank)) {
    const Phrase what = r.said(Fact::rank) + " is below " + r.said(Fact::local_rank) +
                        ", but a node has no more processes than the job";
    r.refuse(ErrorCode::not_below, what,
             fmt::format("{}, or {}", correct(what), r.has_own_words() ? settle_process : settle_nodes));
  }
  if (r.has(Fact::local_world_size)) check_below(r, Fact::local_rank, Fact::local_world_size, settle_process);
  if (r.known(Fact::node_rank) && r.known(Fact::nnodes)) check_below(r, Fact::node_rank, Fact::nnodes);
  if (r.faults.empty()) check_enough_processes(r);
  if (r.faults.empty()) check_local_size(r);
}

/// A process that is the whole job trains alone: this is weighed as for a node that is alone.
void complete_lone_process(Resolution& r) {
  r.fill(Fact::nnodes, {"1", Origin::derived, "world_size"});
  r.fill(Fact::nproc_per_node, {"1", Origin::derived, "world_size"});
  if (r.known(Fact::node_rank)) check_below(r, Fact::node_rank, Fact::nnodes);
  if (r.faults.empty()) r.add(weigh_alone(r));
}

}  // namespace

Missing why_missing(const Resolution& r, Fact fact) {
  std::vector<Fact> generic = {fact};
  // What some people and platforms use for it, and others for something else.
  std::vector<std::string> hints;
  if (fact == Fact::nnodes) {
    hints = {"NODE_COUNT", "NUM_NODES", variable_of(Fact::world_size)};
    generic.push_back(Fact::world_size);
  } else if (fact == Fact::node_rank) {
    hints = {"NODE_INDEX", "NODE_ID"};
    generic.push_back(Fact::rank);
  }

  platform::Lack lack;
  if (r.platform.profile != nullptr && r.platform.profile->kind != platform::ProfileKind::names)
    lack = platform::lack_of(*r.platform.profile, fact, r.node);
  std::vector<std::string>& reasons = lack.unusable;
  std::vector<std::string>& names = lack.names;
  const auto add = [&](const std::vector<std::string>& all, const char* one, const char* many) {
    if (!all.empty()) reasons.push_back(fmt::format("{} {}", joined(all), all.size() == 1 ? one : many));
  };
  add(lack.unset, "is not set", "are not set");
  add(lack.absent, "is not there", "are not there");
  for (const std::string& hint : hints) {
    const auto text = r.node.environment().get(hint);
    if (!text || contains(names, hint)) continue;
    reasons.push_back(fmt::format("{}={} may give it, but not for certain", hint, *text));
    names.push_back(hint);
  }
  const bool is_expected = !reasons.empty();
  for (NearMiss& miss : near_misses(r.node.environment(), generic)) {
    if (contains(lack.unset, miss.name)) continue;
    reasons.push_back(std::move(miss.text));
    names.push_back(std::move(miss.name));
  }
  std::ranges::transform(generic, std::back_inserter(names), variable_of);
  return {Phrase(reasons.empty() ? "" : ": " + joined(reasons, "; "), std::move(names)), lack.remedy,
          joined(lack.unset, " or "), is_expected};
}

void warn_of_near_misses(Resolution& r, Fact fact) {
  if (!r.reads_variables()) return;
  for (const NearMiss& miss : near_misses(r.node.environment(), {&fact, 1}))
    r.warn(miss.text + "; it is ignored");
}

void complete_node(Resolution& r) {
  leave_own_rendezvous(r);
  use_static_endpoint(r);
  if (!check_nnodes(r)) return;
  complete_nproc(r);
  r.fill(Fact::max_restarts, {"0"});
  if (!r.known(Fact::max_restarts))
    r.refuse(ErrorCode::no_number, r.said(Fact::max_restarts) + " is not a number",
             "correct it, or " + settle(Fact::max_restarts));
  if (!r.has(Fact::nnodes) && lacks_nnodes(r)) return;
  r.fill(Fact::nnodes, {"1"});
  if (is_elastic(r)) return complete_elastic(r);
  r.text(Fact::nnodes) == "1" ? complete_single(r) : complete_static(r);
}

void complete_process(Resolution& r) {
  if (!check_nnodes(r)) return;
  check_complete(r);
  if (!r.faults.empty()) return;
  if (has_other_nodes(r))
    return r.refuse(ErrorCode::not_alone,
                    r.said(Fact::nnodes) + ", but " + r.said(Fact::local_world_size) + " is not all of " +
                        r.said(Fact::world_size) + ", so there are other nodes",
                    "start this node's processes alone, or take RANKSHIM_NNODES (--nnodes) out");
  check_numbers_of_process(r);
  if (!r.faults.empty()) return;

  const unsigned world = r.number(Fact::world_size), rank = r.number(Fact::rank);
  r.topology.part = CreatedProcess{rank, world, r.number(Fact::local_rank)};
  if (r.text(Fact::nnodes) == "1" && !r.fact(Fact::nnodes)->is_variable(variable_of(Fact::nnodes)))
    r.fill(Fact::local_world_size, {std::to_string(world), Origin::derived, "world_size and nnodes"});
  if (const unsigned local = r.number(Fact::local_world_size); local != 0) {
    r.fill(Fact::nproc_per_node, {std::to_string(local), Origin::derived, "local_world_size"});
    if (world % local == 0)
      r.fill(Fact::nnodes,
             {std::to_string(world / local), Origin::derived, "world_size and local_world_size"});
  }
  if (world == 1) complete_lone_process(r);
  const bool one_node = r.text(Fact::nnodes) == "1";
  if (one_node && world != 1) r.add(warn_of_others(r));
  if (world == 1 || one_node) r.fill(Fact::master_addr, {"127.0.0.1"});
  if (!r.has(Fact::master_addr)) {
    Missing missing = why_missing(r, Fact::master_addr);
    for (const Fact of_one_node : {Fact::nnodes, Fact::local_world_size})  // there it would not matter
      std::ranges::move(why_missing(r, of_one_node).why.names, std::back_inserter(missing.why.names));
    return r.refuse(ErrorCode::master_unknown,
                    r.said(Fact::world_size) + ", but the address of rank 0 is unknown" + missing.why,
                    missing.remedy + set_master_addr + (r.is_users(Fact::nnodes) ? "" : if_alone));
  }
  if (world == 1 || check_master_addr(r)) complete_meeting(r, rank == 0 || one_node);
}

}  // namespace rankshim
