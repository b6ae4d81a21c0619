#include "topology/rank_unit.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/text.h"
#include "topology/ranks.h"
#include "topology/resolution.h"
#include "topology/topology.h"

namespace rankshim {
namespace {

constexpr const char* settle_unit = "set --rank-unit=node or --rank-unit=process (RANKSHIM_RANK_UNIT)";

constexpr const char* describe_node =
    "describe this node with --nnodes and --node-rank (RANKSHIM_NNODES, RANKSHIM_NODE_RANK)";

std::optional<unsigned> known(const Facts& facts, Fact fact) { return parse_count(facts.text(fact)); }

bool is_users(const Facts& facts, Fact fact) { return facts.has(fact) && facts[fact]->from_user(); }

class RankReader {
 public:
  RankReader(std::string_view unit, const RankVariables& ranks, const Node& node, Facts& facts,
             platform::Granularity& granularity, Faults& faults)
      : unit_(unit),
        ranks_(ranks),
        node_(node),
        facts_(facts),
        granularity_(granularity),
        faults_(faults),
        workers_(known(facts, Fact::nproc_per_node)) {}

  void read() {
    check_numbers();
    KnownNode node;
    node.nnodes = known(facts_, Fact::nnodes);
    node.node_rank = known(facts_, Fact::node_rank);
    node.workers = workers_;
    node.has_nnodes = facts_.has(Fact::nnodes);
    node.nnodes_is_certain = is_users(facts_, Fact::nnodes);
    node.node_rank_is_certain = is_users(facts_, Fact::node_rank);
    switch (meaning_of(ranks_, node, unit_)) {
      case RankMeaning::nothing:
      case RankMeaning::known_processes:
        return;
      case RankMeaning::nodes:
        return read_nodes();
      case RankMeaning::this_process:
        return read_existing_process();
      case RankMeaning::first_worker:
        return read_first_worker();
      case RankMeaning::unclear:
        return refuse();
      case RankMeaning::unclear_world_size:
        return refuse_world_size();
      case RankMeaning::wrong_nnodes:
        return contradiction(Fact::nnodes, "WORLD_SIZE", ranks_.world_size);
      case RankMeaning::wrong_node_rank:
        return contradiction(Fact::node_rank, "RANK", ranks_.rank);
    }
  }

 private:
  /// Ascend's operator writes LOCAL_RANK="0,1,2,3": this is no number, but no mistake either.
  void check_numbers() {
    for (const char* name : {"RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"})
      if (const auto text = node_.environment().get(name); text && !parse_count(*text))
        faults_.push_back({Anchor::no_number,
                           fmt::format("{}={} is not a number", name, in_quotes(*text)),
                           {name},
                           fmt::format("correct or unset {}, or settle it with --nnodes and --node-rank "
                                       "(RANKSHIM_NNODES, RANKSHIM_NODE_RANK)",
                                       name)});
  }

  /// Takes a fact that is not known yet from the variable.
  void take(Fact fact, const char* variable, const std::optional<unsigned>& number) {
    if (number && !facts_.has(fact))
      facts_[fact] = Value{std::to_string(*number), Origin::variable, variable};
  }

  void read_nodes() {
    if (ranks_.world_size == 0U && !is_users(facts_, Fact::nnodes)) {
      faults_.push_back({Anchor::no_number,
                         "WORLD_SIZE=0 is not a number of nodes",
                         {"WORLD_SIZE"},
                         "correct or unset WORLD_SIZE, or " + settle(Fact::nnodes)});
      return;
    }
    take(Fact::nnodes, "WORLD_SIZE", ranks_.world_size);
    take(Fact::node_rank, "RANK", ranks_.rank);
  }

  /// There is one launcher per node, and the platform numbered its first worker.
  void read_first_worker() {
    const unsigned per_node = (workers_ ? workers_ : ranks_.local_world_size).value_or(0);
    if (per_node == 0) {
      faults_.push_back({Anchor::rank_unit,
                         "--rank-unit=process, but the number of processes on a node is unknown",
                         {"RANK", "WORLD_SIZE"},
                         "set --nproc-per-node (RANKSHIM_NPROC_PER_NODE)"});
      return;
    }
    divide(Fact::nnodes, "WORLD_SIZE", ranks_.world_size, per_node);
    divide(Fact::node_rank, "RANK", ranks_.rank, per_node);
  }

  void divide(Fact fact, const char* variable, const std::optional<unsigned>& number, unsigned per_node) {
    if (known(facts_, fact) || !number) return;
    if (*number % per_node != 0) {
      faults_.push_back(
          {Anchor::rank_unit,
           fmt::format("{}={} is not a multiple of the {} workers of a node", variable, *number, per_node),
           {variable, "NPROC_PER_NODE"},
           "correct --nproc-per-node (RANKSHIM_NPROC_PER_NODE), or set --rank-unit=node "
           "(RANKSHIM_RANK_UNIT)"});
      return;
    }
    facts_[fact] = {std::to_string(*number / per_node), Origin::derived,
                    fmt::format("{} and {} workers per node", variable, per_node)};
  }

