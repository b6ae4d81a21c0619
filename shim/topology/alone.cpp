#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <optional>
#include <span>
#include <utility>

#include "base/text.h"
#include "node/addresses.h"
#include "platform/evaluation.h"
#include "topology/resolution.h"

namespace rankshim::topology {
namespace {

using node::Host;

/// Other common spellings, without underscores. Spellings with the same letters need no entry here.
constexpr std::pair<std::string_view, std::string_view> spellings[] = {{"NNODE", "NNODES"},
                                                                       {"NODERANKS", "NODE_RANK"},
                                                                       {"MASTERADDRESS", "MASTER_ADDR"},
                                                                       {"MASTERADRESS", "MASTER_ADDR"},
                                                                       {"MASTERADR", "MASTER_ADDR"},
                                                                       {"NPROCSPERNODE", "NPROC_PER_NODE"},
                                                                       {"NPROCPERNOD", "NPROC_PER_NODE"}};

/// The facts by which generic variables describe a node's part in the job.
constexpr auto job_facts =
    std::to_array<Fact>({Fact::nnodes, Fact::world_size, Fact::node_rank, Fact::rank, Fact::master_addr});

/// The name in upper case and without underscores, for comparison.
std::string letters(std::string_view name) {
  std::string all = upper_case(name);
  std::erase(all, '_');
  return all;
}

bool is_nearly(std::string_view name, std::string_view wanted) {
  if (name.empty() || to_upper(name.front()) != wanted.front()) return false;  // rejects nearly all variables
  const std::string mine = letters(name);
  return mine == letters(wanted) ||
         std::ranges::find(spellings, std::pair(std::string_view(mine), wanted)) != std::end(spellings);
}

/// Whether a lone node would not have this value.
bool shows_others(Fact fact, std::string_view value) {
  value = platform::without_quotes(value);
  if (fact == Fact::master_addr) return !is_loopback(value);
  const auto number = parse_count(value);
  return number && *number > (fact == Fact::nnodes || fact == Fact::world_size ? 1U : 0U);
}

using namespace std::string_view_literals;
using Words = std::span<const std::string_view>;

/// The lists of config/unknown-platforms.toml, which explains each of them.
namespace words {
#include "unknown_platforms.inc"
}

/// A number small enough for an index or a count of nodes; identifiers are larger.
std::optional<std::uint32_t> small_number(std::string_view text) { return parse_number<std::uint16_t>(text); }

/// Whether the name is that word, or ends with it after an underscore.
bool ends_with_word(std::string_view name, std::string_view word) {
  return name.ends_with(word) && (name.size() == word.size() || name[name.size() - word.size() - 1] == '_');
}

bool ends_with_any(std::string_view name, Words words) {
  return std::ranges::any_of(words, [&](auto word) { return ends_with_word(name, word); });
}

/// Whether the name is known to mean something else.
bool is_other(std::string_view name, bool is_index = false) {
  if (contains(words::other_owner, name.substr(0, name.find('_')))) return true;
  while (!name.empty()) {
    const std::string_view word = split_next(name, "_");
    if (contains(words::other_word, word) || (!is_index && contains(words::other_count, word))) return true;
  }
  return false;
}

/// The host of HOST or HOST:PORT.
std::string_view host_in(std::string_view text) {
  return is_literal(text) ? text : split_host_port(text).first;
}

/// Whether the value names another machine, with or without a port.
bool is_elsewhere(std::string_view value) {
  const std::string_view host = host_in(value);
  return is_host(host) && !is_loopback(host);
}

/// The literal addresses that the value lists; empty if it contains anything else.
std::vector<boost::asio::ip::address> addresses_in(std::string_view value) {
  if (value.starts_with("[\"") && value.ends_with("\"]")) value = value.substr(1, value.size() - 2);  // JSON
  std::string list(value);
  for (const char separator : {',', '"'}) std::ranges::replace(list, separator, ' ');
  std::vector<boost::asio::ip::address> found;
  std::string_view rest = list;
  for (auto entry = next_word(rest); !entry.empty(); entry = next_word(rest)) {
    const auto address = node::literal(host_in(entry));
    if (!address) return {};
    add_once(*address, found);
  }
  return found;
}

/// Whether at least two addresses are of the same family. (A dual-stack pod has one address of each.)
bool are_several(const std::vector<boost::asio::ip::address>& addresses) {
  return std::ranges::count(addresses, true, &boost::asio::ip::address::is_v4) > 1 ||
         std::ranges::count(addresses, true, &boost::asio::ip::address::is_v6) > 1;
}

/// Whether there is a count for this index that is above both it and 1: ROCKET_SIZE=2 for ROCKET_INDEX=0;
/// ROCKET_JOBS_COUNT or ROCKET_NUM_JOBS for ROCKET_JOB_INDEX.
bool has_number_above(std::string_view name, std::uint32_t index, const node::Environment& environment) {
  const auto is_above = [&](const std::string& other) {
    const auto number = small_number(platform::without_quotes(environment.get(other).value_or("")));
    return number && *number > 1 && *number > index && !is_other(other);
  };
  for (const std::string_view end : words::index_end) {
    if (name.size() <= end.size() + 1 || !ends_with_word(name, end)) continue;
    const std::string prefix(name.substr(0, name.size() - end.size() - 1));
    const auto word = prefix.rfind('_') + 1;  // 0 if there is no underscore
    const std::string counted = prefix.substr(0, word) + "NUM_" + prefix.substr(word);
    if (is_above(counted) || is_above(counted + "S")) return true;
    for (const std::string_view number : words::number_end) {
      if (!contains(words::other_name, name) && is_above(fmt::format("{}_{}", prefix, number))) return true;
      if (is_above(fmt::format("{}S_{}", prefix, number))) return true;
    }
  }
  return false;
}

/// What a variable is, judging by its name; the kinds are those of config/unknown-platforms.toml.
enum class Kind : std::uint8_t { other, index, id, rank, number, group, meeting, list };

/// A variable that may belong to a platform.
struct Clue {
  const std::string* entry;
  std::string_view name;
  Kind kind;
  bool speaks;  ///< a lone node would not have this value
};

Kind kind_of_number(std::string_view name) {
  const std::string rank = variable_of(Fact::rank);
  if (ends_with_word(name, rank) && name != rank)
    return ends_with_any(name.substr(0, name.size() - rank.size() - 1), words::member) ? Kind::index
                                                                                       : Kind::rank;
  const std::pair<Words, Kind> kinds[] = {{words::index, Kind::index},
                                          {words::id, Kind::id},
                                          {words::number, Kind::number},
                                          {words::group, Kind::group}};
  const auto* kind =
      std::ranges::find_if(kinds, [&](const auto& one) { return ends_with_any(name, one.first); });
  return kind == std::end(kinds) ? Kind::other : kind->second;
}

/// The value of an entry, without surrounding blanks and an env file's quotes.
std::string_view value_in(std::string_view entry, std::string_view name) {
  return trimmed(platform::without_quotes(trimmed(entry.substr(name.size() + 1))));
}

/// The variable as a clue; of kind `other` if it is not one.
Clue clue_of(const std::string& entry, std::string_view name) {
  const std::string_view value = value_in(entry, name);
  if (const auto number = small_number(value)) {
    const Kind kind = kind_of_number(name);
    const bool counts = kind == Kind::number || kind == Kind::group;
    return {&entry, name, kind, *number > (counts ? 1U : 0U)};
  }
  if (ends_with_any(name, words::meeting)) return {&entry, name, Kind::meeting, is_elsewhere(value)};
  if (ends_with_any(name, words::list)) return {&entry, name, Kind::list, are_several(addresses_in(value))};
  return {&entry, name, Kind::other, false};
}

/// Decides which clues count, by the other clues beside them.
class Clues {
 public:
  explicit Clues(const Host& host) : host_(host) {
    for (const std::string& entry : host.environment().entries()) {
      const std::string_view name = node::entry_name(entry);
      if (name.empty()) continue;
      const Clue clue = clue_of(entry, name);
      if (!is_other(name, clue.kind == Kind::index)) all_.push_back(clue);
    }
  }

