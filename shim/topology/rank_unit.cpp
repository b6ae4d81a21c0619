#include <fmt/format.h>

#include <optional>

#include "base/text.h"
#include "topology/resolution.h"

namespace rankshim {
namespace {

constexpr const char* settle_unit = "set --rank-unit=node or --rank-unit=process (RANKSHIM_RANK_UNIT)";

constexpr const char* describe_node =
    "describe this node with --nnodes and --node-rank (RANKSHIM_NNODES, RANKSHIM_NODE_RANK)";

using Number = std::optional<unsigned>;

bool is_users(const Resolution& r, Fact fact) {
  return r.topology.facts.has(fact) && r.topology.facts[fact]->from_user();
}

/// Ascend's operator writes LOCAL_RANK="0,1,2,3": this is no number, but no mistake either.
void check_numbers(Resolution& r) {
  for (const char* name : {"RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"})
    if (const auto text = r.node.environment().get(name); text && !parse_count(*text))
      r.fault(Anchor::no_number, fmt::format("{}={} is not a number", name, in_quotes(*text)), {name},
              fmt::format("correct or unset {}, or settle it with --nnodes and --node-rank "
                          "(RANKSHIM_NNODES, RANKSHIM_NODE_RANK)",
                          name));
}

/// Takes a fact that is not known yet from the variable.
void take(Resolution& r, Fact fact, const char* variable, const Number& number) {
  if (number && !r.fact(fact)) r.fact(fact) = Value{std::to_string(*number), Origin::variable, variable};
}

void read_nodes(Resolution& r, const RankVariables& ranks) {
  if (ranks.world_size == 0U && !is_users(r, Fact::nnodes))
    return r.fault(Anchor::no_number, "WORLD_SIZE=0 is not a number of nodes", {"WORLD_SIZE"},
                   "correct or unset WORLD_SIZE, or " + settle(Fact::nnodes));
  take(r, Fact::nnodes, "WORLD_SIZE", ranks.world_size);
  take(r, Fact::node_rank, "RANK", ranks.rank);
}

void divide(Resolution& r, Fact fact, const char* variable, const Number& number, unsigned per_node) {
  if (r.known(fact) || !number) return;
  if (*number % per_node != 0)
    return r.fault(
        Anchor::rank_unit,
        fmt::format("{}={} is not a multiple of the {} workers of a node", variable, *number, per_node),
        {variable, "NPROC_PER_NODE"},
        "correct --nproc-per-node (RANKSHIM_NPROC_PER_NODE), or set --rank-unit=node (RANKSHIM_RANK_UNIT)");
  r.fact(fact) = {std::to_string(*number / per_node), Origin::derived,
                  fmt::format("{} and {} workers per node", variable, per_node)};
}

/// There is one launcher per node, and the platform numbered its first worker.
void read_first_worker(Resolution& r, const RankVariables& ranks) {
  const Number workers = r.known(Fact::nproc_per_node);
  const unsigned per_node = (workers ? workers : ranks.local_world_size).value_or(0);
  if (per_node == 0)
    return r.fault(Anchor::rank_unit, "--rank-unit=process, but the number of processes on a node is unknown",
                   {"RANK", "WORLD_SIZE"}, "set --nproc-per-node (RANKSHIM_NPROC_PER_NODE)");
  divide(r, Fact::nnodes, "WORLD_SIZE", ranks.world_size, per_node);
  divide(r, Fact::node_rank, "RANK", ranks.rank, per_node);
}

void read_existing_process(Resolution& r, const RankVariables& ranks) {
  r.granularity = platform::Granularity::process;
  take(r, Fact::rank, "RANK", ranks.rank);
  take(r, Fact::world_size, "WORLD_SIZE", ranks.world_size);
  take(r, Fact::local_rank, "LOCAL_RANK", ranks.local_rank);
  if (ranks.local_world_size != 0U)
    take(r, Fact::local_world_size, "LOCAL_WORLD_SIZE", ranks.local_world_size);
  if (!r.fact(Fact::local_world_size) && r.known(Fact::nproc_per_node))
    r.fact(Fact::local_world_size) = r.fact(Fact::nproc_per_node);
}

void refuse(Resolution& r) {
  std::vector<std::string> all, names;
  for (const Fact fact : {Fact::nnodes, Fact::node_rank}) {
    if (!r.fact(fact)) continue;
    all.push_back(r.words(fact));
    names.push_back(r.source(fact));
  }
  for (const char* name : {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "NPROC_PER_NODE"}) {
    const auto value = r.node.environment().get(name);
    if (!value) continue;
    all.push_back(fmt::format("{}={}", name, in_quotes(*value)));
    names.emplace_back(name);
  }
  r.fault(Anchor::rank_unit,
          fmt::format("cannot tell whether RANK and WORLD_SIZE count nodes or processes: {}",
                      fmt::join(all, " ")),
          names, settle_unit);
}

/// The variable contradicts a fact that is known without it.
void contradiction(Resolution& r, Fact fact, const char* variable, const Number& number) {
  const Value& value = *r.fact(fact);
  const bool is_named = value.origin == Origin::variable || value.origin == Origin::option;
  r.fault(Anchor::contradiction, fmt::format("{} contradicts {}={}", r.words(fact), variable, *number),
          {is_named ? value.detail : std::string(name(fact)), variable},
          fact == Fact::nnodes            ? "correct one of them, or " + settle(fact)
          : r.known(Fact::nproc_per_node) ? fmt::format("correct one of them, or {}", describe_node)
                                          : fmt::format("set NPROC_PER_NODE (--nproc-per-node) if RANK "
                                                        "counts processes, or {}",
                                                        describe_node));
}

/// The variable contradicts a fact of the platform.
void contradicts_platform(Resolution& r, Fact fact, std::string_view variable) {
  if (!r.fact(fact)) fact = Fact::nnodes;  // the rank of the only node may be missing
  // A value that the user set needs no warning, and one that comes from this variable cannot differ.
  if (is_users(r, fact) || has_part(r.source(fact), variable, ", ")) return;
  const std::string& platform = r.topology.platform;
  r.fault(Anchor::contradiction,
          fmt::format("{}, by {}, contradicts {}={}", r.words(fact), platform, variable,
                      in_quotes(r.node.environment().get(variable).value_or(""))),
          {r.source(fact), std::string(variable)},
          r.fact(Fact::world_size)
              ? fmt::format("unset {} if it is left over, or use the platform's value with "
                            "--platform={} (RANKSHIM_PLATFORM)",
                            variable, platform)
              : fmt::format("unset {} if it is left over, or {}", variable, describe_node));
}

void check_same(Resolution& r, Fact fact, std::string_view variable) {
  const Number mine = r.known(fact), its = parse_count(r.node.environment().get(variable).value_or(""));
  if (mine && its && *mine != *its) contradicts_platform(r, fact, variable);
}

void no_process_of_this_node(Resolution& r, const RankVariables& ranks) {
  std::vector<std::string> names = {"RANK", "WORLD_SIZE", "LOCAL_RANK"}, node;
  for (const Fact fact : {Fact::nnodes, Fact::node_rank}) {
    if (!r.fact(fact)) continue;
    if (is_users(r, fact)) return;  // a value that the user set needs no warning
    names.push_back(r.source(fact));
    node.push_back(r.words(fact));
  }
  r.fault(Anchor::left_over,
          fmt::format("RANK={}, WORLD_SIZE={} and LOCAL_RANK={} number no process of this node ({})",
                      *ranks.rank, *ranks.world_size, *ranks.local_rank, joined(node)),
          names,
          fmt::format("unset LOCAL_RANK if it is left over, or {}, or set --rank-unit=process "
                      "(RANKSHIM_RANK_UNIT) if something has started this process",
                      describe_node));
}

}  // namespace

void read_ranks(Resolution& r, std::string_view unit) {
  const RankVariables ranks = rank_variables(r);
  check_numbers(r);
  KnownNode node;
  node.nnodes = r.known(Fact::nnodes);
  node.node_rank = r.known(Fact::node_rank);
  node.workers = r.known(Fact::nproc_per_node);
  node.has_nnodes = r.topology.facts.has(Fact::nnodes);
  node.nnodes_is_certain = is_users(r, Fact::nnodes);
  node.node_rank_is_certain = is_users(r, Fact::node_rank);
  switch (meaning_of(ranks, node, unit)) {
    case RankMeaning::nothing:
    case RankMeaning::known_processes:
      return;
    case RankMeaning::nodes:
      return read_nodes(r, ranks);
    case RankMeaning::this_process:
      return read_existing_process(r, ranks);
    case RankMeaning::first_worker:
      return read_first_worker(r, ranks);
    case RankMeaning::unclear:
      return refuse(r);
    case RankMeaning::unclear_world_size:
      return r.fault(Anchor::rank_unit,
                     fmt::format("cannot tell whether WORLD_SIZE={} counts nodes or processes, beside {}",
                                 *ranks.world_size, r.words(Fact::node_rank)),
                     {"NODE_RANK", "WORLD_SIZE"}, fmt::format("set NNODES (--nnodes), or {}", settle_unit));
    case RankMeaning::wrong_nnodes:
      return contradiction(r, Fact::nnodes, "WORLD_SIZE", ranks.world_size);
    case RankMeaning::wrong_node_rank:
      return contradiction(r, Fact::node_rank, "RANK", ranks.rank);
  }
}

std::optional<Fault> check_beside_flags(const Resolution& r, std::string_view unit) {
  const RankVariables ranks = rank_variables(r);
  const LauncherFlags& flags = *r.torchrun;
  KnownNode node;
  node.nnodes = r.known(Fact::nnodes);
  node.has_nnodes = r.topology.facts.has(Fact::nnodes);
  node.nnodes_is_certain = flags.facts.has(Fact::nnodes);
  node.node_rank = parse_count(flags.facts.text(Fact::node_rank));
  node.workers = parse_count(flags.facts.text(Fact::nproc_per_node));
  Number workers_by_unit;
  if (unit == "process") workers_by_unit = r.number(Fact::nproc_per_node);
  switch (clash_with_flags(ranks, node, workers_by_unit)) {
    case RankClash::nnodes:
      return flag_contradicts(flags.names_nnodes ? r.words(Fact::nnodes) : r.source(Fact::nnodes),
                              fmt::format("WORLD_SIZE={}", *ranks.world_size), "WORLD_SIZE");
    case RankClash::node_rank:
      return flag_contradicts(in_words(Fact::node_rank, *flags.facts[Fact::node_rank]),
                              fmt::format("RANK={}", *ranks.rank), "RANK");
    case RankClash::none:
    case RankClash::process:  // a flag's node may have any of its processes
      break;
  }
  return std::nullopt;
}

void check_ranks(Resolution& r) {
  if (r.granularity == platform::Granularity::process) {
    check_same(r, Fact::rank, "RANK");
    check_same(r, Fact::world_size, "WORLD_SIZE");
    check_same(r, Fact::local_rank, "LOCAL_RANK");
    return check_same(r, Fact::local_world_size, "LOCAL_WORLD_SIZE");
  }
  if (r.fact(Fact::rdzv_backend)) return;
  const RankVariables ranks = rank_variables(r);
  KnownNode node;
  node.nnodes = r.known(Fact::nnodes);
  node.node_rank = node.nnodes == 1U ? 0 : r.known(Fact::node_rank);
  // WORLD_SIZE is the platform's, even if the user sets the number of workers.
  if (!is_users(r, Fact::nproc_per_node)) node.workers = r.known(Fact::nproc_per_node);
  switch (clash_of(ranks, node)) {
    case RankClash::none:
      return;
    case RankClash::nnodes:
      return contradicts_platform(r, Fact::nnodes, "WORLD_SIZE");
    case RankClash::node_rank:
      return contradicts_platform(r, Fact::node_rank, "RANK");
    case RankClash::process:
      return no_process_of_this_node(r, ranks);
  }
}

}  // namespace rankshim
