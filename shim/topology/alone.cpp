#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <span>

#include "base/text.h"
#include "topology/near_miss.h"
#include "topology/resolution.h"

namespace rankshim {
namespace {

/// What cannot be true if this node is alone.
std::vector<Said> proofs_of_others(const Resolution& r) {
  std::vector<Said> proofs;
  for (const platform::Other& other : r.platform.others) {
    if (!other.several.empty())
      proofs.emplace_back(
          fmt::format("{} shows several processes of {}", other.several, other.profile->title), other.names);
    if (!other.profile->has_own_words() || other.facts.has(Fact::nnodes)) continue;
    // It does not say how many nodes there are, but that there are others.
    const auto& rank = other.facts[Fact::node_rank];
    const auto& master = other.facts[Fact::master_addr];
    const std::string of_it = fmt::format(" of {} shows other nodes", other.profile->name);
    if (rank && parse_count(rank->text).value_or(0) > 0)
      proofs.push_back(said(Fact::node_rank, *rank) + of_it);
    else if (master && !r.is_this_node(master->text) && !same_host(master->text, r.text(Fact::master_addr)))
      proofs.push_back(said(Fact::master_addr, *master) + of_it);
  }
  // As many processes as this node has workers are its own.
  const unsigned world = r.ranks.world_size.value_or(1);
  const auto is_as_many = [&](const Value& workers) {
    return parse_count(workers.text) == world && workers.detail.find("WORLD_SIZE") == std::string::npos;
  };
  const bool is_own = is_as_many(*r.topology.facts[Fact::nproc_per_node]) ||
                      std::ranges::any_of(r.claims, [&](const Claim& claim) {
                        return claim.fact == Fact::nproc_per_node && is_as_many(claim.value);
                      });
  if (world > 1 && !is_own)
    proofs.push_back((r.ranks.rank ? r.variable("RANK") + " of " : "") + r.variable("WORLD_SIZE") +
                     fmt::format(" shows other nodes, or more than the {} of this one",
                                 counted(r.text(Fact::nproc_per_node), "worker")));
  return proofs;
}

/// Variables of no recognised profile that look like a job of several nodes.
std::vector<std::string> unknown_signs(const Resolution& r) {
  auto signs = signs_of_several_nodes(r.node.environment());
  std::erase_if(signs, [&](const std::string& sign) {
    const std::string_view name = entry_name(sign);
    return name == "RANK" || name == "WORLD_SIZE" ||  // these were weighed
           (r.has_own_words() && platform::mentions(*r.platform.profile, name)) ||
           std::ranges::any_of(r.platform.others, [&](const platform::Other& other) {
             return platform::mentions(*other.profile, name);
           });
  });
  return signs;
}

/// Warns of what speaks for other nodes, and is not certain.
void weigh_claims(Resolution& r) {
  const std::string& nnodes_by = r.fact(Fact::nnodes)->detail;
  if (r.has(Fact::master_addr) && r.ranks.rank && r.ranks.world_size.value_or(1) > 1 &&
      !r.is_this_node(r.text(Fact::master_addr)))
    r.warn(
        fmt::format("{} names another machine, but {} and WORLD_SIZE is the number of its workers, so this "
                    "node trains alone; {}",
                    r.said(Fact::master_addr).text, r.said(Fact::nnodes).text, settle_node));
  const auto part = std::ranges::find(r.claims, Source::part, &Claim::source);
  if (part != r.claims.end() && part->by == r.topology.platform && nnodes_by == part->value.detail)
    r.warn(
        fmt::format("this is {}, and nothing says whether the others train with this one, so this node "
                    "trains alone; {}, or set RANKSHIM_NNODES=1 if it is alone",
                    r.platform.profile->title, settle_node));
}

/// Warns of, or refuses, what only looks like a job of several nodes.
void weigh_signs(Resolution& r) {
  const auto signs = unknown_signs(r);
  const auto misses = near_misses_of_several_nodes(r.node.environment());
  if (signs.empty() && misses.empty()) return;
  std::vector<std::string> parts, names;
  if (!signs.empty()) {
    constexpr std::size_t most = 5;
    parts.push_back(fmt::format("{} {} like a job of several nodes{}",
                                joined(std::span(signs).first(std::min(signs.size(), most))),
                                signs.size() == 1 ? "looks" : "look",
                                r.platform.profile == nullptr ? ", but no platform is recognised" : ""));
  }
  for (const std::string& sign : signs) names.emplace_back(entry_name(sign));
  for (const NearMiss& miss : misses) {
    parts.push_back(miss.text);
    names.push_back(miss.name);
  }
  std::string what = joined(parts, "; ") + ", and this node is treated as a lone node";
  if (r.fact(Fact::nnodes)->origin != Origin::fallback)
    what += fmt::format(" ({})", r.said(Fact::nnodes).text);
  const std::string fix = fmt::format(
      "{} or with a profile of your own (--profile), or set RANKSHIM_NNODES=1 if it is alone", settle_node);
  if (r.settings.flag(Option::strict) && !(signs.empty() && std::ranges::all_of(misses, &NearMiss::is_empty)))
    r.refuse(Anchor::looks_like_several, {std::move(what), std::move(names)}, fix);
  else
    r.warn(what + "; " + fix);
}

}  // namespace

void weigh_alone(Resolution& r) {
  if (!r.reads_variables() || r.user_says_alone()) return;
  for (const Said& proof : proofs_of_others(r)) {
    std::vector<std::string> there = proof.names;
    std::erase_if(there, [&](const std::string& name) {
      return !name.starts_with('/') && !r.node.environment().get(name);
    });
    r.refuse(Anchor::not_alone, r.said(Fact::nnodes) + ", but " + proof,
             fmt::format("unset {} if this node is alone, or {}", joined(there, " and "), settle_node));
  }
  if (!r.faults.empty()) return;
  weigh_claims(r);
  weigh_signs(r);
}

}  // namespace rankshim
