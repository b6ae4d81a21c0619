#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <iterator>
#include <optional>

#include "base/text.h"
#include "topology/resolution.h"

namespace rankshim::topology {
namespace {

using platform::Granularity;
using settings::Option;

constexpr const char* settle_unit = "set --rank-unit=node or --rank-unit=process (RANKSHIM_RANK_UNIT)";

using Number = std::optional<unsigned>;

KnownNode known_node(const Facts& facts) {
  const auto is_users = [&](Fact fact) { return facts.has(fact) && facts[fact]->from_user(); };
  KnownNode node;
  node.nnodes = parse_count(facts.text(Fact::nnodes));
  node.node_rank = parse_count(facts.text(Fact::node_rank));
  node.workers = parse_count(facts.text(Fact::nproc_per_node));
  node.has_nnodes = facts.has(Fact::nnodes);
  node.nnodes_is_certain = is_users(Fact::nnodes);
  node.node_rank_is_certain = is_users(Fact::node_rank);
  return node;
}

Added added_fault(ErrorCode error_code, Phrase what, std::string fix) {
  return {refusal(error_code, std::move(what), std::move(fix))};
}

/// A fault for each variable that is not a number. LOCAL_RANK is exempt: Ascend's operator sets
/// LOCAL_RANK="0,1,2,3", which is not a mistake.
Faults faults_of_numbers(const RankVariables& ranks, const Resolution& r) {
  Faults faults;
  for (const Fact fact : facts_of_process)
    if (fact != Fact::local_rank && ranks.text(fact) && !parse_count(*ranks.text(fact)))
      faults.push_back(fault(ErrorCode::no_number, r.set(fact) + " is not a number",
                             fmt::format("correct or unset {}, or {}", variable_of(fact), settle_nodes)));
  return faults;
}

/// A fact, and the process's fact from whose variable it is read.
struct FromVariable {
  Fact fact, variable;
  Number number;
};

/// Takes the facts that are not known yet.
Added taken(const Resolution& r, std::initializer_list<FromVariable> sources) {
  Added added;
  for (const auto& [fact, variable, number] : sources)
    if (number && !r.has(fact))
      added.facts.emplace_back(fact, Value{std::to_string(*number), Origin::variable, variable_of(variable)});
  return added;
}

Added read_nodes(const Resolution& r) {
  if (r.ranks.world_size == 0U && !r.is_users(Fact::nnodes))
    return added_fault(ErrorCode::no_number, r.set(Fact::world_size) + " is not a number of nodes",
                       fmt::format("correct or unset WORLD_SIZE, or {}", settle_nodes));
  return taken(
      r, {{Fact::nnodes, Fact::world_size, r.ranks.world_size}, {Fact::node_rank, Fact::rank, r.ranks.rank}});
}

/// Reads the node's numbers if there is one launcher per node, and the platform has numbered its first
/// worker.
Added read_first_worker(const Resolution& r) {
  const Number workers = r.known(Fact::nproc_per_node);
  const unsigned per_node = (workers ? workers : r.ranks.local_world_size).value_or(0);
  if (per_node == 0)
    return added_fault(ErrorCode::rank_unit,
                       {"--rank-unit=process, but the number of processes on a node is unknown",
                        {variable_of(Fact::rank), variable_of(Fact::world_size)}},
                       "set --nproc-per-node (RANKSHIM_NPROC_PER_NODE)");
  Added added;
  for (const auto& [fact, variable, number] :
       {FromVariable{Fact::nnodes, Fact::world_size, r.ranks.world_size},
        FromVariable{Fact::node_rank, Fact::rank, r.ranks.rank}}) {
    if (r.known(fact) || !number) continue;
    if (*number % per_node == 0)
      added.facts.emplace_back(
          fact, Value{std::to_string(*number / per_node), Origin::derived,
                      fmt::format("{} and {} workers per node", variable_of(variable), per_node)});
    else
      added.faults.push_back(fault(
          ErrorCode::rank_unit,
          r.set(variable) + Phrase(fmt::format(" is not a multiple of the {} workers of a node", per_node),
                                   {"NPROC_PER_NODE"}),
          "correct --nproc-per-node (RANKSHIM_NPROC_PER_NODE), or set --rank-unit=node "
          "(RANKSHIM_RANK_UNIT)"));
  }
  return added;
}

Added read_existing_process(const Resolution& r) {
  const Number local_size = r.ranks.local_world_size == 0U ? std::nullopt : r.ranks.local_world_size;
  Added added = taken(r, {{Fact::rank, Fact::rank, r.ranks.rank},
                          {Fact::world_size, Fact::world_size, r.ranks.world_size},
                          {Fact::local_rank, Fact::local_rank, r.ranks.local_rank},
                          {Fact::local_world_size, Fact::local_world_size, local_size}});
  added.granularity = Granularity::process;
  if (r.known(Fact::nproc_per_node) && !r.has(Fact::local_world_size) && !local_size)
    added.facts.emplace_back(Fact::local_world_size, r.topology.facts[Fact::nproc_per_node]);
  return added;
}

/// The known facts of the node, for use in a sentence.
Phrase node_in_words(const Resolution& r) {
  Phrase all("");
  for (const Fact fact : {Fact::nnodes, Fact::node_rank})
    if (r.has(fact)) all.list(r.said(fact));
  return all;
}

Added refuse_unclear(const Resolution& r) {
  Phrase all = node_in_words(r);
  for (const Fact fact : facts_of_process)
    if (r.ranks.text(fact)) all.list(r.set(fact));
  const std::string workers = variable_of(Fact::nproc_per_node);
  if (r.host.environment().get(workers)) all.list(r.variable(workers));
  return added_fault(ErrorCode::rank_unit,
                     "cannot tell whether RANK and WORLD_SIZE count nodes or processes: " + all,
                     fmt::format("{}, or {}", settle_nodes, settle_unit));
}

/// The fault if the variable of `its` contradicts a fact; none if the user set the fact, or it comes from
/// this variable.
Added contradicts(const Resolution& r, Fact fact, Fact its) {
  const std::string variable = variable_of(its);
  if (!r.has(fact)) fact = Fact::nnodes;  // the only node may have no rank
  if (r.is_users(fact) || r.topology.facts[fact]->is_from(variable)) return {};
  return added_fault(
      ErrorCode::contradiction, r.said(fact) + " contradicts " + r.set(its),
      r.granularity == Granularity::node
          ? fmt::format("correct or unset {}, or {}", variable, settle_nodes)
          : fmt::format("unset {} if it is left over, or use the platform's value with --platform={} "
                        "(RANKSHIM_PLATFORM)",
                        variable, r.topology.platform.name()));
}

/// LOCAL_RANK and LOCAL_WORLD_SIZE, as far as they are set, for use in a sentence: "LOCAL_RANK=0".
Phrase local_variables(const Resolution& r) {
  Phrase all = r.set(Fact::local_rank);
  if (r.ranks.local_world_size) all += " and " + r.set(Fact::local_world_size);
  return all;
}

Added no_process_of_this_node(const Resolution& r) {
  if (r.is_users(Fact::nnodes) || r.is_users(Fact::node_rank)) return {};
  return added_fault(ErrorCode::left_over,
                     r.set(Fact::rank) + ", " + r.set(Fact::world_size) + " and " + r.set(Fact::local_rank) +
                         " do not identify a process on this node (" + node_in_words(r) + ")",
                     fmt::format("unset {} if left over, or {}, or set --rank-unit=process "
                                 "(RANKSHIM_RANK_UNIT) if something has started this process",
                                 joined(local_variables(r).names, " and "), settle_nodes));
}

/// Drops the leftover variables of a process, with a warning.
Added drop_left_over(const Resolution& r) {
  const Phrase dropped = local_variables(r);
  Added added;
  added.drops_local_rank = true;
  added.warnings.push_back(
      fmt::format("{} {} ignored, because {} is this node's rank and not a process's; unset {}, or set "
                  "--rank-unit=process (RANKSHIM_RANK_UNIT) if something has started this process",
                  dropped.text, dropped.names.size() == 1 ? "is" : "are", r.set(Fact::rank).text,
                  joined(dropped.names, " and ")));
  return added;
}

/// The fault if RANK and WORLD_SIZE contradict torchrun's flags, in either unit.
Findings check_beside_flags(const Resolution& r) {
  if (r.torchrun == nullptr) return {};
  const Facts& flags = r.torchrun->facts;
  KnownNode node = known_node(flags);
  if (!node.has_nnodes) {
    node.nnodes = r.known(Fact::nnodes);
    node.has_nnodes = r.has(Fact::nnodes);
  }
  const bool by_process = r.unit == RankUnit::process;
  const Number by_unit = by_process ? Number(r.number(Fact::nproc_per_node)) : std::nullopt;
  const RankUse use = clash_with_flags(r.ranks, node, by_unit);
  if (use == RankUse::nothing) return {};
  const bool size = use == RankUse::wrong_nnodes;
  const Fact fact = size ? Fact::nnodes : Fact::node_rank;
  return {.faults = {flag_contradicts(fact, *flags[fact], r.set(size ? Fact::world_size : Fact::rank))},
          .warnings = {},
          .explains_all = true};
}

/// Whether the platform has its own variables for the nodes' numbers, which RANK and WORLD_SIZE must not
/// replace. If those are set, RANK and WORLD_SIZE may count anything: training-operator from 1.7 on counts
/// processes in them, and all pods if PET_NNODES does not include the master. If they are not set, that
/// itself is the fault.
bool platform_numbers_nodes(const Resolution& r) {
  const auto* profile = r.platform.profile;
  const Facts& own = r.platform.facts;
  if (profile != nullptr && profile->kind == platform::ProfileKind::names) return false;
  if (own.has(Fact::nnodes) && own.has(Fact::node_rank)) return true;
  const auto provides = [&](Fact fact) {
    return std::ranges::find(profile->facts, fact, &platform::FactExpression::fact) != profile->facts.end();
  };
  return r.has_own_words() && r.unit == RankUnit::any && provides(Fact::nnodes) && provides(Fact::node_rank);
}

/// Drops the platform's number of workers if something started this process: it started as many as requested.
Added drop_platforms_workers(const Resolution& r) {
  Added added;
  const auto& workers = r.topology.facts[Fact::nproc_per_node];
  if (workers && !workers->from_user() && !workers->is_variable(variable_of(Fact::nproc_per_node)))
    added.drop(Fact::nproc_per_node);
  return added;
}

/// Turns a process that MPI started as the only one on its node into the node's launcher, with the process's
/// rank.
Added become_launcher(const Resolution& r) {
  const auto& local = r.topology.facts[Fact::local_rank];
  const bool is_torchs = local && local->is_variable(variable_of(Fact::local_rank));
  if (r.granularity != Granularity::process || r.unit == RankUnit::process || is_torchs ||
      r.text(Fact::local_world_size) != "1" || r.number(Fact::world_size) == 0 || !r.known(Fact::rank))
    return {};
  const Value &world = *r.topology.facts[Fact::world_size], &rank = *r.topology.facts[Fact::rank];
  if (r.has(Fact::nnodes) && !same_value(Fact::nnodes, r.text(Fact::nnodes), world.text))
    return {};  // other nodes would decide differently
  if (r.has(Fact::node_rank) && !r.is_users(Fact::node_rank) && r.text(Fact::node_rank) != rank.text)
    return added_fault(
        ErrorCode::contradiction,
        r.said(Fact::node_rank) + " contradicts " + r.said(Fact::rank) + ", the one process of its node",
        correct(r.said(Fact::node_rank) + r.said(Fact::rank)) + ", or " + settle(Fact::node_rank));
  Added added;
  added.granularity = Granularity::node;
  if (!r.has(Fact::nnodes)) added.facts.emplace_back(Fact::nnodes, world);
  if (!r.has(Fact::node_rank)) added.facts.emplace_back(Fact::node_rank, rank);
  for (const Fact of_process : facts_of_process) added.facts.emplace_back(of_process, std::nullopt);
  return added;
}

}  // namespace

Added added_by(const Resolution& r, RankUse use) {
  switch (use) {
    case RankUse::nothing:
      break;
    case RankUse::nodes:
      return read_nodes(r);
    case RankUse::this_process:
      return read_existing_process(r);
    case RankUse::first_worker:
      return read_first_worker(r);
    case RankUse::left_over:
      return drop_left_over(r);
    case RankUse::unclear:
      return refuse_unclear(r);
    case RankUse::wrong_nnodes:
      return contradicts(r, Fact::nnodes, Fact::world_size);
    case RankUse::wrong_node_rank:
      return contradicts(r, Fact::node_rank, Fact::rank);
    case RankUse::wrong_process:
      return no_process_of_this_node(r);
  }
  return {};
}

RankUse recognise_started_process(const Resolution& r) {
  if (!r.reads_variables() || r.idle || r.granularity != Granularity::node || r.unit != RankUnit::any ||
      r.settings[Option::node_rank] || r.platform_is_elastic() ||
      (r.settings.text(Option::platform) != "auto" && r.has_own_words()))
    return RankUse::nothing;
  Facts said = r.platform.facts;
  for (const Fact fact : {Fact::nnodes, Fact::node_rank, Fact::nproc_per_node})
    if (!said.has(fact)) said[fact] = r.platform.names[fact];
  KnownNode node = known_node(said);
  if (node.nnodes == 1U) node.node_rank = 0;
  node.is_numbered_by_platform = r.has_own_words();
  const auto& node_rank = r.platform.facts[Fact::node_rank];
  node.is_read_from_rank = r.has_own_words() && node_rank && node_rank->is_variable(variable_of(Fact::rank));
  return started_process(r.ranks, node);
}

Added read_ranks(const Resolution& r, RankUnit unit) {
  KnownNode node = known_node(r.topology.facts);
  if (node.node_rank == 0U && r.ranks.rank == 0U && !node.has_nnodes && !node.workers)
    if (const auto visible = r.host.accelerators()) node.accelerators = visible->count;
  Added added = added_by(r, use_of(r.ranks, node, unit));
  Faults faults = faults_of_numbers(r.ranks, r);
  added.faults.insert(added.faults.begin(), faults.begin(), faults.end());
  return added;
}

Faults check_ranks(const Resolution& r) {
  Faults faults;
  const auto add = [&](Added added) { std::ranges::move(added.faults, std::back_inserter(faults)); };
  if (r.granularity == Granularity::process) {
    for (const Fact fact : facts_of_process) {
      const Number mine = r.known(fact), its = parse_count(r.ranks.text(fact).value_or(""));
      if (mine && its && *mine != *its) add(contradicts(r, fact, fact));
    }
  } else if (!r.has(Fact::rdzv_backend)) {
    KnownNode node = known_node(r.topology.facts);
    if (node.nnodes == 1U) node.node_rank = 0;
    // WORLD_SIZE comes from the platform, even if the user sets the number of workers.
    if (r.is_users(Fact::nproc_per_node)) node.workers.reset();
    const RankUse clash = clash_of(r.ranks, node);
    add(added_by(r, clash));
    if (clash != RankUse::wrong_nnodes) return faults;
    // RANK is probably left over from the same job: one run should report both.
    RankVariables ranks = r.ranks;
    ranks.world_size.reset();
    add(added_by(r, clash_of(ranks, node)));
  }
  return faults;
}

void take_ranks(Resolution& r, bool by_user) {
  if (r.is_started_process) {
    r.add(drop_platforms_workers(r));
    r.add(read_ranks(r, RankUnit::process));
  } else if (r.reads_variables() && !r.idle && r.granularity == Granularity::node &&
             !platform_numbers_nodes(r) && !by_user) {
    if (!r.add(check_beside_flags(r))) return;
    r.add(read_ranks(r, r.unit));
  }
  if (!r.idle) r.add(become_launcher(r));
  if (r.granularity == Granularity::process) r.torchrun = nullptr;
  if (!r.idle && r.settings.text(Option::platform) == "auto" && r.unit == RankUnit::any &&
      !r.is_started_process && !r.user_says_alone() && (r.has_own_words() || r.ranks.text(Fact::local_rank)))
    r.add(Findings{check_ranks(r), {}});
}

}  // namespace rankshim::topology
