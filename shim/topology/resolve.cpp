#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "base/text.h"
#include "platform/evaluation.h"
#include "topology/resolution.h"

namespace rankshim::topology {

using platform::Granularity;
using settings::Option;

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

bool Resolution::is_this_node(std::string_view name) const {
  return is_loopback(name) || same_host(name, host.host_name()) || host.owns_address(name);
}

Phrase Resolution::variable(const std::string& name) const {
  return {fmt::format("{}={}", name, in_quotes(host.environment().get(name).value_or(""))), {name}};
}

Phrase Resolution::set(Fact of_process) const {
  const std::string name = variable_of(of_process);
  return {fmt::format("{}={}", name, in_quotes(ranks.text(of_process).value_or(""))), {name}};
}

Phrase Resolution::recognised() const {
  if (platform.profile == nullptr) return platform.id.name();
  platform::Causes causes = platform::causes_of(*platform.profile, host);
  const auto& chosen = settings[Option::platform];
  if (causes.shown.empty() && chosen)  // only the user's choice speaks for it
    causes = {{fmt::format("{}={}", chosen->detail, chosen->text)}, {chosen->detail}};
  return {fmt::format("{} ({})", platform.id.name(), joined(causes.shown)), std::move(causes.names)};
}

void Findings::add(Findings more) {
  std::ranges::move(more.faults, std::back_inserter(faults));
  std::ranges::move(more.warnings, std::back_inserter(warnings));
}

Findings refusal(ErrorCode error_code, Phrase what, std::string fix) {
  return {{fault(error_code, std::move(what), std::move(fix))}, {}};
}

bool Resolution::add(Findings findings) {
  const bool is_well = findings.faults.empty();
  if (!is_well && findings.explains_all) faults.clear();
  for (Fault& one : findings.faults)
    if (std::ranges::find(faults, one.what, &Fault::what) == faults.end()) faults.push_back(std::move(one));
  std::ranges::move(findings.warnings, std::back_inserter(topology.warnings));
  return is_well;
}

Added unless_known(const Resolution& r, Fact fact, Value value) {
  Added added;
  if (!r.has(fact)) added.set(fact, std::move(value));
  return added;
}

bool Resolution::add(Added added) {
  for (auto& [fact, value] : added.facts) topology.facts[fact] = std::move(value);
  if (added.granularity) granularity = *added.granularity;
  if (added.drops_local_rank) {
    ranks.local_rank.reset();
    ranks.has_local_rank = false;
    ranks.local_world_size.reset();
  }
  return add(static_cast<Findings&&>(added));
}

namespace {

/// Whether the user sets the node's numbers. RANK and WORLD_SIZE then add nothing, whatever they count.
bool user_sets_numbers(const Resolution& r) {
  return r.settings[Option::nnodes] &&
         (r.settings[Option::node_rank] || r.settings[Option::rdzv_endpoint] || r.user_says_alone());
}

/// Reasons why the platform's facts cannot be read, unless the user settles them.
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

/// The claims, and the facts that the winning ones give.
struct Winners {
  Claims claims;
  Facts facts;
  Findings findings;
};

/// Decides each fact. Leading zeros are stripped from numbers: a shell reads 010 as 8.
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

/// Makes this a lone node because the user says so, which overrides everything that suggests other nodes.
Added become_alone(const Resolution& r) {
  Added added;
  if (r.granularity == Granularity::process) return added;
  for (const Fact of_others : {Fact::node_rank, Fact::master_addr, Fact::rdzv_backend, Fact::rdzv_endpoint})
    if (!r.is_users(of_others)) added.drop(of_others);
  return added;
}

/// The claims that differ from the facts.
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

/// Adds the run id. A restarted job must not meet leftovers of the previous one, so the attempt is part of
/// the run id, and thereby of the default port, unless the user has set the run id.
Added add_run_id(const Resolution& r) {
  // A constant is the same on all nodes, whereas each may spell the master's name differently.
  Value run_id = r.topology.facts[Fact::run_id].value_or(Value{"rankshim"});
  const auto& attempt = r.topology.facts[Fact::attempt];
  if (attempt && attempt->text != "0" && !run_id.from_user())
    run_id = {
        run_id.text + "." + attempt->text, Origin::derived,
        fmt::format("{} and {}", run_id.from().empty() ? run_id.source() : run_id.from(), attempt->from())};
  Added added;
  added.set(Fact::run_id, std::move(run_id));
  return added;
}

/// A free port, for a lone node.
Value free_port(const node::Host& host) {
  constexpr std::uint16_t torch_port = 29500;
  constexpr std::uint16_t last_tried = torch_port + 100;
  std::uint16_t port = torch_port;
  while (port < last_tried && !host.take_port(port)) ++port;
  if (port == torch_port) return {"29500"};
  return {std::to_string(port), Origin::derived, "29500, which is in use"};
}

/// The port, if none is given. `names_job`: the run id is the user's or the platform's.
Value port_of_job(const Resolution& r, bool names_job) {
  if (r.topology.is<LoneNode>()) return free_port(r.host);
  if (!names_job) return {"29500"};
  return {std::to_string(default_port(r.text(Fact::run_id))), Origin::derived, "run_id"};
}

Added add_port(const Resolution& r, bool names_job) {
  Added added;
  if (!r.has(Fact::master_port)) {
    if (!r.topology.is_alone()) added.add(warn_of_near_misses(r, Fact::master_port));
    added.set(Fact::master_port, port_of_job(r, names_job));
  } else if (is_port(r.text(Fact::master_port))) {
    Value port = *r.topology.facts[Fact::master_port];
    port.text = std::to_string(r.number(Fact::master_port));
    added.set(Fact::master_port, std::move(port));
  } else {
    added.add(refusal(ErrorCode::no_number, r.said(Fact::master_port) + " is not a port, 1 to 65535",
                      "correct it, or " + settle(Fact::master_port)));
  }
  return added;
}

/// Checks for a flag of torchrun that names this node as the master although its rank is above 0: a fault, or
/// a warning if it may be right.
Findings check_own_endpoint(const Resolution& r) {
  const Fact place = r.is_flag(Fact::rdzv_endpoint) ? Fact::rdzv_endpoint : Fact::master_addr;
  const std::string_view host = r.text(Fact::master_addr);
  if (!r.is_flag(place) || r.number(Fact::node_rank) == 0 || !r.is_this_node(host)) return {};
  const Phrase what = r.said(r.has(place) ? place : Fact::master_addr) +
                      fmt::format(" on node {} is this node itself", r.text(Fact::node_rank));
  const std::string_view fix = r.is_flag(Fact::node_rank)
                                   ? "set it to node 0's name or address"
                                   : "take it out of the command, because rankshim fills in what is missing";
  if (is_localhost_name(host))
    return refusal(ErrorCode::own_address, what + ", not the master",
                   fmt::format("{}; 127.0.0.1 for a trial with all nodes on one machine", fix));
  return {{}, {what.text + ", which is right only if all nodes are on it"}};
}

Findings refuse_own_address(const Resolution& r) {
  const bool is_process = r.granularity == Granularity::process;
  return refusal(ErrorCode::own_address,
                 r.said(Fact::master_addr) + fmt::format(" on {} {} is this node itself, not the master",
                                                         is_process ? "rank" : "node",
                                                         r.text(is_process ? Fact::rank : Fact::node_rank)),
                 fmt::format("{}; 127.0.0.1 for a trial with all nodes on one machine", set_master_addr));
}

/// Checks for a loopback address of the master on a node that is not the master. A user who says 127.0.0.1
/// outright knows that all nodes are on one machine; "localhost" is what scripts say by habit.
Findings check_loopback(const Resolution& r, bool hosts_master) {
  const std::string_view host = r.text(Fact::master_addr);
  if (hosts_master || !is_loopback(host)) return {};
  if (is_localhost_name(host)) return refuse_own_address(r);
  if (r.is_users(Fact::master_addr)) return {};
  return {{},
          {r.said(Fact::master_addr).text +
           " is this machine itself, which is right only if all nodes are on it"}};
}

/// Checks for an outer job's MASTER_ADDR, left over together with its RANK and WORLD_SIZE, so that one run
/// reports all three.
Findings check_left_over_address(const Resolution& r) {
  const bool is_left_over = r.granularity == Granularity::node && r.number(Fact::node_rank) != 0 &&
                            r.has(Fact::master_addr) && !r.is_users(Fact::master_addr) &&
                            is_localhost_name(r.text(Fact::master_addr));
  return is_left_over ? refuse_own_address(r) : Findings{};
}

/// A fault for each fact whose variable is quoted, unless the user sets the fact. Any other faults follow
/// from the quotes.
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
    faults.push_back(topology::fault(
        ErrorCode::no_number,
        {fmt::format("{}={} has quotes in its value: docker run --env-file and Kubernetes keep them", name,
                     in_quotes(value)),
         {name}},
        fmt::format("write {} without quotes, or {}", name, is_process ? settle_nodes : settle(fact))));
  }
  return faults;
}

}  // namespace