  [[nodiscard]] std::vector<std::string> signs() const {
    std::vector<std::string> signs;
    for (const Clue& clue : all_)
      if ((clue.speaks && counts(clue)) || is_below_a_number(clue)) signs.push_back(*clue.entry);
    return signs;
  }

 private:
  static std::string_view owner(std::string_view name) { return name.substr(0, name.find('_')); }
  [[nodiscard]] bool counts(const Clue& clue) const {
    switch (clue.kind) {
      case Kind::index:
      case Kind::number:
      case Kind::meeting:
        return true;
      case Kind::id:
        return has(Kind::number) || has(Kind::meeting) || has_generic_name();
      case Kind::rank:
        return has_number_of_its_owner(clue);
      case Kind::group:
        return !says_one(clue) && (has_any(Kind::index) || has(Kind::id) || has(Kind::meeting));
      case Kind::list:
        return has_any(Kind::index) || has(Kind::number) || lists_this_node(clue);
      case Kind::other:
        break;
    }
    return false;
  }

  /// Whether there is a clue of that kind, whatever its value.
  [[nodiscard]] bool has_any(Kind kind) const { return std::ranges::count(all_, kind, &Clue::kind) != 0; }
  [[nodiscard]] bool has(Kind kind) const {
    return std::ranges::any_of(all_, [kind](const Clue& one) { return one.kind == kind && one.speaks; });
  }
  [[nodiscard]] bool has_number_of_its_owner(const Clue& clue) const {
    return std::ranges::any_of(all_, [&](const Clue& one) {
      return (one.kind == Kind::number || one.kind == Kind::group) && one.speaks &&
             owner(one.name) == owner(clue.name);
    });
  }
  /// Whether a number of nodes beside the clue is 1, and none is more. It must have the clue's owner or a
  /// generic name, except WORLD_SIZE, which images set to 1.
  [[nodiscard]] bool says_one(const Clue& clue) const {
    return !has(Kind::number) && std::ranges::any_of(all_, [&](const Clue& one) {
      return one.kind == Kind::number && value_in(*one.entry, one.name) == "1" &&
             one.name != variable_of(Fact::world_size) &&
             (owner(one.name) == owner(clue.name) || contains(words::number, one.name));
    });
  }
  [[nodiscard]] bool has_generic_name() const {
    return std::ranges::any_of(job_facts, [this](Fact fact) {
      const auto value = host_.environment().get(variable_of(fact));
      return value && shows_others(fact, *value);
    });
  }
  [[nodiscard]] bool lists_this_node(const Clue& clue) const {
    return std::ranges::any_of(addresses_in(value_in(*clue.entry, clue.name)),
                               [this](const auto& one) { return host_.owns_address(one.to_string()); });
  }
  [[nodiscard]] bool is_below_a_number(const Clue& clue) const {
    const auto number = small_number(value_in(*clue.entry, clue.name));
    return number && has_number_above(clue.name, *number, host_.environment());
  }

