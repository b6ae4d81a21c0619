#include "topology/topology.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/number.h"
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
  generic_ = platform.names;
  if (platform.granularity == Granularity::node) add_torchrun_facts();
}

Outcome<Topology> TopologyResolver::resolve() {
  if (!platform_.pending.empty()) {
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
  is_started_process_ = is_started_process();
  if (is_started_process_) torchrun_ = nullptr;
  for (std::size_t i = 0; i < fact_count; ++i) choose(static_cast<Fact>(i));
  if (is_started_process_) {
    auto& workers = fact(Fact::nproc_per_node);  // the platform's; it has started as many as were requested
    if (workers && !workers->from_user() && workers->detail != "NPROC_PER_NODE") workers.reset();
    read_ranks("process", node_, facts(), topology_.granularity, faults_);
  } else if (reads_variables_ && topology_.idle_role.empty() && topology_.granularity == Granularity::node &&
             !platform_sets_all() && !platform_has_words() && !user_sets_numbers()) {
    const auto wrong =
        torchrun_ == nullptr
            ? std::nullopt
            : check_beside_flags(*torchrun_, facts(), settings_.text(Option::rank_unit), node_.environment());
    if (wrong) return Faults{*wrong};
    read_ranks(settings_.text(Option::rank_unit), node_, facts(), topology_.granularity, faults_);
  }
  if (topology_.idle_role.empty()) become_launcher();
  if (topology_.granularity == Granularity::process) {
    torchrun_ = nullptr;
  } else if (platform_.granularity == Granularity::process) {
    for (std::size_t i = 0; i < fact_count; ++i) choose_from_torchrun(static_cast<Fact>(i));
  }
  if (topology_.idle_role.empty() && settings_.text(Option::platform) == "auto" &&
      settings_.text(Option::rank_unit) == "auto" && !is_started_process_ &&
      (has_own_words() || node_.environment().get("LOCAL_RANK")))
    check_ranks(node_, facts(), topology_.granularity, topology_.platform, faults_);
  if (!faults_.empty()) return std::move(faults_);  // the following checks would only repeat these faults
  if (!topology_.idle_role.empty()) return std::move(topology_);

  normalise();
  if (topology_.granularity == Granularity::process) {
    complete_process();
  } else {
    complete_node();
  }
  if (!faults_.empty()) return std::move(faults_);
  warn_of_links_as_port();
  return std::move(topology_);
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

void TopologyResolver::add_torchrun_facts() {
  if (is_mere_names()) return;
  const Facts& flags = platform_.flags;
  const std::string_view backend = flags.text(Fact::rdzv_backend);
  if ((!backend.empty() && backend != "static") ||
      flags.text(Fact::nnodes).find(':') != std::string_view::npos)
    return;
  for (const Fact fact :
       {Fact::nnodes, Fact::node_rank, Fact::nproc_per_node, Fact::master_addr, Fact::master_port}) {
    const bool is_known = generic_.has(fact) || (fact != Fact::nproc_per_node && platform_.facts.has(fact));
    if (!is_known) generic_[fact] = flags[fact];
  }
}

void TopologyResolver::fault(std::string what, const std::vector<std::string>& names, std::string fix) {
  std::vector<std::string> each;
  for (const std::string& name : names) Value{{}, Origin::derived, name}.append_inputs({}, each);
  for (auto one = each.begin(); one != each.end();)
    one = std::find(each.begin(), one, *one) == one ? one + 1 : each.erase(one);
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
  return settings_[Option::nnodes] && (settings_[Option::node_rank] || settings_[Option::rdzv_endpoint]);
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

bool TopologyResolver::is_started_process() const {
  if (!reads_variables_ || !topology_.idle_role.empty() || topology_.granularity != Granularity::node ||
      settings_.text(Option::rank_unit) != "auto" || settings_[Option::node_rank] || platform_is_elastic() ||
      (settings_.text(Option::platform) != "auto" && has_own_words()))
    return false;
  const RankVariables ranks = rank_variables(node_.environment());
  if (!ranks.rank || !ranks.world_size || !ranks.local_rank) return false;
  const auto known = [&](Fact fact) {
    const auto& value = platform_.facts[fact] ? platform_.facts[fact] : generic_[fact];
    return value ? parse_count(value->text) : std::nullopt;
  };
  KnownNode node;
  node.nnodes = known(Fact::nnodes);
  node.node_rank = node.nnodes == 1U ? std::optional<unsigned>(0) : known(Fact::node_rank);
  const bool is_the_only_one =
      ranks.world_size == node.nnodes && ranks.rank == node.node_rank && *ranks.local_rank == 0;
  if (has_own_words() && is_the_only_one) return false;  // as the platform has it
  return can_be_process_of(ranks, node);
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
