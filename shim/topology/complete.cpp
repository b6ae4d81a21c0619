#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "base/text.h"
#include "platform/evaluation.h"
#include "topology/resolution.h"

namespace rankshim::topology {
namespace {

constexpr const char* set_nnodes =
    "set NNODES on every node, or --nnodes (RANKSHIM_NNODES=1 if this node is alone)";
constexpr const char* give_devices =
    "give the container its devices, or set --nproc-per-node (RANKSHIM_NPROC_PER_NODE)";

/// Removes the rendezvous of a torchrun that meets only itself (--standalone, c10d without an endpoint).
Added leave_own_rendezvous(const Resolution& r) {
  Added added;
  if (r.torchrun == nullptr) return added;
  if (r.has(Fact::nnodes) && r.text(Fact::nnodes) != "1" && r.text(Fact::nnodes) != "1:1") return added;
  const bool nowhere = r.is_flag(Fact::rdzv_backend) && !r.has(Fact::rdzv_endpoint) &&
                       !r.has(Fact::master_addr) && !r.has(Fact::node_rank);
  if (!r.torchrun->meets_itself && !nowhere) return added;
  added.drop(Fact::rdzv_backend);
  added.drop(Fact::rdzv_endpoint);
  return added;
}

/// Whether the number of nodes is a range, or the rendezvous is not static.
bool is_elastic(const Resolution& r) {
  if (r.has(Fact::rdzv_backend)) return r.text(Fact::rdzv_backend) != "static";
  const auto [least, most] = min_and_max(r.text(Fact::nnodes));
  return parse_count(least) != parse_count(most);
}

/// Takes the master from --rdzv_endpoint, where torchrun's static rendezvous is if the flag is given
/// (torch/distributed/run.py, get_rdzv_endpoint, and elastic/rendezvous/static_tcp_rendezvous.py).
Added use_static_endpoint(const Resolution& r) {
  Added added;
  const auto& endpoint = r.topology.facts[Fact::rdzv_endpoint];
  if (!r.is_flag(Fact::rdzv_endpoint) || !endpoint || is_elastic(r)) return added;
  const auto [host, port] = split_host_port(endpoint->text);
  added.set(Fact::master_addr, {std::string(host.empty() ? std::string_view(endpoint->text) : host),
                                endpoint->origin, endpoint->detail});
  if (!port.empty()) added.set(Fact::master_port, {std::string(port), endpoint->origin, endpoint->detail});
  added.drop(Fact::rdzv_endpoint);
  return added;
}

/// Checks that nnodes is "N" or "MIN:MAX".
Added check_nnodes(const Resolution& r) {
  if (!r.has(Fact::nnodes)) return {};
  const auto [least, most] = min_and_max(r.text(Fact::nnodes));
  const auto min = parse_count(least), max = parse_count(most);
  if (!min || !max || *min == 0 || *max < *min) {
    const bool is_range = min && max && *min != 0;
    return {refusal(
        ErrorCode::no_number,
        r.said(Fact::nnodes) + (is_range ? " has MIN above MAX" : " is not a number of nodes, N or MIN:MAX"),
        "correct it, or " + settle(Fact::nnodes))};
  }
  if (*min < *max && r.text(Fact::rdzv_backend) == "static")
    return {refusal(
        ErrorCode::contradiction, r.said(Fact::nnodes) + " is a range, but " + r.said(Fact::rdzv_backend),
        "set --nnodes (RANKSHIM_NNODES) to one number, or --rdzv-backend=c10d (RANKSHIM_RDZV_BACKEND)")};
  Added added;
  Value nnodes = *r.topology.facts[Fact::nnodes];
  nnodes.text = std::to_string(*min);
  if (!is_elastic(r)) added.set(Fact::nnodes, std::move(nnodes));
  return added;
}

/// Turns "auto", "gpu" and "cpu" into numbers.
Added count_workers(const Resolution& r) {
  Added added;
  const auto& nproc = r.topology.facts[Fact::nproc_per_node];
  const std::string wanted = nproc ? nproc->text : "auto";
  if (wanted == "cpu") {
    const node::DeviceCount cpus = r.host.cpus();
    added.set(Fact::nproc_per_node, {std::to_string(cpus.count), Origin::devices, cpus.what});
    return added;
  }
  // The user's number is final, and a single worker needs no accelerator: no need to look for any.
  const unsigned number = parse_count(wanted).value_or(0);
  if (number != 0 && (nproc->from_user() || number == 1)) return added;
  const auto visible = r.host.accelerators();
  if (wanted == "auto" || (wanted == "gpu" && visible)) {
    if (!nproc) added.add(warn_of_near_misses(r, Fact::nproc_per_node));
    added.set(Fact::nproc_per_node,
              visible ? Value{std::to_string(visible->count), Origin::devices, visible->what} : Value{"1"});
  } else if (wanted == "gpu") {
    added.add(refusal(ErrorCode::devices,
                      r.said(Fact::nproc_per_node) + ", but this node has no visible accelerator",
                      give_devices));
  } else if (number == 0) {
    added.add(refusal(ErrorCode::no_number,
                      r.said(Fact::nproc_per_node) + " is not a number of workers, auto, gpu or cpu",
                      "correct it, or " + settle(Fact::nproc_per_node)));
  } else if (visible && number > visible->count) {
    added.add(refusal(
        ErrorCode::devices,
        r.said(Fact::nproc_per_node) + Phrase(fmt::format(", but only {} accelerators are visible here ({})",
                                                          visible->count, visible->what),
                                              {visible->what}),
        give_devices));
  }
  return added;
}

/// Refuses to assume one node if something shows other nodes but not how many, or if the platform's own
/// variable for their number is not set.
Findings check_for_nnodes(const Resolution& r) {
  Phrase shown("");
  unsigned count = 0;  // of the facts in it
  bool shows_others = false;
  for (const Fact known : {Fact::node_rank, Fact::master_addr, Fact::rdzv_endpoint}) {
    if (!r.has(known) || (known == Fact::master_addr && is_loopback(r.text(known)))) continue;
    const bool is_first_node = known == Fact::node_rank && r.text(known) == "0";
    // On a single node, torchrun is often given --node_rank=0 without --nnodes.
    if (is_first_node && r.is_flag(known)) continue;
    shown.list(r.said(known));
    ++count;
    shows_others = shows_others || !is_first_node;
  }
  const bool is_known = count != 0;
  if (!is_known && !r.has_own_words()) return {};
  const Missing missing = why_missing(r, Fact::nnodes);
  if (!is_known && !missing.is_expected) return {};
  Phrase what = "this is " + r.recognised() + ", but the number of nodes is unknown";
  if (shows_others) {
    what = std::move(shown);
    // A derived address names no variable, so the platform is named instead.
    if (r.has_own_words() && r.has(Fact::master_addr) &&
        r.topology.facts[Fact::master_addr]->origin == Origin::derived)
      what += " of " + r.recognised();
    what += count == 1 ? " shows" : " show";
    what += " that there are other nodes, but not how many";
  } else if (is_known) {
    what = std::move(shown);
    what += " is this node's rank, but the number of nodes is unknown";
  }
  return refusal(ErrorCode::nnodes_unknown, what + missing.why, missing.remedy + set_nnodes);
}

void complete_single(Resolution& r) {
  r.add(weigh_alone(r));
  r.add(unless_known(r, Fact::node_rank, {"0"}));
  r.add(unless_known(r, Fact::master_addr, {"127.0.0.1"}));
  r.add(check_below(r, Fact::node_rank, Fact::nnodes));
  r.topology.part = LoneNode{r.user_says_alone()};
  complete_meeting(r, true);
}

/// The end of a fix, if a leftover number of nodes may be the cause.
std::string_view or_if_alone(const Resolution& r) {
  return r.is_users(Fact::nnodes) || r.is_flag(Fact::nnodes) ? "" : if_alone;
}

/// Refuses a node of a static job without a valid rank.
Findings check_for_node_rank(const Resolution& r) {
  if (r.has(Fact::node_rank)) return check_below(r, Fact::node_rank, Fact::nnodes);
  Missing missing = why_missing(r, Fact::node_rank);
  if (r.has(Fact::rdzv_endpoint) && !r.has(Fact::rdzv_backend)) {
    missing.why += Phrase(fmt::format(", and without PET_RDZV_BACKEND the nodes do not rank themselves at {}",
                                      r.text(Fact::rdzv_endpoint)),
                          {"PET_RDZV_BACKEND"});
    missing.remedy += "set --rdzv-backend (RANKSHIM_RDZV_BACKEND), or ";
  }
  const bool is_world_size = r.topology.facts[Fact::nnodes]->is_variable(variable_of(Fact::world_size));
  const std::string set_rank =
      is_world_size ? fmt::format("set NNODES and NODE_RANK (0 on the master), or {}", settle_nodes)
                    : "set NODE_RANK (0 on the master), or --node-rank (RANKSHIM_NODE_RANK)";
  return refusal(ErrorCode::rank_unknown,
                 r.said(Fact::nnodes) + ", but this node's rank is unknown" + missing.why,
                 fmt::format("{}{}{}", missing.remedy, set_rank, or_if_alone(r)));
}

/// Refuses a static job without a valid master.
Added check_for_master(const Resolution& r) {
  if (r.has(Fact::master_addr)) return check_master_addr(r);
  const Missing missing = why_missing(r, Fact::master_addr);
  return {refusal(ErrorCode::master_unknown,
                  r.said(Fact::nnodes) + ", but the master's address is unknown" + missing.why,
                  fmt::format("{}{}{}", missing.remedy, set_master_addr, or_if_alone(r)))};
}

void complete_static(Resolution& r) {
  r.add(check_for_node_rank(r));
  r.topology.part = StaticNode{.nodes = r.number(Fact::nnodes),
                               .rank = r.number(Fact::node_rank),
                               .workers = r.number(Fact::nproc_per_node),
                               .max_restarts = r.number(Fact::max_restarts)};
  if (!r.has(Fact::master_addr) && r.platform.command_finds_master) return;
  if (r.add(check_for_master(r))) complete_meeting(r, r.known(Fact::node_rank).value_or(0) == 0);
}

/// Whether node 0 is not the endpoint's host: an elastic PyTorchJob with a master gives the master rank 0,
/// but its rendezvous is at the first worker (kubeflow/trainer@v1.9.4:pkg/controller.v1/pytorch/elastic.go).
bool rank_0_is_elsewhere(const Resolution& r) {
  return r.reads_variables() &&
         std::ranges::any_of(std::array{"PET_MASTER_ADDR", "MASTER_ADDR"}, [&](const char* variable) {
           const auto address = r.host.environment().get(variable);
           return address && !is_loopback(*address) && !same_host(*address, r.text(Fact::master_addr));
         });
}

/// Whether this node hosts c10d's store, which is at the endpoint: node 0 does if there are ranks, else the
/// node whose name or address the endpoint has. nullopt if neither is known. False for etcd, which is a
/// separate service.
std::optional<bool> hosts_rendezvous(const Resolution& r) {
  if (r.text(Fact::rdzv_backend) != "c10d") return false;
  if (const auto rank = r.known(Fact::node_rank); rank && !rank_0_is_elsewhere(r)) return *rank == 0;
  return r.is_this_node(r.text(Fact::master_addr)) ? std::optional(true) : std::nullopt;
}

Added check_elastic_rank(const Resolution& r) {
  if (!r.has(Fact::node_rank)) return {};
  // Only the platform's rank counts: a leftover one would make every node the host.
  const bool is_platforms = std::ranges::any_of(r.claims, [](const Claim& claim) {
    return claim.fact == Fact::node_rank && claim.source == Source::platform;
  });
  const auto number = r.known(Fact::node_rank);
  const bool is_below = number && number < parse_count(min_and_max(r.text(Fact::nnodes)).second);
  const bool is_left_over = (r.platform_is_elastic() && !is_platforms) ||
                            (!is_below && r.is_users(Fact::nnodes));  // torch assigns the ranks
  if (!r.is_users(Fact::node_rank) && is_left_over) {
    Added added;
    added.drop(Fact::node_rank);
    return added;
  }
  // training-operator counts only the workers in PET_NNODES, but gives the master a rank too (elastic.go).
  return {check_below(r, Fact::node_rank, Fact::nnodes, settle(Fact::nnodes))};
}

/// Takes the master from the endpoint, which must name one.
Added use_endpoint(const Resolution& r) {
  const auto [host, port] = split_host_port(r.text(Fact::rdzv_endpoint));
  if (!is_host(host) || (!port.empty() && !is_port(port)))
    return {refusal(ErrorCode::no_host,
                    r.said(Fact::rdzv_endpoint) + " does not name a host and a port, as HOST:PORT",
                    "correct it to HOST:PORT, or set --rdzv-endpoint (RANKSHIM_RDZV_ENDPOINT)")};
  Added added;
  added.set(Fact::master_addr, {std::string(host), Origin::derived, "rdzv_endpoint"});
  if (!port.empty())
    added.set(Fact::master_port, {std::string(port), Origin::derived, "rdzv_endpoint"});
  else if (r.text(Fact::rdzv_backend) == "c10d" && r.is_flag(Fact::rdzv_endpoint))
    added.set(Fact::master_port, {"29400"});  // elastic/rendezvous/c10d_rendezvous_backend.py
  else
    added.drop(Fact::master_port);
  return added;
}

/// Refuses an elastic job without a valid place to meet.
Added check_for_endpoint(const Resolution& r) {
  if (r.has(Fact::rdzv_endpoint)) return use_endpoint(r);
  if (r.has(Fact::master_addr)) return check_master_addr(r);
  const Missing missing = why_missing(r, Fact::master_addr);
  return {refusal(
      ErrorCode::master_unknown,
      r.said(Fact::nnodes) +
          Phrase(" is an elastic job, but its rendezvous endpoint is unknown", {"PET_RDZV_ENDPOINT"}) +
          missing.why,
      "set --rdzv-endpoint (RANKSHIM_RDZV_ENDPOINT) to HOST:PORT of one node")};
}

/// Adds torchrun's names for the run id, and for where the nodes meet.
Added name_rendezvous(const Resolution& r) {
  Added added;
  added.set(Fact::rdzv_id, {std::string(r.text(Fact::run_id)), Origin::derived, "run_id"});
  const std::string meeting = host_port(r.text(Fact::master_addr), r.text(Fact::master_port));
  const auto& given = r.topology.facts[Fact::rdzv_endpoint];
  if (!given || given->text != meeting)
    added.set(Fact::rdzv_endpoint,
              {meeting, Origin::derived, given ? given->detail : "master_addr and master_port"});
  return added;
}

void complete_elastic(Resolution& r) {
  r.add(unless_known(r, Fact::rdzv_backend, {"c10d", Origin::derived, "nnodes"}));
  if (!r.add(check_for_endpoint(r))) return;
  r.add(check_elastic_rank(r));
  const auto [least, most] = min_and_max(r.text(Fact::nnodes));
  const auto hosts = hosts_rendezvous(r);
  r.topology.part = ElasticNode{.backend = std::string(r.text(Fact::rdzv_backend)),
                                .least = parse_count(least).value_or(1),
                                .most = parse_count(most).value_or(1),
                                .hosts_master = hosts};
  complete_meeting(r, hosts.value_or(true));
  r.add(name_rendezvous(r));
}

/// Refuses a process that lacks required numbers.
Findings check_complete(const Resolution& r) {
  Findings found;
  for (const Fact needed : {Fact::rank, Fact::world_size, Fact::local_rank}) {
    if (r.known(needed)) continue;
    if (r.has(needed)) {
      found.add(refusal(ErrorCode::no_number, r.said(needed) + " is not a number",
                        fmt::format("correct it, or {}", settle_process)));
      continue;
    }
    const Missing missing = why_missing(r, needed);
    found.add(refusal(
        ErrorCode::rank_unknown,
        r.recognised() + " has started this process, but " + std::string(name(needed)) + " is unknown" +
            missing.why,
        fmt::format("{}{}{}", missing.remedy,
                    missing.unset.empty() ? "" : fmt::format("set {}, or ", missing.unset), settle_process)));
  }
  return found;
}

/// Refuses the user's claim that the node is alone if it cannot be true.
Findings check_alone(const Resolution& r) {
  const bool one_node = std::ranges::any_of(r.claims, [](const Claim& claim) {
    return claim.fact == Fact::nnodes && claim.source != Source::user && claim.value.text == "1";
  });
  const unsigned here = r.number(Fact::local_world_size);
  if (!r.user_says_alone() || one_node || here == 0 || here >= r.number(Fact::world_size)) return {};
  return refusal(ErrorCode::not_alone,
                 r.said(Fact::nnodes) + ", but " + r.said(Fact::local_world_size) + " is not all of " +
                     r.said(Fact::world_size) + ", so there are other nodes",
                 "start this node's processes alone, or take RANKSHIM_NNODES (--nnodes) out");
}

/// Checks that each node has at least one of the job's processes, whoever says how many nodes there are.
Findings check_enough_processes(const Resolution& r) {
  const unsigned least = parse_count(min_and_max(r.text(Fact::nnodes)).first).value_or(0);
  const unsigned here = std::max(r.number(Fact::local_world_size), 1U);
  if (least <= 1 || here + (least - 1) <= r.number(Fact::world_size)) return {};
  Phrase processes = r.said(Fact::world_size);
  if (r.has(Fact::local_world_size)) processes += " and " + r.said(Fact::local_world_size);
  const Phrase what = r.said(Fact::nnodes) + " contradicts " + processes + ", too few for one on each node";
  std::string fix = correct(what) + ", or " + settle(Fact::nnodes);
  if (r.is_users(Fact::nnodes))
    fix =
        fmt::format("start processes on all nodes, or {}",
                    r.has_own_words()
                        ? "set --platform=generic (RANKSHIM_PLATFORM) if this process is its node's launcher"
                        : settle_nodes);
  return refusal(ErrorCode::contradiction, what, std::move(fix));
}

/// Checks the number of processes on this node.
Findings check_local_size(const Resolution& r) {
  const unsigned world = r.number(Fact::world_size), local = r.number(Fact::local_world_size);
  Findings found;
  if (local == 0 || r.is_users(Fact::local_world_size)) return found;
  const auto contradicts = [&](Fact other, const Phrase& more) {
    if (r.is_users(other)) return;  // a value that the user set needs no warning
    const Phrase what = r.said(Fact::local_world_size) + " contradicts " + r.said(other) + more;
    found.add(refusal(ErrorCode::contradiction, what, correct(what) + ", or " + settle(other)));
  };
  const auto nnodes = r.known(Fact::nnodes), nproc = r.known(Fact::nproc_per_node);
  if (nnodes == 1U && local != world) contradicts(Fact::nnodes, " and " + r.said(Fact::world_size));
  const bool even = !nnodes || *nnodes * local == world;
  if (nproc && *nproc != local && even) contradicts(Fact::nproc_per_node, "");
  return found;
}

Findings check_numbers_of_process(const Resolution& r) {
  Findings found = check_below(r, Fact::rank, Fact::world_size, settle_process);
  if (r.number(Fact::rank) < r.number(Fact::local_rank)) {
    const Phrase what = r.said(Fact::rank) + " is below " + r.said(Fact::local_rank) +
                        ", but a node has no more processes than the job";
    found.add(
        refusal(ErrorCode::not_below, what,
                fmt::format("{}, or {}", correct(what), r.has_own_words() ? settle_process : settle_nodes)));
  }
  if (r.has(Fact::local_world_size))
    found.add(check_below(r, Fact::local_rank, Fact::local_world_size, settle_process));
  if (r.known(Fact::node_rank) && r.known(Fact::nnodes))
    found.add(check_below(r, Fact::node_rank, Fact::nnodes));
  if (found.faults.empty()) found.add(check_enough_processes(r));
  if (found.faults.empty()) found.add(check_local_size(r));
  return found;
}

/// Refuses a process without a valid address of rank 0, unless it is the whole job.
Added check_for_rank_0(const Resolution& r) {
  if (r.has(Fact::master_addr)) return r.number(Fact::world_size) == 1 ? Added{} : check_master_addr(r);
  Missing missing = why_missing(r, Fact::master_addr);
  for (const Fact of_one_node : {Fact::nnodes, Fact::local_world_size})  // on one node it would not matter
    std::ranges::move(why_missing(r, of_one_node).why.names, std::back_inserter(missing.why.names));
  return {refusal(ErrorCode::master_unknown,
                  r.said(Fact::world_size) + ", but the address of rank 0 is unknown" + missing.why,
                  missing.remedy + set_master_addr + (r.is_users(Fact::nnodes) ? "" : if_alone))};
}

/// Completes a process that is the whole job. It trains alone, and is checked like a lone node.
void complete_lone_process(Resolution& r) {
  r.add(unless_known(r, Fact::nnodes, {"1", Origin::derived, "world_size"}));
  r.add(unless_known(r, Fact::nproc_per_node, {"1", Origin::derived, "world_size"}));
  if (r.known(Fact::node_rank)) r.add(check_below(r, Fact::node_rank, Fact::nnodes));
  if (r.faults.empty()) r.add(weigh_alone(r));
}

}  // namespace

Missing why_missing(const Resolution& r, Fact fact) {
  std::vector<Fact> generic = {fact};
  // Variables that some people and platforms use for this fact, and others for something else.
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
    lack = platform::lack_of(*r.platform.profile, fact, r.host);
  std::vector<std::string>& reasons = lack.unusable;
  std::vector<std::string>& names = lack.names;
  const auto add = [&](const std::vector<std::string>& all, const char* one, const char* many) {
    if (!all.empty()) reasons.push_back(fmt::format("{} {}", joined(all), all.size() == 1 ? one : many));
  };
  add(lack.unset, "is not set", "are not set");
  add(lack.absent, "is not there", "are not there");
  for (const std::string& hint : hints) {
    const auto text = r.host.environment().get(hint);
    if (!text || contains(names, hint)) continue;
    reasons.push_back(fmt::format("{}={} may give it, but not for certain", hint, *text));
    names.push_back(hint);
  }
  const bool is_expected = !reasons.empty();
  for (NearMiss& miss : near_misses(r.host.environment(), generic)) {
    if (contains(lack.unset, miss.name)) continue;
    reasons.push_back(std::move(miss.text));
    names.push_back(std::move(miss.name));
  }
  std::ranges::transform(generic, std::back_inserter(names), variable_of);
  return {Phrase(reasons.empty() ? "" : ": " + joined(reasons, "; "), std::move(names)), lack.remedy,
          joined(lack.unset, " or "), is_expected};
}

Findings warn_of_near_misses(const Resolution& r, Fact fact) {
  Findings found;
  if (!r.reads_variables()) return found;
  for (const NearMiss& miss : near_misses(r.host.environment(), {&fact, 1}))
    found.warnings.push_back(miss.text + "; it is ignored");
  return found;
}

void complete_node(Resolution& r) {
  r.add(leave_own_rendezvous(r));
  r.add(use_static_endpoint(r));
  if (!r.add(check_nnodes(r))) return;
  r.add(count_workers(r));
  r.add(unless_known(r, Fact::max_restarts, {"0"}));
  if (!r.known(Fact::max_restarts))
    r.add(refusal(ErrorCode::no_number, r.said(Fact::max_restarts) + " is not a number",
                  "correct it, or " + settle(Fact::max_restarts)));
  if (!r.has(Fact::nnodes) && !r.add(check_for_nnodes(r))) return;
  r.add(unless_known(r, Fact::nnodes, {"1"}));
  if (is_elastic(r)) return complete_elastic(r);
  r.text(Fact::nnodes) == "1" ? complete_single(r) : complete_static(r);
}

void complete_process(Resolution& r) {
  if (!r.add(check_nnodes(r)) || !r.add(check_complete(r)) || !r.add(check_alone(r)) ||
      !r.add(check_numbers_of_process(r)))
    return;

  const unsigned world = r.number(Fact::world_size), rank = r.number(Fact::rank);
  r.topology.part = CreatedProcess{rank, world, r.number(Fact::local_rank)};
  if (r.text(Fact::nnodes) == "1" && !r.topology.facts[Fact::nnodes]->is_variable(variable_of(Fact::nnodes)))
    r.add(unless_known(r, Fact::local_world_size,
                       {std::to_string(world), Origin::derived, "world_size and nnodes"}));
  if (const unsigned local = r.number(Fact::local_world_size); local != 0) {
    r.add(
        unless_known(r, Fact::nproc_per_node, {std::to_string(local), Origin::derived, "local_world_size"}));
    if (world % local == 0)
      r.add(
          unless_known(r, Fact::nnodes,
                       {std::to_string(world / local), Origin::derived, "world_size and local_world_size"}));
  }
  if (world == 1) complete_lone_process(r);
  const bool one_node = r.text(Fact::nnodes) == "1";
  if (one_node && world != 1) r.add(warn_of_others(r));
  if (world == 1 || one_node) r.add(unless_known(r, Fact::master_addr, {"127.0.0.1"}));
  if (r.add(check_for_rank_0(r))) complete_meeting(r, rank == 0 || one_node);
}

}  // namespace rankshim::topology
