#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/text.h"
#include "platform/evaluation.h"
#include "topology/resolution.h"

namespace rankshim {

using platform::Granularity;

void Resolution::fault(Anchor anchor, std::string what, const std::vector<std::string>& names,
                       std::string fix) {
  std::vector<std::string> each;
  for (const std::string& name : names) Value{{}, Origin::derived, name}.append_inputs({}, each);
  for (auto one = each.begin(); one != each.end();)
    one = std::find(each.begin(), one, *one) == one ? one + 1 : each.erase(one);
  constexpr std::string_view of_two = "correct one of them";
  if (each.size() == 1 && fix.starts_with(of_two)) fix.replace(0, of_two.size(), "correct " + each.front());
  faults.push_back({anchor, std::move(what), std::move(each), std::move(fix)});
}

void Resolution::wrong(Anchor anchor, Fact fact, std::string_view why, std::string fix) {
  if (fix.empty()) fix = "correct it, or " + settle(fact);
  fault(anchor, fmt::format("{} {}", words(fact), why), {source(fact)}, std::move(fix));
}

void Resolution::clash(Anchor anchor, Fact one, std::string_view verb, Fact other, std::string fix) {
  fault(anchor, fmt::format("{} {} {}", words(one), verb, words(other)), {source(one), source(other)},
        std::move(fix));
}

bool user_says_alone(const Resolution& r) {
  const auto& nnodes = r.settings[Option::nnodes];
  return nnodes && parse_count(nnodes->text) == 1U && !r.settings[Option::rdzv_endpoint];
}

bool has_own_words(const Resolution& r) {
  return r.platform.profile != nullptr && r.platform.profile->has_own_words();
}

platform::Causes causes_of_platform(const Resolution& r) {
  return r.platform.profile == nullptr ? platform::Causes{}
                                       : platform::causes_of(*r.platform.profile, r.node);
}

bool is_mere_names(const Resolution& r) {
  return r.platform.profile != nullptr && r.platform.profile->kind == platform::ProfileKind::names;
}

bool platform_is_elastic(const Resolution& r) {
  const auto& backend = r.platform.facts[Fact::rdzv_backend];
  return backend && backend->text != "static";
}

RankVariables rank_variables(const Resolution& r) {
  RankVariables ranks = rankshim::rank_variables(r.node.environment());
  if (r.ignores_local_rank) {
    ranks.local_rank.reset();
    ranks.has_local_rank = false;
  }
  return ranks;
}

void normalise(Resolution& r) {
  for (const Fact number : {Fact::node_rank, Fact::nproc_per_node, Fact::master_port, Fact::max_restarts,
                            Fact::rank, Fact::world_size, Fact::local_rank, Fact::local_world_size}) {
    auto& value = r.fact(number);
    if (const auto count = value ? parse_count(value->text) : std::nullopt)
      value->text = std::to_string(*count);
  }
}

namespace {

/// With such a platform RANK and WORLD_SIZE may count anything: training-operator from 1.7 on counts
/// processes in them, and all pods if PET_NNODES does not include the master.
bool platform_sets_all(const Resolution& r) {
  const Facts& own = r.platform.facts;
  return !is_mere_names(r) && own.has(Fact::nnodes) && own.has(Fact::node_rank);
}

/// The platform has its own variables for the nodes. If they are not set, that is the fault, and RANK is no
/// substitute.
bool platform_has_words(const Resolution& r) {
  if (!has_own_words(r) || r.settings.text(Option::rank_unit) != "auto") return false;
  const auto provides = [&](Fact fact) {
    const auto facts = r.platform.profile->facts;
    return std::ranges::find(facts, fact, &platform::FactExpression::fact) != facts.end();
  };
  return provides(Fact::nnodes) && provides(Fact::node_rank);
}

/// If so, RANK and WORLD_SIZE add nothing, whatever they count.
bool user_sets_numbers(const Resolution& r) {
  return r.settings[Option::nnodes] &&
         (r.settings[Option::node_rank] || r.settings[Option::rdzv_endpoint] || user_says_alone(r));
}

/// Decides whether this is a process that something (DeepSpeed, Ray Train) has started, and not a node's
/// launcher. Adds a fault if that cannot be told, and a warning if LOCAL_RANK is left over.
void recognise_started_process(Resolution& r) {
  if (!r.reads_variables || r.idle || r.granularity != Granularity::node ||
      r.settings.text(Option::rank_unit) != "auto" || r.settings[Option::node_rank] ||
      platform_is_elastic(r) || (r.settings.text(Option::platform) != "auto" && has_own_words(r)))
    return;
  const auto known = [&](Fact fact) {
    const auto& value = r.platform.facts[fact] ? r.platform.facts[fact] : r.platform.names[fact];
    return value ? parse_count(value->text) : std::nullopt;
  };
  KnownNode node;
  node.nnodes = known(Fact::nnodes);
  node.node_rank = node.nnodes == 1U ? std::optional<unsigned>(0) : known(Fact::node_rank);
  node.workers = known(Fact::nproc_per_node);
  node.is_numbered_by_platform = has_own_words(r);
  node.is_read_from_rank = has_own_words(r) && r.platform.facts.has(Fact::node_rank) &&
                           r.platform.facts[Fact::node_rank]->detail == "RANK";
  const RankVariables ranks = rank_variables(r);
  switch (started_process(ranks, node)) {
    case StartedProcess::no:
      return;
    case StartedProcess::yes:
      r.is_started_process = true;
      r.torchrun = nullptr;
      return;
    case StartedProcess::left_over:
      r.ignores_local_rank = true;
      r.topology.warnings.push_back(fmt::format(
          "LOCAL_RANK={} is ignored: RANK={} and WORLD_SIZE={} are the node's; unset LOCAL_RANK, or set "
          "--rank-unit=process (RANKSHIM_RANK_UNIT) if something has started this process",
          *ranks.local_rank, *ranks.rank, *ranks.world_size));
      return;
    case StartedProcess::unclear:
      r.fault(
          Anchor::left_over,
          fmt::format("cannot tell whether RANK={}, WORLD_SIZE={} and LOCAL_RANK={} are left over, or number "
                      "a process that something has started on this node",
                      *ranks.rank, *ranks.world_size, *ranks.local_rank),
          {"RANK", "WORLD_SIZE", "LOCAL_RANK"},
          "unset RANK, WORLD_SIZE and LOCAL_RANK, or describe this node with --nnodes and --node-rank "
          "(RANKSHIM_NNODES, RANKSHIM_NODE_RANK), or set --rank-unit=process (RANKSHIM_RANK_UNIT)");
  }
}

/// Takes each fact from the claim that wins.
void take_winners(Resolution& r) {
  r.claims = collect_claims(r.settings, r.platform, r.torchrun);
  Circumstances circumstances;
  circumstances.elastic = platform_is_elastic(r);
  circumstances.started_process = r.is_started_process;
  circumstances.names_nnodes = r.torchrun == nullptr || r.torchrun->names_nnodes;
  circumstances.settled_by_user = user_sets_numbers(r);
  for (const Fact fact : all_facts) {
    Decision decision = decide(fact, r.claims, circumstances);
    if (decision.winner != nullptr) r.fact(fact) = decision.winner->value;
    std::move(decision.faults.begin(), decision.faults.end(), std::back_inserter(r.faults));
    std::move(decision.warnings.begin(), decision.warnings.end(), std::back_inserter(r.topology.warnings));
  }
}

/// A process that MPI has started is the node's launcher if it is the only one on its node: its rank is the
/// node's.
void become_launcher(Resolution& r) {
  const auto &world = r.fact(Fact::world_size), &rank = r.fact(Fact::rank), &local = r.fact(Fact::local_rank);
  if (r.granularity != Granularity::process || r.settings.text(Option::rank_unit) == "process" ||
      r.topology.facts.text(Fact::local_world_size) != "1" || !world || !rank || !parse_count(rank->text) ||
      r.number(Fact::world_size) == 0 ||
      (local && local->detail == "LOCAL_RANK"))  // a worker, by torch's name for it
    return;
  auto& nnodes = r.fact(Fact::nnodes);
  if (nnodes && !same_value(Fact::nnodes, nnodes->text, world->text))
    return;  // it would differ on other nodes
  auto& node_rank = r.fact(Fact::node_rank);
  if (node_rank && !node_rank->from_user() && !same_value(Fact::node_rank, node_rank->text, rank->text)) {
    r.fault(Anchor::contradiction,
            fmt::format("{} contradicts {}, the one process of its node", r.words(Fact::node_rank),
                        r.words(Fact::rank)),
            {r.source(Fact::node_rank), r.source(Fact::rank)},
            "correct one of them, or " + settle(Fact::node_rank));
    return;
  }
  if (!nnodes) nnodes = world;
  if (!node_rank) node_rank = rank;
  r.granularity = Granularity::node;
  for (const Fact of_process : {Fact::rank, Fact::world_size, Fact::local_rank, Fact::local_world_size})
    r.fact(of_process).reset();
}

/// Takes RANK and WORLD_SIZE where they count, and compares them where they do not.
void take_ranks(Resolution& r) {
  const std::string_view unit = r.settings.text(Option::rank_unit);
  if (r.is_started_process) {
    auto& workers = r.fact(Fact::nproc_per_node);  // the platform's; it has started as many as were requested
    if (workers && !workers->from_user() && workers->detail != "NPROC_PER_NODE") workers.reset();
    read_ranks(r, "process");
  } else if (r.reads_variables && !r.idle && r.granularity == Granularity::node && !platform_sets_all(r) &&
             !platform_has_words(r) && !user_sets_numbers(r)) {
    if (const auto wrong = r.torchrun == nullptr ? std::nullopt : check_beside_flags(r, unit)) {
      r.faults = {*wrong};
      return;
    }
    read_ranks(r, unit);
  }
  if (!r.idle) become_launcher(r);
  if (r.granularity == Granularity::process) r.torchrun = nullptr;
  if (!r.idle && r.settings.text(Option::platform) == "auto" && unit == "auto" && !r.is_started_process &&
      !user_says_alone(r) && (has_own_words(r) || r.node.environment().get("LOCAL_RANK")))
    check_ranks(r);
}

/// The user says that there is one node, which settles all else: another number, another master, a role
/// that waits for other nodes.
void become_alone(Resolution& r) {
  r.idle.reset();
  if (r.granularity == Granularity::process) return;
  r.is_alone_by_user = true;
  for (const Fact of_others : {Fact::node_rank, Fact::master_addr, Fact::rdzv_backend, Fact::rdzv_endpoint}) {
    auto& value = r.fact(of_others);
    const bool in_command = r.torchrun != nullptr && r.torchrun->facts.has(of_others);
    if (value && !value->from_user() && !in_command) value.reset();
  }
}

void note_unused(Resolution& r) {
  for (const Claim& claim : r.claims) {
    const auto& used = r.fact(claim.fact);
    if (used && same_value(claim.fact, used->text, claim.value.text)) continue;
    const bool is_listed = std::ranges::any_of(r.topology.unused, [&](const auto& one) {
      return one.first == claim.fact && one.second.source() == claim.value.source();
    });
    if (!is_listed) r.topology.unused.emplace_back(claim.fact, claim.value);
  }
}

/// Warns of a service link in the place of a port, and names the port that is used instead.
void warn_of_links_as_port(Resolution& r) {
  if (!r.fact(Fact::master_port)) return;
  for (std::string& warning : r.topology.warnings) {
    if (warning.ends_with(platform::link_ignored) && warning.find("PORT=") != std::string::npos)
      warning += "; " + r.words(Fact::master_port) + " is used";
  }
}

/// What was found, as the type that has just what exists.
Part part_of(const Resolution& r) {
  const Facts& facts = r.topology.facts;
  Master master{std::string(without_brackets(facts.text(Fact::master_addr))),
                static_cast<std::uint16_t>(r.number(Fact::master_port))};
  if (r.granularity == Granularity::process)
    return CreatedProcess{.master = std::move(master),
                          .rank = r.number(Fact::rank),
                          .world_size = r.number(Fact::world_size),
                          .local_rank = r.number(Fact::local_rank),
                          .local_world_size = r.known(Fact::local_world_size),
                          .nodes = r.known(Fact::nnodes),
                          .node_rank = r.known(Fact::node_rank)};
  const unsigned workers = r.number(Fact::nproc_per_node), restarts = r.number(Fact::max_restarts);
  if (r.is_alone) return LoneNode{std::move(master), workers, restarts, r.is_alone_by_user};
  const auto [least, most] = min_and_max(facts.text(Fact::nnodes));
  if (r.is_elastic)
    return ElasticNode{.master = std::move(master),
                       .backend = std::string(facts.text(Fact::rdzv_backend)),
                       .least = parse_count(least).value_or(1),
                       .most = parse_count(most).value_or(1),
                       .rank = r.known(Fact::node_rank),
                       .hosts_master = r.hosts_master,
                       .workers = workers,
                       .max_restarts = restarts};
  return StaticNode{.master = master.host.empty() ? std::nullopt : std::optional(std::move(master)),
                    .nodes = r.number(Fact::nnodes),
                    .rank = r.number(Fact::node_rank),
                    .workers = workers,
                    .max_restarts = restarts};
}

}  // namespace

Outcome<Topology> resolve_topology(const Settings& settings, const platform::Platform& platform,
                                   const Node& node, const LauncherFlags* torchrun) {
  Resolution r{settings, platform, node, torchrun, platform.granularity, platform.idle};
  r.topology.platform = platform.name;
  r.topology.also_matched = platform.also_matched;
  r.topology.warnings = platform.warnings;
  r.reads_variables = platform.name != "none";
  if (!user_says_alone(r) && r.platform.pending) {
    r.faults.push_back({Anchor::document,
                        fmt::format("{} ({}), so the facts of {} are not complete yet",
                                    r.platform.pending->name, r.platform.pending->because, r.platform.name),
                        r.platform.pending->names,
                        "wait until it is complete, as run and wait do up to --wait-timeout "
                        "(RANKSHIM_WAIT_TIMEOUT)",
                        true});
    return std::move(r.faults);
  }
  if (!user_sets_numbers(r) && !r.platform.doubts.empty()) {
    const Facts& own = r.platform.facts;
    const bool elastic = own.has(Fact::rdzv_backend) || own.has(Fact::rdzv_endpoint);
    const char* settles_it = r.granularity == Granularity::process ? settle_process
                             : elastic                             ? settle_elastic
                                                                   : settle_node;
    for (const Fault& doubt : r.platform.doubts)
      r.faults.push_back(
          {doubt.anchor, doubt.what, doubt.names, fmt::format("{}, or {}", doubt.fix, settles_it)});
    return std::move(r.faults);
  }
  recognise_started_process(r);
  if (!r.faults.empty()) return std::move(r.faults);
  take_winners(r);
  take_ranks(r);
  if (!r.faults.empty()) return std::move(r.faults);  // what follows would only repeat these faults
  if (user_says_alone(r)) become_alone(r);
  if (r.idle) {
    r.topology.part = Idle{*std::move(r.idle)};
    return std::move(r.topology);
  }

  normalise(r);
  if (r.granularity == Granularity::process) {
    complete_process(r);
  } else {
    complete_node(r);
  }
  if (!r.faults.empty()) return std::move(r.faults);
  warn_of_links_as_port(r);
  note_unused(r);
  r.topology.part = part_of(r);
  return std::move(r.topology);
}

}  // namespace rankshim