Added check_master_addr(const Resolution& r) {
  Value master = *r.topology.facts[Fact::master_addr];
  master.text = std::string(without_brackets(master.text));
  Added added;
  if (!is_host(master.text))
    added.add(refusal(
        ErrorCode::no_host, said(Fact::master_addr, master) + " is neither a host name nor an address",
        fmt::format("correct it (the port belongs in MASTER_PORT), or {}", settle(Fact::master_addr))));
  added.set(Fact::master_addr, std::move(master));
  return added;
}

void complete_meeting(Resolution& r, bool hosts_master) {
  const bool names_job = r.has(Fact::run_id);
  r.add(add_run_id(r));
  r.add(add_port(r, names_job));
  r.topology.meeting = Master{std::string(without_brackets(r.text(Fact::master_addr))),
                              static_cast<std::uint16_t>(r.number(Fact::master_port))};
  if (!r.faults.empty()) return;
  Findings own = check_own_endpoint(r);
  const bool is_own = !own.faults.empty() || !own.warnings.empty();
  r.add(is_own ? std::move(own) : check_loopback(r, hosts_master));
}

Findings check_below(const Resolution& r, Fact smaller, Fact larger, std::string_view settles) {
  const auto number = r.known(smaller), limit = parse_count(min_and_max(r.text(larger)).second);
  if (number && number < limit) return {};
  const Phrase what =
      r.said(smaller) + (number ? " is not below " : " is not a number below ") + r.said(larger);
  const bool may_be_left_over = larger == Fact::nnodes && !r.is_users(larger) && !r.is_flag(larger);
  return refusal(ErrorCode::not_below, what,
                 fmt::format("{}, or {}{}", correct(what), settles, may_be_left_over ? if_alone : ""));
}

