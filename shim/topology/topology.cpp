#include "topology/topology.h"

#include <spdlog/fmt/fmt.h>

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
  topology_.granularity = platform.granularity;
  topology_.idle_role = platform.idle_role;
  topology_.idle_because = platform.idle_because;
  topology_.idle_fix = platform.idle_fix;
  topology_.idle_names = platform.idle_names;
  topology_.also_matched = platform.also_matched;
  topology_.warnings = platform.warnings;
  reads_variables_ = platform.name != "none";
}

Outcome<Topology> TopologyResolver::resolve() {
  if (!user_says_alone() && !platform_.pending.empty()) {
    faults_.push_back({platform_.pending + ", so the facts of " + platform_.name + " are not complete yet",
                       platform_.pending_names,
                       "wait until it is complete, as run and wait do up to --wait-timeout "
                       "(RANKSHIM_WAIT_TIMEOUT)",
                       true});
    return std::move(faults_);
  }
  if (!user_sets_numbers() && !platform_.doubts.empty()) {
    const Facts& own = platform_.facts;
    const bool elastic = own.has(Fact::rdzv_backend) || own.has(Fact::rdzv_endpoint);
    const char* settle = topology_.granularity == Granularity::process ? settle_process
                         : elastic                                     ? settle_elastic
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
  if (!topology_.idle_role.empty()) return std::move(topology_);

  normalise();
  if (topology_.granularity == Granularity::process) {
    complete_process();
  } else {
    complete_node();
  }
  if (!faults_.empty()) return std::move(faults_);
  warn_of_links_as_port();
  note_unused();
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
    read_ranks("process", rank_variables(), node_, facts(), topology_.granularity, faults_);
  } else if (reads_variables_ && topology_.idle_role.empty() && topology_.granularity == Granularity::node &&
             !platform_sets_all() && !platform_has_words() && !user_sets_numbers()) {
    const auto wrong =
        torchrun_ == nullptr ? std::nullopt : check_beside_flags(*torchrun_, facts(), unit, rank_variables());
    if (wrong) {
      faults_ = {*wrong};
      return;
    }
    read_ranks(unit, rank_variables(), node_, facts(), topology_.granularity, faults_);
  }
  if (topology_.idle_role.empty()) become_launcher();
  if (topology_.granularity == Granularity::process) torchrun_ = nullptr;
  if (topology_.idle_role.empty() && settings_.text(Option::platform) == "auto" && unit == "auto" &&
      !is_started_process_ && !user_says_alone() &&
      (has_own_words() || node_.environment().get("LOCAL_RANK")))
    check_ranks(rank_variables(), node_, facts(), topology_.granularity, topology_.platform, faults_);
}

void TopologyResolver::become_alone() {
  topology_.idle_role.clear();
  if (topology_.granularity == Granularity::process) return;
  topology_.alone_by_user = true;
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
  if (!reads_variables_ || !topology_.idle_role.empty() || topology_.granularity != Granularity::node ||
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
  if (topology_.granularity != Granularity::process || settings_.text(Option::rank_unit) == "process" ||
      facts().text(Fact::local_world_size) != "1" || !world || !rank || !parse_count(rank->text) ||
      topology_.number(Fact::world_size) == 0 ||
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
  topology_.granularity = Granularity::node;
  for (const Fact of_process : {Fact::rank, Fact::world_size, Fact::local_rank, Fact::local_world_size})
    fact(of_process).reset();
}

unsigned Topology::number(Fact fact) const { return parse_count(facts.text(fact)).value_or(0); }

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
