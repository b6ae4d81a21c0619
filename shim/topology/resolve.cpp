#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "base/text.h"
#include "platform/evaluation.h"
#include "topology/resolution.h"

namespace rankshim {

using platform::Granularity;

void Resolution::fill(Fact fact, Value value) {
  if (!has(fact)) topology.facts[fact] = std::move(value);
}

bool Resolution::has_own_words() const {
  return platform.profile != nullptr && platform.profile->has_own_words();
}

bool Resolution::platform_is_elastic() const {
  const auto& backend = platform.facts[Fact::rdzv_backend];
  return backend && backend->text != "static";
}

bool Resolution::user_says_alone() const {
  const auto& nnodes = settings[Option::nnodes];
  return nnodes && parse_count(nnodes->text) == 1U && !settings[Option::rdzv_endpoint];
}

bool Resolution::is_this_node(std::string_view host) const {
  return is_loopback(host) || same_host(host, node.host_name()) || node.owns_address(host);
}

Phrase Resolution::variable(const std::string& name) const {
  return {fmt::format("{}={}", name, in_quotes(node.environment().get(name).value_or(""))), {name}};
}

Phrase Resolution::set(Fact of_process) const {
  const std::string name = variable_of(of_process);
  return {fmt::format("{}={}", name, in_quotes(ranks.text(of_process).value_or(""))), {name}};
}

Phrase Resolution::recognised() const {
  if (platform.profile == nullptr) return platform.id.name();
  platform::Causes causes = platform::causes_of(*platform.profile, node);
  const auto& chosen = settings[Option::platform];
  if (causes.text.empty() && chosen)  // nothing here speaks for it but the user
    causes = {fmt::format("{}={}", chosen->detail, chosen->text), {chosen->detail}};
  return {fmt::format("{} ({})", platform.id.name(), causes.text), std::move(causes.names)};
}

void Resolution::refuse(ErrorCode error_code, Phrase what, std::string fix) {
  if (std::ranges::find(faults, what.text, &Fault::what) != faults.end()) return;
  faults.push_back(fault(error_code, std::move(what), std::move(fix)));
}

void Resolution::add(Findings findings) {
  for (Fault& one : findings.faults)
    if (std::ranges::find(faults, one.what, &Fault::what) == faults.end()) faults.push_back(std::move(one));
  std::ranges::move(findings.warnings, std::back_inserter(topology.warnings));
}

void Resolution::add(Added added) {
  for (auto& [one, value] : added.facts) fact(one) = std::move(value);
  if (added.granularity) granularity = *added.granularity;
  if (added.drops_local_rank) {
    ranks.local_rank.reset();
    ranks.has_local_rank = false;
    ranks.local_world_size.reset();
  }
  add(static_cast<Findings&&>(added));
}

namespace {

/// If so, RANK and WORLD_SIZE add nothing, whatever they count.
bool user_sets_numbers(const Resolution& r) {
  return r.settings[Option::nnodes] &&
         (r.settings[Option::node_rank] || r.settings[Option::rdzv_endpoint] || r.user_says_alone());
}

/// What makes it impossible to read the platform's facts, unless the user settles them.
Faults faults_of_platform(const Resolution& r) {
  Faults faults;
  if (const auto& pending = r.platform.pending; pending && !r.user_says_alone()) {
    faults.push_back(
        fault(ErrorCode::document,
              {fmt::format("{} ({}), so the facts of {} are not complete yet", pending->name,
                           pending->because, r.platform.id.name()),
               pending->names},
              "wait until it is complete, as run and wait do up to --wait-timeout (RANKSHIM_WAIT_TIMEOUT)"));
    faults.back().transient = true;
  } else if (!user_sets_numbers(r)) {
    const Facts& own = r.platform.facts;
    const bool elastic = own.has(Fact::rdzv_backend) || own.has(Fact::rdzv_endpoint);
    const char* settles = elastic ? "give the rendezvous with --nnodes, --rdzv-backend and --rdzv-endpoint "
                                    "(RANKSHIM_NNODES, …)"
                                  : settle_node;
    if (r.granularity == Granularity::process) settles = settle_process;
    for (const Fault& doubt : r.platform.doubts)
      faults.push_back(fault(doubt.error_code, {doubt.what, doubt.names}, doubt.fix + ", or " + settles));
  }
  return faults;
}

/// The claims, and the facts of those that win.
struct Winners {
  Claims claims;
  Facts facts;
  Findings findings;
};

/// Decides each fact. Numbers lose leading zeros: a shell takes 010 for 8.
Winners decide_facts(const Resolution& r) {
  Winners winners;
  winners.claims = collect_claims(r.settings, r.platform, r.torchrun);
  const Circumstances circumstances{r.platform_is_elastic(), r.is_started_process, user_sets_numbers(r)};
  for (const Fact fact : all_facts) {
    Decision decision = decide(fact, winners.claims, circumstances);
    if (decision.winner != nullptr) winners.facts[fact] = decision.winner->value;
    std::ranges::move(decision.faults, std::back_inserter(winners.findings.faults));
    std::ranges::move(decision.warnings, std::back_inserter(winners.findings.warnings));
  }
  for (const Fact number : {Fact::node_rank, Fact::nproc_per_node, Fact::master_port, Fact::max_restarts,
                            Fact::rank, Fact::world_size, Fact::local_rank, Fact::local_world_size})
    if (const auto count = parse_count(winners.facts.text(number)))
      winners.facts[number]->text = std::to_string(*count);
  return winners;
}

/// The user says that there is one node, which settles all that speaks of others.
void become_alone(Resolution& r) {
  r.idle.reset();
  if (r.granularity == Granularity::process) return;
  for (const Fact of_others : {Fact::node_rank, Fact::master_addr, Fact::rdzv_backend, Fact::rdzv_endpoint})
    if (!r.is_users(of_others)) r.fact(of_others).reset();
}

/// The claims that say something else than the facts.
std::vector<std::pair<Fact, Value>> unused_claims(const Resolution& r) {
  std::vector<std::pair<Fact, Value>> unused;
  for (const Claim& claim : r.claims) {
    if (r.has(claim.fact) && same_value(claim.fact, r.text(claim.fact), claim.value.text)) continue;
    const bool is_listed = std::ranges::any_of(unused, [&](const auto& one) {
      return one.first == claim.fact && one.second.has_source_of(claim.value);
    });
    if (!is_listed) unused.emplace_back(claim.fact, claim.value);
  }
  return unused;
}

/// A job that is started again must not meet what is left of the one before: the attempt is part of the run
/// id, and so of the default port, unless the user has set the run id.
void complete_run_id(Resolution& r) {
  // A constant is a name that all nodes have; what they call the master may be spelt differently on each.
  r.fill(Fact::run_id, {"rankshim"});
  Value& run_id = *r.fact(Fact::run_id);
  const auto& attempt = r.fact(Fact::attempt);
  if (!attempt || attempt->text == "0" || run_id.from_user()) return;
  run_id = {
      run_id.text + "." + attempt->text, Origin::derived,
      fmt::format("{} and {}", run_id.from().empty() ? run_id.source() : run_id.from(), attempt->from())};
}

/// A port that is free, for a node that is alone.
Value free_port(const Node& node) {
  constexpr std::uint16_t torch_port = 29500;
  constexpr std::uint16_t last_tried = torch_port + 100;
  std::uint16_t port = torch_port;
  while (port < last_tried && !node.take_port(port)) ++port;
  if (port == torch_port) return {"29500"};
  return {std::to_string(port), Origin::derived, "29500, which is in use"};
}

void complete_port(Resolution& r, bool names_job) {
  if (r.has(Fact::master_port)) {
    if (is_port(r.text(Fact::master_port))) {
      r.fact(Fact::master_port)->text = std::to_string(r.number(Fact::master_port));
      return;
    }
    return r.refuse(ErrorCode::no_number, r.said(Fact::master_port) + " is not a port, 1 to 65535",
                    "correct it, or " + settle(Fact::master_port));
  }
  if (!r.topology.is_alone()) warn_of_near_misses(r, Fact::master_port);
  r.fact(Fact::master_port) =
      r.topology.is<LoneNode>() ? free_port(r.node)
      : names_job ? Value{std::to_string(default_port(r.text(Fact::run_id))), Origin::derived, "run_id"}
                  : Value{"29500"};
}

/// A flag of torchrun that names this node as the master, although the platform gives it a rank above 0.
/// Returns whether it is one: a fault, or a warning if it may be right. Where the flags have the rank too,
/// all nodes may be a trial on one machine.
bool refuse_own_endpoint(Resolution& r) {
  const Fact place = r.is_flag(Fact::rdzv_endpoint) ? Fact::rdzv_endpoint : Fact::master_addr;
  const bool is_ranked = r.number(Fact::node_rank) != 0 && !r.is_flag(Fact::node_rank);
  const std::string_view host = r.text(Fact::master_addr);
  if (!r.is_flag(place) || !is_ranked || !r.is_this_node(host)) return false;
  const Phrase what = r.said(r.has(place) ? place : Fact::master_addr) +
                      fmt::format(" on node {} is this node itself", r.text(Fact::node_rank));
  if (is_localhost_name(host))
    r.refuse(ErrorCode::own_address, what + ", not the master",
             "take it out of the command, because rankshim fills in what is missing; 127.0.0.1 for a trial "
             "with all "
             "nodes on one machine");
  else
    r.warn(what.text + ", which is right only if all nodes are on it");
  return true;
}

void refuse_own_address(Resolution& r) {
  const bool is_process = r.granularity == Granularity::process;
  r.refuse(ErrorCode::own_address,
           r.said(Fact::master_addr) + fmt::format(" on {} {} is this node itself, not the master",
                                                   is_process ? "rank" : "node",
                                                   r.text(is_process ? Fact::rank : Fact::node_rank)),
           fmt::format("{}; 127.0.0.1 for a trial with all nodes on one machine", set_master_addr));
}

/// The address of an outer job beside RANK and WORLD_SIZE that are left over of it: all in one run.
void check_left_over_address(Resolution& r) {
  if (r.granularity == Granularity::node && r.number(Fact::node_rank) != 0 && r.has(Fact::master_addr) &&
      !r.is_users(Fact::master_addr) && is_localhost_name(r.text(Fact::master_addr)))
    refuse_own_address(r);
}

/// The facts whose variables are in quotes, unless the user gives them. What else is wrong follows from that.
Faults faults_of_quotes(const Resolution& r) {
  Faults faults;
  std::vector<platform::Quoted> quoted = r.platform.quoted;
  for (const Fact fact : facts_of_process) {
    const auto& text = r.ranks.text(fact);
    const bool is_listed =
        std::ranges::find(quoted, variable_of(fact), &platform::Quoted::name) != quoted.end();
    if (r.reads_variables() && !r.platform.idle && text && platform::has_quotes_around(*text) && !is_listed)
      quoted.push_back({fact, variable_of(fact), *text});
  }
  for (const auto& [fact, name, value] : quoted) {
    const bool is_process = contains(facts_of_process, fact);
    if (is_process ? user_sets_numbers(r) : r.is_users(fact)) continue;
    faults.push_back(rankshim::fault(
        ErrorCode::no_number,
        {fmt::format("{}={} has quotes in its value: docker run --env-file and Kubernetes keep them", name,
                     in_quotes(value)),
         {name}},
        fmt::format("write {} without quotes, or {}", name, is_process ? settle_nodes : settle(fact))));
  }
  return faults;
}

}  // namespace

bool check_master_addr(Resolution& r) {
  auto& master = r.fact(Fact::master_addr)->text;
  master = std::string(without_brackets(master));
  if (is_host(master)) return true;
  r.refuse(ErrorCode::no_host, r.said(Fact::master_addr) + " is neither a host name nor an address",
           fmt::format("correct it (the port is MASTER_PORT's), or {}", settle(Fact::master_addr)));
  return false;
}

void complete_meeting(Resolution& r, bool hosts_master) {
  const bool names_job = r.has(Fact::run_id);
  complete_run_id(r);
  complete_port(r, names_job);
  const std::string_view host = r.text(Fact::master_addr);
  r.topology.meeting =
      Master{std::string(without_brackets(host)), static_cast<std::uint16_t>(r.number(Fact::master_port))};
  if (!r.faults.empty() || refuse_own_endpoint(r)) return;
  if (hosts_master || !is_loopback(host) || r.is_users(Fact::master_addr)) return;
  if (is_localhost_name(host))
    refuse_own_address(r);
  else
    r.warn(r.said(Fact::master_addr).text +
           " is this machine itself, which is right only if all nodes are on it");
}

void check_below(Resolution& r, Fact smaller, Fact larger, std::string_view settles) {
  const auto number = r.known(smaller), limit = parse_count(min_and_max(r.text(larger)).second);
  if (number && number < limit) return;
  const Phrase what =
      r.said(smaller) + (number ? " is not below " : " is not a number below ") + r.said(larger);
  r.refuse(ErrorCode::not_below, what,
           fmt::format("{}, or {}{}", correct(what), settles,
                       larger == Fact::nnodes && !r.is_users(larger) && !r.is_flag(larger) ? if_alone : ""));
}

Outcome<Topology> resolve_topology(const Settings& settings, const platform::Platform& platform,
                                   const Node& node, const LauncherFlags* torchrun) {
  Resolution r{settings, platform, node, torchrun, platform.granularity, platform.idle};
  r.topology.platform = platform.id;
  r.topology.also_matched = platform.also_matched;
  r.topology.warnings = platform.warnings;
  // What follows a fault would only repeat it.
  if (Faults faults = faults_of_platform(r); !faults.empty()) return faults;
  const RankMeaning started = recognise_started_process(r);
  r.is_started_process = started == RankMeaning::this_process;
  if (r.is_started_process)
    r.torchrun = nullptr;
  else
    r.add(meaning_adds(r, started));
  if (!r.faults.empty()) return std::move(r.faults);
  Winners winners = decide_facts(r);
  r.claims = std::move(winners.claims);
  r.topology.facts = std::move(winners.facts);
  r.add(std::move(winners.findings));
  if (Faults faults = faults_of_quotes(r); !faults.empty()) return faults;
  take_ranks(r, user_sets_numbers(r));
  if (!r.faults.empty()) check_left_over_address(r);
  if (!r.faults.empty()) return std::move(r.faults);
  if (r.user_says_alone()) become_alone(r);
  if (r.idle) {
    r.topology.part = Idle{*std::move(r.idle)};
    return std::move(r.topology);
  }

  r.granularity == Granularity::process ? complete_process(r) : complete_node(r);
  if (!r.faults.empty()) return std::move(r.faults);
  r.topology.unused = unused_claims(r);
  return std::move(r.topology);
}

}  // namespace rankshim
