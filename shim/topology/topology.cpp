#include "topology/topology.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "base/text.h"
#include "topology/near_miss.h"
#include "topology/rank_unit.h"
#include "topology/topology_resolver.h"

namespace rankshim {

using platform::Granularity;

TopologyResolver::TopologyResolver(const Settings& settings, const platform::Platform& platform,
                                   const Node& node, const LauncherFlags* torchrun)
    : settings_(settings), platform_(platform), node_(node), torchrun_(torchrun) {
  topology_.platform = platform.name;
  granularity_ = platform.granularity;
  idle_ = platform.idle;
  topology_.also_matched = platform.also_matched;
  topology_.warnings = platform.warnings;
  reads_variables_ = platform.name != "none";
}

Outcome<Topology> TopologyResolver::resolve() {
  if (!user_says_alone() && platform_.pending) {
    faults_.push_back({fmt::format("{} ({}), so the facts of {} are not complete yet",
                                   platform_.pending->name, platform_.pending->because, platform_.name),
                       platform_.pending->names,
                       "wait until it is complete, as run and wait do up to --wait-timeout "
                       "(RANKSHIM_WAIT_TIMEOUT)",
                       true});
    return std::move(faults_);
  }
  if (!user_sets_numbers() && !platform_.doubts.empty()) {
    const Facts& own = platform_.facts;
    const bool elastic = own.has(Fact::rdzv_backend) || own.has(Fact::rdzv_endpoint);
    const char* settle = granularity_ == Granularity::process ? settle_process
                         : elastic                            ? settle_elastic
                                                              : settle_node;
    for (const Fault& doubt : platform_.doubts)
      faults_.push_back({doubt.what, doubt.names, fmt::format("{}, or {}", doubt.fix, settle)});
    return std::move(faults_);
  }
  recognise_started_process();
  if (!faults_.empty()) return std::move(faults_);
  take_winners();
  take_ranks();
  if (!faults_.empty()) return std::move(faults_);  // what follows would only repeat these faults
  if (user_says_alone()) become_alone();
  if (idle_) {
    topology_.part = Idle{*std::move(idle_)};
    return std::move(topology_);
  }

  normalise();
  if (granularity_ == Granularity::process) {
    complete_process();
  } else {
    complete_node();
  }
  if (!faults_.empty()) return std::move(faults_);
  warn_of_links_as_port();
  note_unused();
  topology_.part = part();
  return std::move(topology_);
}

void TopologyResolver::take_winners() {
  claims_ = collect_claims(settings_, platform_, torchrun_);
  Circumstances circumstances;
  circumstances.elastic = platform_is_elastic();
  circumstances.started_process = is_started_process_;
  circumstances.names_nnodes = torchrun_ == nullptr || torchrun_->names_nnodes;
  circumstances.settled_by_user = user_sets_numbers();
  for (std::size_t i = 0; i < fact_count; ++i) {
    Decision decision = decide(static_cast<Fact>(i), claims_, circumstances);
    if (decision.winner != nullptr) fact(static_cast<Fact>(i)) = decision.winner->value;
    std::move(decision.faults.begin(), decision.faults.end(), std::back_inserter(faults_));
    std::move(decision.warnings.begin(), decision.warnings.end(), std::back_inserter(topology_.warnings));
  }
}

void TopologyResolver::take_ranks() {
  const std::string_view unit = settings_.text(Option::rank_unit);
  if (is_started_process_) {
    auto& workers = fact(Fact::nproc_per_node);  // the platform's; it has started as many as were requested
    if (workers && !workers->from_user() && workers->detail != "NPROC_PER_NODE") workers.reset();
    read_ranks("process", rank_variables(), node_, facts(), granularity_, faults_);
  } else if (reads_variables_ && !idle_ && granularity_ == Granularity::node && !platform_sets_all() &&
             !platform_has_words() && !user_sets_numbers()) {
    const auto wrong =
        torchrun_ == nullptr ? std::nullopt : check_beside_flags(*torchrun_, facts(), unit, rank_variables());
    if (wrong) {
      faults_ = {*wrong};
      return;
    }
    read_ranks(unit, rank_variables(), node_, facts(), granularity_, faults_);
  }
  if (!idle_) become_launcher();
  if (granularity_ == Granularity::process) torchrun_ = nullptr;
  if (!idle_ && settings_.text(Option::platform) == "auto" && unit == "auto" && !is_started_process_ &&
      !user_says_alone() && (has_own_words() || node_.environment().get("LOCAL_RANK")))
    check_ranks(rank_variables(), node_, facts(), granularity_, topology_.platform, faults_);
}

void TopologyResolver::become_alone() {
  idle_.reset();
  if (granularity_ == Granularity::process) return;
  is_alone_by_user_ = true;
  for (const Fact of_others : {Fact::node_rank, Fact::master_addr, Fact::rdzv_backend, Fact::rdzv_endpoint}) {
    auto& value = fact(of_others);
    const bool in_command = torchrun_ != nullptr && torchrun_->facts.has(of_others);
    if (value && !value->from_user() && !in_command) value.reset();
  }
}

void TopologyResolver::note_unused() {
  for (const Claim& claim : claims_) {
    const auto& used = fact(claim.fact);
    if (used && same_value(claim.fact, used->text, claim.value.text)) continue;
    const bool is_listed = std::ranges::any_of(topology_.unused, [&](const auto& one) {
      return one.first == claim.fact && one.second.source() == claim.value.source();
    });
    if (!is_listed) topology_.unused.emplace_back(claim.fact, claim.value);
  }
}

void TopologyResolver::warn_of_links_as_port() {
  if (!fact(Fact::master_port)) return;
  for (std::string& warning : topology_.warnings) {
    if (warning.ends_with(platform::link_ignored) && warning.find("PORT=") != std::string::npos)
      warning += "; " + in_words(Fact::master_port, *fact(Fact::master_port)) + " is used";
  }
}

void TopologyResolver::normalise() {
  for (const Fact number : {Fact::node_rank, Fact::nproc_per_node, Fact::master_port, Fact::max_restarts,
                            Fact::rank, Fact::world_size, Fact::local_rank, Fact::local_world_size}) {
    auto& value = fact(number);
    if (const auto count = value ? parse_count(value->text) : std::nullopt)
      value->text = std::to_string(*count);
  }
}

void TopologyResolver::fault(std::string what, const std::vector<std::string>& names, std::string fix) {
  std::vector<std::string> each;
  for (const std::string& name : names) Value{{}, Origin::derived, name}.append_inputs({}, each);
  for (auto one = each.begin(); one != each.end();)
    one = std::find(each.begin(), one, *one) == one ? one + 1 : each.erase(one);
  constexpr std::string_view of_two = "correct one of them";
  if (each.size() == 1 && fix.starts_with(of_two)) fix.replace(0, of_two.size(), "correct " + each.front());
  faults_.push_back({std::move(what), std::move(each), std::move(fix)});
}

bool TopologyResolver::platform_sets_all() const {
  const Facts& own = platform_.facts;
  return !is_mere_names() && own.has(Fact::nnodes) && own.has(Fact::node_rank);
}

bool TopologyResolver::platform_has_words() const {
  if (!has_own_words() || settings_.text(Option::rank_unit) != "auto") return false;
  const auto provides = [&](Fact fact) {
    const auto expressions = platform_.profile->expressions();
    return std::any_of(expressions.begin(), expressions.end(),
                       [&](const platform::FactExpression& expression) { return expression.fact == fact; });
  };
  return provides(Fact::nnodes) && provides(Fact::node_rank);
}

bool TopologyResolver::user_sets_numbers() const {
  return settings_[Option::nnodes] &&
         (settings_[Option::node_rank] || settings_[Option::rdzv_endpoint] || user_says_alone());
}

bool TopologyResolver::user_says_alone() const {
  const auto& nnodes = settings_[Option::nnodes];
  return nnodes && parse_count(nnodes->text) == 1U && !settings_[Option::rdzv_endpoint];
}

bool TopologyResolver::has_own_words() const {
  return platform_.profile != nullptr && platform_.profile->has_own_words();
}

platform::Causes TopologyResolver::causes() const {
  return platform_.profile == nullptr ? platform::Causes{} : platform::causes_of(*platform_.profile, node_);
}

bool TopologyResolver::is_mere_names() const {
  return platform_.profile != nullptr && platform_.profile->kind == platform::ProfileKind::names;
}

bool TopologyResolver::platform_is_elastic() const {
  const auto& backend = platform_.facts[Fact::rdzv_backend];
  return backend && backend->text != "static";
}

RankVariables TopologyResolver::rank_variables() const {
  RankVariables ranks = rankshim::rank_variables(node_.environment());
  if (ignores_local_rank_) {
    ranks.local_rank.reset();
    ranks.has_local_rank = false;
  }
  return ranks;
}

void TopologyResolver::recognise_started_process() {
  if (!reads_variables_ || idle_ || granularity_ != Granularity::node ||
      settings_.text(Option::rank_unit) != "auto" || settings_[Option::node_rank] || platform_is_elastic() ||
      (settings_.text(Option::platform) != "auto" && has_own_words()))
    return;
  const auto known = [&](Fact fact) {
    const auto& value = platform_.facts[fact] ? platform_.facts[fact] : platform_.names[fact];
    return value ? parse_count(value->text) : std::nullopt;
  };
  KnownNode node;
  node.nnodes = known(Fact::nnodes);
  node.node_rank = node.nnodes == 1U ? std::optional<unsigned>(0) : known(Fact::node_rank);
  node.workers = known(Fact::nproc_per_node);
  node.is_numbered_by_platform = has_own_words();
  node.is_read_from_rank = has_own_words() && platform_.facts.has(Fact::node_rank) &&
                           platform_.facts[Fact::node_rank]->detail == "RANK";
  const RankVariables ranks = rank_variables();
  switch (started_process(ranks, node)) {
    case StartedProcess::no:
      return;
    case StartedProcess::yes:
      is_started_process_ = true;
      torchrun_ = nullptr;
      return;
    case StartedProcess::left_over:
      ignores_local_rank_ = true;
      topology_.warnings.push_back(fmt::format(
          "LOCAL_RANK={} is ignored: RANK={} and WORLD_SIZE={} are the node's; unset LOCAL_RANK, or set "
          "--rank-unit=process (RANKSHIM_RANK_UNIT) if something has started this process",
          *ranks.local_rank, *ranks.rank, *ranks.world_size));
      return;
    case StartedProcess::unclear:
      fault(
          fmt::format("cannot tell whether RANK={}, WORLD_SIZE={} and LOCAL_RANK={} are left over, or number "
                      "a process that something has started on this node",
                      *ranks.rank, *ranks.world_size, *ranks.local_rank),
          {"RANK", "WORLD_SIZE", "LOCAL_RANK"},
          "unset RANK, WORLD_SIZE and LOCAL_RANK, or describe this node with --nnodes and --node-rank "
          "(RANKSHIM_NNODES, RANKSHIM_NODE_RANK), or set --rank-unit=process (RANKSHIM_RANK_UNIT)");
  }
}

void TopologyResolver::become_launcher() {
  const auto &world = fact(Fact::world_size), &rank = fact(Fact::rank), &local = fact(Fact::local_rank);
  if (granularity_ != Granularity::process || settings_.text(Option::rank_unit) == "process" ||
      facts().text(Fact::local_world_size) != "1" || !world || !rank || !parse_count(rank->text) ||
      number(Fact::world_size) == 0 ||
      (local && local->detail == "LOCAL_RANK"))  // a worker, by torch's name for it
    return;
  auto& nnodes = fact(Fact::nnodes);
  if (nnodes && !same_value(Fact::nnodes, nnodes->text, world->text))
    return;  // it would differ on other nodes
  auto& node_rank = fact(Fact::node_rank);
  if (node_rank && !node_rank->from_user() && !same_value(Fact::node_rank, node_rank->text, rank->text)) {
    fault(fmt::format("{} contradicts {}, the one process of its node", in_words(Fact::node_rank, *node_rank),
                      in_words(Fact::rank, *rank)),
          {name_of(Fact::node_rank, *node_rank), name_of(Fact::rank, *rank)},
          "correct one of them, or settle it with --node-rank (RANKSHIM_NODE_RANK)");
    return;
  }
  if (!nnodes) nnodes = world;
  if (!node_rank) node_rank = rank;
  granularity_ = Granularity::node;
  for (const Fact of_process : {Fact::rank, Fact::world_size, Fact::local_rank, Fact::local_world_size})
    fact(of_process).reset();
}

unsigned TopologyResolver::number(Fact fact) const {
  return parse_count(topology_.facts.text(fact)).value_or(0);
}

Part TopologyResolver::part() const {
  const Facts& facts = topology_.facts;
  const auto known = [&](Fact fact) { return parse_count(facts.text(fact)); };
  Master master{std::string(without_brackets(facts.text(Fact::master_addr))),
                static_cast<std::uint16_t>(number(Fact::master_port))};
  if (granularity_ == Granularity::process)
    return CreatedProcess{.master = std::move(master),
                          .rank = number(Fact::rank),
                          .world_size = number(Fact::world_size),
                          .local_rank = number(Fact::local_rank),
                          .local_world_size = known(Fact::local_world_size),
                          .nodes = known(Fact::nnodes),
                          .node_rank = known(Fact::node_rank)};
  const unsigned workers = number(Fact::nproc_per_node), restarts = number(Fact::max_restarts);
  if (is_alone_) return LoneNode{std::move(master), workers, restarts, is_alone_by_user_};
  const auto [least, most] = min_and_max(facts.text(Fact::nnodes));
  if (is_elastic_)
    return ElasticNode{.master = std::move(master),
                       .backend = std::string(facts.text(Fact::rdzv_backend)),
                       .least = parse_count(least).value_or(1),
                       .most = parse_count(most).value_or(1),
                       .rank = known(Fact::node_rank),
                       .hosts_master = hosts_master_,
                       .workers = workers,
                       .max_restarts = restarts};
  return StaticNode{.master = master.host.empty() ? std::nullopt : std::optional(std::move(master)),
                    .nodes = number(Fact::nnodes),
                    .rank = number(Fact::node_rank),
                    .workers = workers,
                    .max_restarts = restarts};
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

const Master* Topology::master() const {
  if (const auto* node = as<StaticNode>()) return node->master ? &*node->master : nullptr;
  if (const auto* node = as<ElasticNode>()) return &node->master;
  if (const auto* process = as<CreatedProcess>()) return &process->master;
  const auto* lone = as<LoneNode>();
  return lone != nullptr ? &lone->master : nullptr;
}

unsigned Topology::workers() const {
  if (const auto* node = as<LoneNode>()) return node->workers;
  if (const auto* node = as<StaticNode>()) return node->workers;
  if (const auto* node = as<ElasticNode>()) return node->workers;
  const auto* process = as<CreatedProcess>();
  return process != nullptr ? process->local_world_size.value_or(0) : 0;
}

unsigned Topology::max_restarts() const {
  if (const auto* node = as<LoneNode>()) return node->max_restarts;
  if (const auto* node = as<StaticNode>()) return node->max_restarts;
  const auto* node = as<ElasticNode>();
  return node != nullptr ? node->max_restarts : 0;
}

std::optional<unsigned> Topology::node_rank() const {
  if (const auto* node = as<StaticNode>()) return node->rank;
  if (const auto* node = as<ElasticNode>()) return node->rank;
  if (const auto* process = as<CreatedProcess>()) return process->node_rank;
  return is<LoneNode>() ? std::optional(0U) : std::nullopt;
}

std::optional<unsigned> Topology::nodes() const {
  if (const auto* node = as<StaticNode>()) return node->nodes;
  if (const auto* process = as<CreatedProcess>()) return process->nodes;
  const auto* elastic = as<ElasticNode>();
  if (elastic != nullptr && elastic->least == elastic->most) return elastic->most;
  return is<LoneNode>() ? std::optional(1U) : std::nullopt;
}

Outcome<Topology> resolve_topology(const Settings& settings, const platform::Platform& platform,
                                   const Node& node, const LauncherFlags* torchrun) {
  return TopologyResolver(settings, platform, node, torchrun).resolve();
}

std::uint16_t default_port(std::string_view run_id) {
  std::uint32_t crc = 0xFFFFFFFFU;
  for (const char c : run_id) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1U) ^ (0xEDB88320U & (0U - (crc & 1U)));
  }
  return static_cast<std::uint16_t>(20000 + (crc ^ 0xFFFFFFFFU) % 10000);
}

std::optional<unsigned> parse_count(std::string_view text) {
  constexpr unsigned largest = 1'000'000'000;
  const auto number = parse_number<unsigned>(text);
  return number && *number <= largest ? number : std::nullopt;
}

}  // namespace rankshim