  void read_existing_process() {
    granularity_ = platform::Granularity::process;
    take(Fact::rank, "RANK", ranks_.rank);
    take(Fact::world_size, "WORLD_SIZE", ranks_.world_size);
    take(Fact::local_rank, "LOCAL_RANK", ranks_.local_rank);
    if (ranks_.local_world_size != 0U)
      take(Fact::local_world_size, "LOCAL_WORLD_SIZE", ranks_.local_world_size);
    if (!facts_.has(Fact::local_world_size) && workers_)
      facts_[Fact::local_world_size] = facts_[Fact::nproc_per_node];
  }

  void refuse_world_size() {
    faults_.push_back({Anchor::rank_unit,
                       fmt::format("cannot tell whether WORLD_SIZE={} counts nodes or processes, beside {}",
                                   *ranks_.world_size, in_words(Fact::node_rank, *facts_[Fact::node_rank])),
                       {"NODE_RANK", "WORLD_SIZE"},
                       fmt::format("set NNODES (--nnodes), or {}", settle_unit)});
  }

  void refuse() {
    std::vector<std::string> all, names;
    for (const Fact fact : {Fact::nnodes, Fact::node_rank}) {
      if (!facts_.has(fact)) continue;
      all.push_back(in_words(fact, *facts_[fact]));
      facts_[fact]->append_inputs(name(fact), names);
    }
    for (const char* name : {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "NPROC_PER_NODE"}) {
      const auto value = node_.environment().get(name);
      if (!value) continue;
      all.push_back(fmt::format("{}={}", name, in_quotes(*value)));
      names.emplace_back(name);
    }
    faults_.push_back({Anchor::rank_unit,
                       fmt::format("cannot tell whether RANK and WORLD_SIZE count nodes or processes: {}",
                                   fmt::join(all, " ")),
                       std::move(names), settle_unit});
  }

  void contradiction(Fact fact, const char* variable, const std::optional<unsigned>& number) {
    const Value& value = *facts_[fact];
    const bool is_named = value.origin == Origin::variable || value.origin == Origin::option;
    faults_.push_back({Anchor::contradiction,
                       fmt::format("{} contradicts {}={}", in_words(fact, value), variable, *number),
                       {is_named ? value.detail : std::string(name(fact)), variable},
                       fact == Fact::nnodes ? "correct one of them, or " + settle(fact)
                       : workers_ ? fmt::format("correct one of them, or {}", describe_node)
                                  : fmt::format("set NPROC_PER_NODE (--nproc-per-node) if RANK counts "
                                                "processes, or {}",
                                                describe_node)});
  }

  std::string_view unit_;
  const RankVariables& ranks_;
  const Node& node_;
  Facts& facts_;
  platform::Granularity& granularity_;
  Faults& faults_;
  std::optional<unsigned> workers_;  // on a node
};

/// Compares torch's variables with the facts of a platform.
class RankChecker {
 public:
  RankChecker(const RankVariables& ranks, const Node& node, const Facts& facts, std::string_view platform,
              Faults& faults)
      : ranks_(ranks), node_(node), facts_(facts), platform_(platform), faults_(faults) {}

  void check_processes() {
    check_same(Fact::rank, "RANK");
    check_same(Fact::world_size, "WORLD_SIZE");
    check_same(Fact::local_rank, "LOCAL_RANK");
    check_same(Fact::local_world_size, "LOCAL_WORLD_SIZE");
  }

  void check_node() {
    if (facts_.has(Fact::rdzv_backend)) return;
    KnownNode known_node;
    known_node.nnodes = known(facts_, Fact::nnodes);
    known_node.node_rank = known_node.nnodes == 1U ? 0 : known(facts_, Fact::node_rank);
    // WORLD_SIZE is the platform's, even if the user sets the number of workers.
    if (!is_users(facts_, Fact::nproc_per_node)) known_node.workers = known(facts_, Fact::nproc_per_node);
    switch (clash_of(ranks_, known_node)) {
      case RankClash::none:
        return;
      case RankClash::nnodes:
        return contradiction(Fact::nnodes, "WORLD_SIZE");
      case RankClash::node_rank:
        return contradiction(Fact::node_rank, "RANK");
      case RankClash::process:
        return no_process_of_this_node();
    }
  }

 private:
  void check_same(Fact fact, std::string_view variable) {
    const auto mine = known(facts_, fact),
               theirs = parse_count(node_.environment().get(variable).value_or(""));
    if (mine && theirs && *mine != *theirs) contradiction(fact, variable);
  }