  const Host& host_;
  std::vector<Clue> all_;
};

/// What proves that this node is not alone.
std::vector<Phrase> proofs_of_others(const Resolution& r) {
  std::vector<Phrase> proofs;
  for (const platform::Other& other : r.platform.others) {
    if (!other.several.empty())
      proofs.emplace_back(fmt::format("{} {} several processes of {}", joined(other.several),
                                      other.several.size() == 1 ? "shows" : "show", other.profile->title),
                          other.names);
    if (!other.profile->has_own_words() || other.facts.has(Fact::nnodes)) continue;
    // It does not say how many nodes there are, but it may show that there are others.
    const auto& rank = other.facts[Fact::node_rank];
    const auto& master = other.facts[Fact::master_addr];
    const std::string of_it = fmt::format(" of {} shows other nodes", other.profile->name);
    if (rank && parse_count(rank->text).value_or(0) > 0)
      proofs.push_back(said(Fact::node_rank, *rank) + of_it);
    else if (master && !r.is_this_node(master->text) && !same_host(master->text, r.text(Fact::master_addr)))
      proofs.push_back(said(Fact::master_addr, *master) + of_it);
  }
  // If there are as many processes as this node has workers, they are its own.
  const unsigned world = r.ranks.world_size.value_or(1);
  const auto is_as_many = [&](const Value& workers) {
    return parse_count(workers.text) == world && !workers.is_from(variable_of(Fact::world_size));
  };
  const auto& workers = r.topology.facts[Fact::nproc_per_node];
  const bool is_own =
      !workers || is_as_many(*workers) || std::ranges::any_of(r.claims, [&](const Claim& claim) {
        return claim.fact == Fact::nproc_per_node && is_as_many(claim.value);
      });
  if (world > 1 && !is_own)
    proofs.push_back((r.ranks.rank ? r.set(Fact::rank) + " of " : "") + r.set(Fact::world_size) +
                     fmt::format(" shows other nodes, or more than the {} of this one",
                                 counted(r.text(Fact::nproc_per_node), "worker")));
  return proofs;
}

/// Variables that look like a job of several nodes, and belong to no recognised profile.
std::vector<std::string> unknown_signs(const Resolution& r) {
  auto signs = signs_of_several_nodes(r.host);
  std::erase_if(signs, [&](const std::string& sign) {
    const std::string_view name = node::entry_name(sign);
    return name == variable_of(Fact::rank) || name == variable_of(Fact::world_size) ||  // already weighed
           (r.has_own_words() && platform::mentions(*r.platform.profile, name)) ||
           std::ranges::any_of(r.platform.others, [&](const platform::Other& other) {
             return platform::mentions(*other.profile, name);
           });
  });
  return signs;
}

/// Whether the platform's own variables give both the number of nodes and the master. Call this only if there
/// is one node.
bool platform_says_alone(const Resolution& r) {
  const auto is_platforms = [&](Fact fact) {
    const auto& own = r.platform.facts[fact];
    return own && own->origin == Origin::variable && own->has_source_of(*r.topology.facts[fact]);
  };
  return r.has_own_words() && is_platforms(Fact::nnodes) && is_platforms(Fact::master_addr);
}

/// Warnings about claims that suggest, but do not prove, other nodes.
std::vector<std::string> weigh_claims(const Resolution& r) {
  std::vector<std::string> warnings;
  // A pod on the host's network does not have the name that its platform gives the master.
  const bool has_world = r.ranks.world_size.value_or(1) > 1;
  const bool is_launchers =
      r.platform.profile != nullptr && r.platform.profile->kind == platform::ProfileKind::launcher;
  if (!platform_says_alone(r) && r.has(Fact::master_addr) && (has_world || is_launchers) &&
      !r.is_this_node(r.text(Fact::master_addr)))
    warnings.push_back(fmt::format("{} names another machine, but {}{}, so this node trains alone; {}",
                                   r.said(Fact::master_addr).text, r.said(Fact::nnodes).text,
                                   has_world ? " and WORLD_SIZE is the number of its workers" : "",
                                   settle_node));
  const auto part = std::ranges::find(r.claims, Source::part, &Claim::source);
  if (part != r.claims.end() && part->by == r.topology.platform.name() &&
      r.topology.facts[Fact::nnodes]->has_source_of(part->value))
    warnings.push_back(
        fmt::format("this is {}, and nothing says whether the others train with this one, so this node "
                    "trains alone; {}, or set RANKSHIM_NNODES=1 if it is alone",
                    r.platform.profile->title, settle_node));
  return warnings;
}

/// Warns of, or refuses, what only looks like a job of several nodes.
Findings weigh_signs(const Resolution& r) {
  const auto signs = unknown_signs(r);
  const auto misses = near_misses(r.host.environment(), job_facts, true);
  const auto& state = r.platform.looks_like_several;
  if (signs.empty() && misses.empty() && !state) return {};
  std::vector<std::string> parts, names;
  if (state) {
    parts.push_back(fmt::format("{} ({})", state->name, state->because));
    names = state->names;
  }
  if (!signs.empty()) {
    constexpr std::size_t most = 5;
    parts.push_back(fmt::format("{} {} like a job of several nodes{}",
                                joined(std::span(signs).first(std::min(signs.size(), most))),
                                signs.size() == 1 ? "looks" : "look",
                                r.platform.profile == nullptr ? ", but no platform is recognised" : ""));
  }
  for (const std::string& sign : signs) names.emplace_back(node::entry_name(sign));
  for (const NearMiss& miss : misses) {
    parts.push_back(miss.text);
    names.push_back(miss.name);
  }
  std::string what = joined(parts, "; ") + ", and this node is treated as a lone node";
  if (r.topology.facts[Fact::nnodes]->origin != Origin::fallback)
    what += fmt::format(" ({})", r.said(Fact::nnodes).text);
  const std::string fix = fmt::format(
      "{} or with a profile of your own (--profile), or set RANKSHIM_NNODES=1 if it is alone", settle_node);
  const bool is_certain = state || !signs.empty() || !std::ranges::all_of(misses, &NearMiss::is_empty);
  if (r.settings.flag(settings::Option::strict) && is_certain)
    return {{fault(ErrorCode::looks_like_several, {std::move(what), std::move(names)}, fix)}, {}};
  return {{}, {what + "; " + fix}};
}

}  // namespace

std::vector<NearMiss> near_misses(const node::Environment& environment, std::span<const Fact> all,
                                  bool of_several_nodes) {
  std::vector<NearMiss> misses;
  std::vector<std::pair<Fact, std::string>> variables;
  for (const Fact fact : all) variables.emplace_back(fact, variable_of(fact));
  for (const std::string& entry : environment.entries()) {
    const std::string_view name = node::entry_name(entry);
    for (const auto& [fact, wanted] : variables) {
      if (!is_nearly(name, wanted)) continue;
      const auto value = environment.get(name);
      if (value && name == variable_of(Fact::master_addr) && node::is_service_link(*value))
        misses.push_back(
            {std::string(name), fmt::format("{}={} is a URL, not a host name", name, in_quotes(*value))});
      if (environment.get(wanted)) continue;
      if (name == wanted)
        misses.push_back({std::string(name), fmt::format("{} is set, but empty", name), true});
      else if (value && (!of_several_nodes || shows_others(fact, *value)))
        misses.push_back({std::string(name), fmt::format("{}={} is set, but the name is {}", printable(name),
                                                         in_quotes(*value), wanted)});
    }
  }
  return misses;
}

std::vector<std::string> signs_of_several_nodes(const Host& host) { return Clues(host).signs(); }

Findings warn_of_others(const Resolution& r) {
  if (!r.reads_variables() || r.user_says_alone()) return {};
  std::vector<std::string> warnings;
  for (const Phrase& proof : proofs_of_others(r))
    warnings.push_back(
        fmt::format("{}, but {}, so this node trains alone; {}, or set RANKSHIM_NNODES=1 if it is alone",
                    r.said(Fact::nnodes).text, proof.text, settle_node));
  if (const auto& around = r.platform.nodes_around)
    warnings.push_back(
        fmt::format("{}, but {}, so this node trains alone; start processes on all nodes, or set "
                    "RANKSHIM_NNODES=1 if it is alone",
                    r.said(Fact::nnodes).text, said(Fact::nnodes, *around).text));
  std::ranges::move(weigh_claims(r), std::back_inserter(warnings));
  Findings signs = weigh_signs(r);
  std::ranges::move(signs.warnings, std::back_inserter(warnings));
  return {std::move(signs.faults), std::move(warnings)};
}

Findings weigh_alone(const Resolution& r) {
  if (!r.reads_variables() || r.user_says_alone()) return {};
  Faults faults;
  for (const Phrase& proof : proofs_of_others(r)) {
    std::vector<std::string> there = proof.names;
    std::erase_if(there, [&](const std::string& name) {
      return !name.starts_with('/') && !r.host.environment().get(name);
    });
    faults.push_back(
        fault(ErrorCode::not_alone, r.said(Fact::nnodes) + ", but " + proof,
              fmt::format("unset {} if this node is alone, or {}", joined(there, " and "), settle_node)));
  }
  if (faults.empty() && r.faults.empty()) return warn_of_others(r);
  return {std::move(faults), {}};
}

}  // namespace rankshim::topology