Outcome<Topology> resolve_topology(const settings::Settings& settings, const platform::Platform& platform,
                                   const node::Host& host, const LauncherFlags* torchrun) {
  Resolution r{settings, platform, host, torchrun, platform.granularity, platform.idle};
  r.topology.platform = platform.id;
  r.topology.ranks = r.ranks;
  r.topology.also_matched = platform.also_matched;
  r.topology.warnings = platform.warnings;
  // Later faults would only repeat these.
  if (Faults faults = faults_of_platform(r); !faults.empty()) return faults;
  const RankUse started = recognise_started_process(r);
  r.is_started_process = started == RankUse::this_process;
  if (r.is_started_process)
    r.torchrun = nullptr;
  else
    r.add(added_by(r, started));
  if (!r.faults.empty()) return std::move(r.faults);
  Winners winners = decide_facts(r);
  r.claims = std::move(winners.claims);
  r.topology.facts = std::move(winners.facts);
  r.add(std::move(winners.findings));
  if (Faults faults = faults_of_quotes(r); !faults.empty()) return faults;
  take_ranks(r, user_sets_numbers(r));
  if (!r.faults.empty()) r.add(check_left_over_address(r));
  if (!r.faults.empty()) return std::move(r.faults);
  if (r.user_says_alone()) {
    r.idle.reset();
    r.add(become_alone(r));
  }
  if (r.idle) {
    r.topology.part = Idle{*std::move(r.idle)};
    return std::move(r.topology);
  }

  r.granularity == Granularity::process ? complete_process(r) : complete_node(r);
  if (!r.faults.empty()) return std::move(r.faults);
  r.topology.unused = unused_claims(r);
  return std::move(r.topology);
}

}  // namespace rankshim::topology