  void contradiction(Fact fact, std::string_view variable) {
    if (!facts_.has(fact)) fact = Fact::nnodes;  // the rank of the only node may be missing
    if (facts_[fact]->from_user()) return;       // a value that the user set needs no warning
    std::vector<std::string> names;
    facts_[fact]->append_inputs(name(fact), names);
    if (std::find(names.begin(), names.end(), variable) != names.end())
      return;  // the fact comes from this variable
    names.emplace_back(variable);
    faults_.push_back({Anchor::contradiction,
                       fmt::format("{}, by {}, contradicts {}={}", in_words(fact, *facts_[fact]), platform_,
                                   variable, in_quotes(node_.environment().get(variable).value_or(""))),
                       std::move(names),
                       facts_.has(Fact::world_size)
                           ? fmt::format("unset {} if it is left over, or use the platform's value with "
                                         "--platform={} (RANKSHIM_PLATFORM)",
                                         variable, platform_)
                           : fmt::format("unset {} if it is left over, or {}", variable, describe_node)});
  }

  void no_process_of_this_node() {
    std::vector<std::string> names = {"RANK", "WORLD_SIZE", "LOCAL_RANK"};
    std::string node;
    for (const Fact fact : {Fact::nnodes, Fact::node_rank}) {
      if (!facts_.has(fact)) continue;
      if (facts_[fact]->from_user()) return;  // a value that the user set needs no warning
      facts_[fact]->append_inputs(name(fact), names);
      node += fmt::format("{}{}", node.empty() ? "" : ", ", in_words(fact, *facts_[fact]));
    }
    faults_.push_back(
        {Anchor::left_over,
         fmt::format("RANK={}, WORLD_SIZE={} and LOCAL_RANK={} number no process of this node ({})",
                     *ranks_.rank, *ranks_.world_size, *ranks_.local_rank, node),
         std::move(names),
         fmt::format("unset LOCAL_RANK if it is left over, or {}, or set --rank-unit=process "
                     "(RANKSHIM_RANK_UNIT) if something has started this process",
                     describe_node)});
  }

  const RankVariables& ranks_;
  const Node& node_;
  const Facts& facts_;
  std::string_view platform_;
  Faults& faults_;
};

}  // namespace

RankVariables rank_variables(const Environment& environment) {
  const auto number = [&](std::string_view name) { return parse_count(environment.get(name).value_or("")); };
  return {number("RANK"),
          number("WORLD_SIZE"),
          number("LOCAL_RANK"),
          number("LOCAL_WORLD_SIZE"),
          environment.get("LOCAL_RANK").has_value(),
          environment.get("PET_NODE_RANK").has_value(),
          environment.get("LOCAL_SIZE").has_value()};
}

std::optional<Fault> check_beside_flags(const LauncherFlags& flags, const Facts& known, std::string_view unit,
                                        const RankVariables& ranks) {
  const auto& nnodes = known[Fact::nnodes];
  KnownNode node;
  node.has_nnodes = nnodes.has_value();
  if (nnodes) node.nnodes = parse_count(nnodes->text);
  node.nnodes_is_certain = flags.facts.has(Fact::nnodes);
  node.node_rank = parse_count(flags.facts.text(Fact::node_rank));
  node.workers = parse_count(flags.facts.text(Fact::nproc_per_node));
  std::optional<unsigned> workers_by_unit;
  if (unit == "process") workers_by_unit = parse_count(known.text(Fact::nproc_per_node)).value_or(0);
  switch (clash_with_flags(ranks, node, workers_by_unit)) {
    case RankClash::none:
      return std::nullopt;
    case RankClash::nnodes:
      return flag_contradicts(flags.names_nnodes ? in_words(Fact::nnodes, *nnodes) : nnodes->detail,
                              fmt::format("WORLD_SIZE={}", *ranks.world_size), "WORLD_SIZE");
    case RankClash::node_rank:
      return flag_contradicts(in_words(Fact::node_rank, *flags.facts[Fact::node_rank]),
                              fmt::format("RANK={}", *ranks.rank), "RANK");
    case RankClash::process:
      break;  // a flag's node may have any of its processes
  }
  return std::nullopt;
}

void check_ranks(const RankVariables& ranks, const Node& node, const Facts& facts,
                 platform::Granularity granularity, std::string_view platform, Faults& faults) {
  RankChecker checker(ranks, node, facts, platform, faults);
  if (granularity == platform::Granularity::process)
    checker.check_processes();
  else
    checker.check_node();
}

void read_ranks(std::string_view unit, const RankVariables& ranks, const Node& node, Facts& facts,
                platform::Granularity& granularity, Faults& faults) {
  RankReader(unit, ranks, node, facts, granularity, faults).read();
}

}  // namespace rankshim
