#include "topology/claim.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "base/text.h"
#include "topology/topology.h"

namespace rankshim {
namespace {

/// Facts that the user can set, and the option for each.
constexpr std::array<std::pair<Fact, Option>, 9> user_facts = {
    {{Fact::nnodes, Option::nnodes},
     {Fact::node_rank, Option::node_rank},
     {Fact::nproc_per_node, Option::nproc_per_node},
     {Fact::master_addr, Option::master_addr},
     {Fact::master_port, Option::master_port},
     {Fact::run_id, Option::run_id},
     {Fact::rdzv_backend, Option::rdzv_backend},
     {Fact::rdzv_endpoint, Option::rdzv_endpoint},
     {Fact::max_restarts, Option::max_restarts}}};

/// What is said of one node of a static job.
constexpr auto of_a_node = std::to_array<Fact>(
    {Fact::nnodes, Fact::node_rank, Fact::nproc_per_node, Fact::master_addr, Fact::master_port});

/// What becomes of a claim that differs from the one that wins.
enum class Loss : std::uint8_t {
  dropped,  ///< `rankshim explain` lists it
  warned,   ///< a warning names both
  refused,  ///< a contradiction
};

constexpr unsigned of(Source source) { return 1U << static_cast<unsigned>(source); }
constexpr unsigned of(Fact fact) { return 1U << static_cast<unsigned>(fact); }
constexpr unsigned anyone = ~0U, anything = ~0U;
constexpr unsigned address_facts = of(Fact::master_addr) | of(Fact::master_port);
constexpr unsigned decisive = of(Fact::nnodes) | of(Fact::node_rank) | of(Fact::rank) | of(Fact::world_size);
/// torchrun takes its flags before its variables.
constexpr unsigned only_torchruns = of(Fact::run_id) | of(Fact::rdzv_conf) | of(Fact::max_restarts);

/// What has to be so for a rule to apply.
using When = bool (*)(const Claim& loser, const Circumstances& now);
constexpr When always = [](const Claim&, const Circumstances&) { return true; };
constexpr When is_elastic = [](const Claim&, const Circumstances& now) { return now.elastic; };
constexpr When is_started_process = [](const Claim&, const Circumstances& now) {
  return now.started_process;
};
constexpr When settled_by_user = [](const Claim&, const Circumstances& now) { return now.settled_by_user; };
constexpr When loser_is_derived = [](const Claim& loser, const Circumstances&) {
  return loser.value.origin != Origin::variable;
};

struct Rule {
  unsigned facts, winners, losers;
  When when;
  Loss loss;
};

/// The first rule that fits counts.
constexpr auto rules = std::to_array<Rule>({
    // facts, winner, loser, when, what becomes of the loser
    {anything, anyone, of(Source::part), always, Loss::dropped},
    {anything, of(Source::user), anyone & ~of(Source::flag), always, Loss::dropped},
    {only_torchruns, of(Source::flag), anyone & ~of(Source::user), always, Loss::dropped},
    {address_facts, of(Source::flag), anyone & ~of(Source::user), loser_is_derived, Loss::dropped},
    {anything, of(Source::flag), of(Source::other), always, Loss::dropped},
    {address_facts, of(Source::generic), of(Source::platform), is_started_process, Loss::dropped},
    {address_facts, of(Source::generic), of(Source::platform), always, Loss::warned},
    // c10d meets at the endpoint; a static job would use MASTER_ADDR.
    {address_facts, of(Source::platform), of(Source::generic), is_elastic, Loss::dropped},
    {address_facts, anyone, of(Source::torchrun), always, Loss::warned},
    {decisive, anyone, of(Source::other), settled_by_user, Loss::dropped},
    {decisive, of(Source::platform), of(Source::other), always, Loss::refused},
    {anything, anyone, of(Source::other), always, Loss::dropped},
    {anything, anyone, anyone, always, Loss::refused},
});

Loss loss_of(const Claim& winner, const Claim& loser, const Circumstances& circumstances) {
  const auto* const rule = std::find_if(rules.begin(), rules.end(), [&](const Rule& one) {
    return (one.facts & of(winner.fact)) != 0 && (one.winners & of(winner.source)) != 0 &&
           (one.losers & of(loser.source)) != 0 && one.when(loser, circumstances);
  });
  return rule->loss;  // the last one always fits
}

/// Whether both can be true.
bool agree(const Claim& winner, const Claim& other) {
  const std::string &text = winner.value.text, &its = other.value.text;
  if (same_value(winner.fact, text, its)) return true;
  if (winner.fact == Fact::nproc_per_node && other.source != Source::user)  // "auto" leaves the number open
    return !parse_count(text) || !parse_count(its);
  if (winner.fact != Fact::nnodes) return false;
  const auto [least, most] = min_and_max(text);
  const auto [its_least, its_most] = min_and_max(its);
  const auto min = parse_count(least), max = parse_count(most), number = parse_count(its_least);
  if (!min || !max || !number || number != parse_count(its_most)) return false;
  if (min == max) return min == number;  // 2 is 2:2
  return winner.source == Source::flag && other.source != Source::user && *min <= *number && *number <= *max;
}

/// Whether `claim` wins over the one that its source's place would let win.
bool overtakes(const Claim& claim, const Claim& first, const Circumstances& circumstances) {
  if (claim.source == Source::other || first.source == Source::flag || first.source == Source::user)
    return false;
  // A number, not "auto".
  if (claim.fact == Fact::nproc_per_node)
    return !parse_count(first.value.text) && parse_count(claim.value.text);
  if ((of(claim.fact) & address_facts) == 0 || first.source != Source::platform ||
      claim.source != Source::generic)
    return false;
  // What a profile only derived (the first host of a list) is a guess beside a variable, or less of a name.
  return circumstances.started_process || (first.value.origin != Origin::variable && !circumstances.elastic &&
                                           (!same_value(claim.fact, claim.value.text, first.value.text) ||
                                            claim.value.text.size() > first.value.text.size()));
}

Fault contradiction(const Claim& winner, const Claim& loser, const Circumstances& circumstances) {
  const Fact fact = winner.fact;
  const std::string mine = in_words(fact, winner.value), its = in_words(fact, loser.value);
  if (winner.source == Source::flag) {
    const bool by_name = fact != Fact::nnodes || circumstances.names_nnodes;  // or by --standalone
    return flag_contradicts(by_name ? mine : winner.value.detail, its, name_of(fact, loser.value));
  }
  Fault fault{Anchor::contradiction, {}, {}, {}};
  winner.value.append_inputs(name(fact), fault.names);
  loser.value.append_inputs(name(fact), fault.names);
  if (loser.source == Source::other) {
    fault.what = fmt::format("{} of {} contradicts {} of {}", mine, winner.by, its, loser.by);
    fault.fix =
        "unset the variables that are not this job's, or describe this node with --nnodes, --node-rank and "
        "--master-addr (RANKSHIM_NNODES, …)";
  } else {
    fault.what = fmt::format("{} contradicts {}", mine, its);
    fault.fix = fmt::format("correct one of them, or {}", settle(fact));
  }
  return fault;
}

/// Whether PET_* are a static job's, set by hand beside what a platform says.
bool are_by_hand(const platform::Platform& platform) {
  if (platform.profile == nullptr || platform.profile->kind == platform::ProfileKind::names ||
      platform.granularity == platform::Granularity::process)
    return false;
  const std::string_view backend = platform.flags.text(Fact::rdzv_backend);
  return (backend.empty() || backend == "static") &&
         platform.flags.text(Fact::nnodes).find(':') == std::string_view::npos;
}

}  // namespace

Fault flag_contradicts(const std::string& flag, const std::string& other, const std::string& name) {
  const std::string option = flag.substr(flag.find(' ') + 1);
  return {Anchor::contradiction,
          fmt::format("{} contradicts {}", flag, other),
          {flag.substr(0, flag.find('=')), name},
          fmt::format("take {} out of the command, because rankshim fills in what is missing, or correct {}; "
                      "--launcher=none (RANKSHIM_LAUNCHER) leaves the command as it is",
                      option.substr(0, option.find('=')), name)};
}

std::string settle(Fact fact) {
  const auto* const found = std::ranges::find(user_facts, fact, &std::pair<Fact, Option>::first);
  return fmt::format("settle it with {} (RANKSHIM_{})",
                     found != user_facts.end() ? fmt::format("--{}", info(found->second).name)
                                               : fmt::format("the {} of the platform", name(fact)),
                     upper_case(name(fact)));
}

std::string name_of(Fact fact, const Value& value) {
  return value.detail.empty() ? std::string(name(fact)) : value.detail;
}

bool same_value(Fact fact, std::string_view a, std::string_view b) {
  if (a == b) return true;
  if (fact == Fact::master_addr) return same_host(a, b);
  const auto left = parse_count(a);
  return left && left == parse_count(b);
}

Claims collect_claims(const Settings& settings, const platform::Platform& platform,
                      const LauncherFlags* torchrun) {
  Claims claims;
  const auto add = [&](const Facts& facts, std::span<const Fact> which, Source source, std::string_view by) {
    for (const Fact fact : which)
      if (facts.has(fact)) claims.push_back({fact, source, *facts[fact], by});
  };
  if (torchrun != nullptr) add(torchrun->facts, all_facts, Source::flag, {});
  for (const auto& [fact, option] : user_facts)
    if (const Value* value = settings[option] ? &*settings[option] : nullptr)
      claims.push_back({fact, Source::user, *value, {}});
  const bool is_part = platform.profile != nullptr && platform.profile->kind == platform::ProfileKind::part;
  add(platform.facts, all_facts, is_part ? Source::part : Source::platform, platform.name);
  add(platform.names, all_facts, Source::generic, {});
  if (are_by_hand(platform)) add(platform.flags, of_a_node, Source::torchrun, {});
  for (const platform::Other& other : platform.others) {
    if (other.profile->kind != platform::ProfileKind::foreign) {
      add(other.facts, all_facts, Source::other, other.profile->name);
    } else if (other.facts.has(Fact::nnodes) && other.facts.text(Fact::nnodes) != "1") {
      // It counts the nodes, and its user has set the rest.
      add(other.facts, of_a_node, Source::part, other.profile->name);
      add(other.facts, std::array{Fact::node_rank}, Source::other, other.profile->name);
    }
  }
  return claims;
}

Decision decide(Fact fact, std::span<const Claim> claims, const Circumstances& circumstances) {
  Decision decision;
  for (const Claim& claim : claims) {
    if (claim.fact != fact || claim.source == Source::other) continue;
    if (decision.winner == nullptr || claim.source < decision.winner->source ||
        overtakes(claim, *decision.winner, circumstances))
      decision.winner = &claim;
  }
  if (decision.winner == nullptr) return decision;
  const Claim& winner = *decision.winner;
  for (const Claim& claim : claims) {
    if (claim.fact != fact || &claim == &winner || agree(winner, claim)) continue;
    switch (loss_of(winner, claim, circumstances)) {
      case Loss::dropped:
        break;
      case Loss::warned:
        decision.warnings.push_back(fmt::format("{} is used instead of {}", in_words(fact, winner.value),
                                                in_words(fact, claim.value)));
        break;
      case Loss::refused:
        if (decision.faults.empty()) decision.faults.push_back(contradiction(winner, claim, circumstances));
        break;
    }
  }
  return decision;
}

}  // namespace rankshim
