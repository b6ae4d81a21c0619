#include "topology/claim.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/text.h"
#include "topology/topology.h"

namespace rankshim::topology {
namespace {

using settings::Option;

/// The facts that the user can set, with the option for each.
constexpr std::pair<Fact, Option> user_facts[] = {{Fact::nnodes, Option::nnodes},
                                                  {Fact::node_rank, Option::node_rank},
                                                  {Fact::nproc_per_node, Option::nproc_per_node},
                                                  {Fact::master_addr, Option::master_addr},
                                                  {Fact::master_port, Option::master_port},
                                                  {Fact::run_id, Option::run_id},
                                                  {Fact::rdzv_backend, Option::rdzv_backend},
                                                  {Fact::rdzv_endpoint, Option::rdzv_endpoint},
                                                  {Fact::max_restarts, Option::max_restarts}};

/// What happens to a claim that is compared with one from a source of higher precedence.
enum class Fate : std::uint8_t {
  wins,     ///< it is used instead
  dropped,  ///< `rankshim explain` lists it
  warned,   ///< a warning names both
  refused,  ///< a contradiction
};

constexpr unsigned of(Source source) { return 1U << static_cast<unsigned>(source); }
constexpr unsigned of(Fact fact) { return 1U << static_cast<unsigned>(fact); }
constexpr unsigned anyone = ~0U, anything = ~0U;
constexpr unsigned address_facts = of(Fact::master_addr) | of(Fact::master_port);
constexpr unsigned decisive = of(Fact::nnodes) | of(Fact::node_rank) | of(Fact::rank) | of(Fact::world_size);
constexpr unsigned only_torchruns = of(Fact::run_id) | of(Fact::rdzv_conf) | of(Fact::max_restarts);

/// Two claims of one fact; the source of `first` has the higher precedence.
struct Pair {
  const Claim &first, &other;
  const Circumstances& now;
};

/// Whether both claims can be true.
bool agree(const Pair& pair) {
  const auto& [first, other, now] = pair;
  const std::string &text = first.value.text, &its = other.value.text;
  if (same_value(first.fact, text, its)) return true;
  if (first.fact == Fact::nproc_per_node && other.source != Source::user)  // "auto" leaves the number open
    return !parse_count(text) || !parse_count(its);
  if (first.fact != Fact::nnodes) return false;
  const auto [least, most] = min_and_max(text);
  const auto [its_least, its_most] = min_and_max(its);
  const auto min = parse_count(least), max = parse_count(most), number = parse_count(its_least);
  return min && max && number && number == parse_count(its_most) && min <= number && number <= max &&
         (min == max || (first.source == Source::flag && other.source != Source::user));  // 2 is 2:2
}

/// Whether the first claim is only a guess: a profile derived it (such as the first host of a list), and the
/// other one differs from it, or spells the name more fully.
bool first_is_a_guess(const Pair& pair) {
  const Value &first = pair.first.value, &other = pair.other.value;
  return first.origin != Origin::variable && !pair.now.elastic &&
         (!same_value(pair.first.fact, first.text, other.text) || other.text.size() > first.text.size());
}

bool only_other_is_number(const Pair& pair) {
  return !parse_count(pair.first.value.text) && parse_count(pair.other.value.text);
}

bool other_is_derived(const Pair& pair) { return pair.other.value.origin != Origin::variable; }
bool job_is_elastic(const Pair& pair) { return pair.now.elastic; }
bool is_started_process(const Pair& pair) { return pair.now.started_process; }
bool settled_by_user(const Pair& pair) { return pair.now.settled_by_user; }
bool always(const Pair&) { return true; }

struct Precedence {
  unsigned facts, first, other;
  bool (*when)(const Pair&);
  Fate fate;
};

/// The first rule that applies counts.
constexpr auto precedences = std::to_array<Precedence>({
    // facts, first source, other source, condition, what happens to the other claim
    {of(Fact::nproc_per_node), anyone & ~of(Source::flag) & ~of(Source::user), anyone & ~of(Source::other),
     only_other_is_number, Fate::wins},
    {address_facts, of(Source::platform), of(Source::generic), is_started_process, Fate::wins},
    {address_facts, of(Source::platform), of(Source::generic), first_is_a_guess, Fate::wins},
    {anything, anyone, anyone, agree, Fate::dropped},
    {anything, anyone, of(Source::part), always, Fate::dropped},
    {anything, of(Source::user), anyone & ~of(Source::flag), always, Fate::dropped},
    // torchrun prefers its flags to its variables, which describe the same job as the platform's.
    {only_torchruns, of(Source::flag), anyone & ~of(Source::user), always, Fate::dropped},
    {only_torchruns, anyone, of(Source::torchrun), always, Fate::dropped},
    {address_facts, of(Source::flag), anyone & ~of(Source::user), other_is_derived, Fate::dropped},
    {anything, of(Source::flag), of(Source::other), always, Fate::dropped},
    {address_facts, of(Source::generic), of(Source::platform), is_started_process, Fate::dropped},
    {address_facts, of(Source::generic), of(Source::platform), always, Fate::warned},
    // c10d meets at the endpoint; a static job would use MASTER_ADDR.
    {address_facts, of(Source::platform), of(Source::generic), job_is_elastic, Fate::dropped},
    {address_facts, anyone, of(Source::torchrun), always, Fate::warned},
    {decisive, anyone, of(Source::other), settled_by_user, Fate::dropped},
    {decisive, of(Source::platform), of(Source::other), always, Fate::refused},
    {anything, anyone, of(Source::other), always, Fate::dropped},
    {anything, anyone, anyone, always, Fate::refused},
});

Fate fate_of(const Pair& pair) {
  return std::ranges::find_if(precedences,
                              [&](const Precedence& rule) {  // the last rule always applies
                                return (rule.facts & of(pair.first.fact)) != 0 &&
                                       (rule.first & of(pair.first.source)) != 0 &&
                                       (rule.other & of(pair.other.source)) != 0 && rule.when(pair);
                              })
      ->fate;
}

Fault contradiction(const Claim& winner, const Claim& loser) {
  const Phrase mine = said(winner.fact, winner.value), its = said(loser.fact, loser.value);
  if (winner.source == Source::flag) return flag_contradicts(winner.fact, winner.value, its);
  if (loser.source == Source::other)
    return fault(ErrorCode::contradiction,
                 mine + fmt::format(" of {} contradicts ", winner.by) + its + fmt::format(" of {}", loser.by),
                 fmt::format("unset the variables that are not this job's, or {}", settle_node));
  const Phrase what = mine + " contradicts " + its;
  return fault(ErrorCode::contradiction, what, correct(what) + ", or " + settle(winner.fact));
}

/// Whether the PET_* variables describe a static job, and were set by hand in addition to the platform's.
bool are_by_hand(const platform::Platform& platform) {
  if (platform.profile == nullptr || platform.profile->kind == platform::ProfileKind::names ||
      platform.granularity == platform::Granularity::process)
    return false;
  const std::string_view backend = platform.flags.text(Fact::rdzv_backend);
  return (backend.empty() || backend == "static") &&
         platform.flags.text(Fact::nnodes).find(':') == std::string_view::npos;
}

}  // namespace

Phrase& Phrase::operator+=(const Phrase& more) {
  text += more.text;
  names.insert(names.end(), more.names.begin(), more.names.end());
  return *this;
}

Phrase said(Fact fact, const Value& value) {
  Phrase known(in_words(fact, value));
  value.append_inputs(name(fact), known.names);
  return known;
}

Fault fault(ErrorCode error_code, Phrase what, std::string fix) {
  std::vector<std::string> names;
  for (std::string& name : what.names) add_once(std::move(name), names);
  return {error_code, std::move(what.text), std::move(names), std::move(fix)};
}

std::string correct(const Phrase& what) {
  const bool is_one =
      !what.names.empty() && std::ranges::count(what.names, what.names.front()) == std::ssize(what.names);
  return is_one ? "correct " + what.names.front() : "correct one of them";
}

Fault flag_contradicts(Fact fact, const Value& flag, const Phrase& other) {
  const bool implies = flag.origin == Origin::implied;
  const std::string named = flag.detail.substr(0, flag.detail.find('='));
  return fault(
      ErrorCode::contradiction,
      Phrase(implies ? flag.detail : in_words(fact, flag), {named}) + " contradicts " + other,
      fmt::format("take {} out of the command, because rankshim fills in what is missing, or correct "
                  "{}; --launcher=none (RANKSHIM_LAUNCHER) leaves the command as it is",
                  named.substr(named.find(' ') + 1), joined(other.names)));
}

std::string settle(Fact fact) {
  std::string option(name(fact));
  std::ranges::replace(option, '_', '-');
  return fmt::format("settle it with --{} (RANKSHIM_{})", option, upper_case(name(fact)));
}

bool same_value(Fact fact, std::string_view a, std::string_view b) {
  if (a == b) return true;
  if (fact == Fact::master_addr) return same_host(a, b);
  const auto left = parse_count(a);
  return left && left == parse_count(b);
}

Claims collect_claims(const settings::Settings& settings, const platform::Platform& platform,
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
  add(platform.facts, all_facts, is_part ? Source::part : Source::platform,
      platform.profile == nullptr ? std::string_view() : platform.profile->name);
  add(platform.names, all_facts, Source::generic, {});
  if (are_by_hand(platform)) add(platform.flags, facts_of_node, Source::torchrun, {});
  for (const Fact fact : all_facts)
    if (const auto& flag = platform.flags[fact];
        (of(fact) & only_torchruns) != 0 && flag && flag->origin == Origin::variable)
      claims.push_back({fact, Source::torchrun, *flag, {}});
  for (const platform::Other& other : platform.others) {
    if (other.profile->kind != platform::ProfileKind::foreign) {
      add(other.facts, all_facts, Source::other, other.profile->name);
    } else if (other.facts.has(Fact::nnodes) && other.facts.text(Fact::nnodes) != "1") {
      // It gives the number of nodes; the user has set the rest.
      add(other.facts, facts_of_node, Source::part, other.profile->name);
      add(other.facts, std::array{Fact::node_rank}, Source::other, other.profile->name);
    }
  }
  return claims;
}

Decision decide(Fact fact, std::span<const Claim> claims, const Circumstances& circumstances) {
  Decision decision;
  const Claim*& winner = decision.winner;
  for (const Claim& claim : claims) {
    if (claim.fact != fact || claim.source == Source::other) continue;
    if (winner == nullptr || claim.source < winner->source ||
        fate_of({*winner, claim, circumstances}) == Fate::wins)
      winner = &claim;
  }
  for (const Claim& claim : claims) {
    if (winner == nullptr || &claim == winner || claim.fact != fact) continue;
    const Fate fate = fate_of({*winner, claim, circumstances});
    if (fate == Fate::warned)
      decision.warnings.push_back(fmt::format("{} is used instead of {}", in_words(fact, winner->value),
                                              in_words(fact, claim.value)));
    if (fate == Fate::refused && decision.faults.empty())
      decision.faults.push_back(contradiction(*winner, claim));
  }
  return decision;
}

}  // namespace rankshim::topology
