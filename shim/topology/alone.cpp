#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "base/text.h"
#include "topology/near_miss.h"
#include "topology/resolution.h"

namespace rankshim {
namespace {

constexpr const char* settle_alone =
    "describe this node with --nnodes, --node-rank and --master-addr (RANKSHIM_NNODES, RANKSHIM_NODE_RANK, "
    "RANKSHIM_MASTER_ADDR)";

/// What cannot be true if this node is alone, each with its variables and files.
std::vector<std::pair<std::string, std::vector<std::string>>> proofs_of_others(const Resolution& r) {
  std::vector<std::pair<std::string, std::vector<std::string>>> proofs;
  const Facts& mine = r.topology.facts;
  for (const platform::Other& other : r.platform.others) {
    if (!other.several.empty())
      proofs.emplace_back(
          fmt::format("{} shows several processes of {}", other.several, other.profile->title), other.names);
    if (!other.profile->has_own_words() || other.facts.has(Fact::nnodes)) continue;
    // It does not say how many nodes there are, but that there are others.
    for (const Fact known : {Fact::node_rank, Fact::master_addr}) {
      const auto& its = other.facts[known];
      if (!its) continue;
      const bool is_another = known == Fact::node_rank
                                  ? parse_count(its->text).value_or(0) > 0
                                  : !is_this_node(r, its->text) && !same_host(its->text, mine.text(known));
      if (!is_another) continue;
      std::vector<std::string> names;
      its->append_inputs(name(known), names);
      proofs.emplace_back(
          fmt::format("{} of {} shows other nodes", in_words(known, *its), other.profile->name), names);
      break;
    }
  }
  // As many processes as this node has workers are its own.
  const RankVariables ranks = rank_variables(r);
  const unsigned world = ranks.world_size.value_or(1);
  const auto is_as_many = [&](const Value& workers) {
    return parse_count(workers.text) == world && workers.detail.find("WORLD_SIZE") == std::string::npos;
  };
  const bool is_own = is_as_many(*mine[Fact::nproc_per_node]) ||
                      std::any_of(r.claims.begin(), r.claims.end(), [&](const Claim& claim) {
                        return claim.fact == Fact::nproc_per_node && is_as_many(claim.value);
                      });
  if (world > 1 && !is_own) {
    std::vector<std::string> names = {"WORLD_SIZE"};
    std::string text = fmt::format("WORLD_SIZE={}", world);
    if (ranks.rank) {
      names.insert(names.begin(), "RANK");
      text = fmt::format("RANK={} of {}", *ranks.rank, text);
    }
    proofs.emplace_back(fmt::format("{} shows other nodes, or more than the {} of this one", text,
                                    counted(mine.text(Fact::nproc_per_node), "worker")),
                        names);
  }
  return proofs;
}

/// Variables of no recognised profile that look like a job of several nodes.
std::vector<std::string> unknown_signs(const Resolution& r) {
  auto signs = signs_of_several_nodes(r.node.environment());
  std::erase_if(signs, [&](const std::string& sign) {
    const std::string_view name = entry_name(sign);
    return name == "RANK" || name == "WORLD_SIZE" ||  // these were weighed
           (has_own_words(r) && platform::mentions(*r.platform.profile, name)) ||
           std::ranges::any_of(r.platform.others, [&](const platform::Other& other) {
             return platform::mentions(*other.profile, name);
           });
  });
  return signs;
}

}  // namespace

bool is_this_node(const Resolution& r, std::string_view host) {
  return is_loopback(host) || same_host(host, r.node.host_name()) || r.node.owns_address(host);
}

void weigh_alone(Resolution& r) {
  if (!r.reads_variables || user_says_alone(r)) return;
  const Value& nnodes = *r.fact(Fact::nnodes);
  for (const auto& [proof, names] : proofs_of_others(r)) {
    std::vector<std::string> all = {r.source(Fact::nnodes)};
    all.insert(all.end(), names.begin(), names.end());
    std::vector<std::string> there;
    std::ranges::copy_if(names, std::back_inserter(there), [&](const std::string& name) {
      return name.starts_with('/') || r.node.environment().get(name);
    });
    r.fault(Anchor::not_alone, fmt::format("{}, but {}", r.words(Fact::nnodes), proof), all,
            fmt::format("unset {} if this node is alone, or {}", joined(there, " and "), settle_alone));
  }
  if (!r.faults.empty()) return;
  if (const auto& master = r.fact(Fact::master_addr); master && rank_variables(r).rank &&
                                                      rank_variables(r).world_size.value_or(1) > 1 &&
                                                      !is_this_node(r, master->text))
    r.topology.warnings.push_back(
        fmt::format("{} names another machine, but {} and WORLD_SIZE is the number of its workers, so this "
                    "node trains alone; {}",
                    r.words(Fact::master_addr), r.words(Fact::nnodes), settle_alone));

  if (const auto part = std::ranges::find(r.claims, Source::part, &Claim::source);
      part != r.claims.end() && part->by == r.topology.platform && nnodes.detail == part->value.detail)
    r.topology.warnings.push_back(fmt::format(
        "this is {}, and nothing says whether the others train with this one, so this node trains alone; "
        "{}, or set RANKSHIM_NNODES=1 if it is alone",
        r.platform.profile->title, settle_alone));

  const auto signs = unknown_signs(r);
  const auto misses = near_misses_of_several_nodes(r.node.environment());
  if (signs.empty() && misses.empty()) return;
  std::string what;
  std::vector<std::string> names;
  for (const std::string& sign : signs) {
    constexpr std::size_t most = 5;
    if (names.size() < most) what += fmt::format("{}{}", what.empty() ? "" : ", ", sign);
    names.emplace_back(entry_name(sign));
  }
  if (!signs.empty())
    what += fmt::format(" {} like a job of several nodes", signs.size() == 1 ? "looks" : "look");
  if (!signs.empty() && r.platform.profile == nullptr) what += ", but no platform is recognised";
  for (const NearMiss& miss : misses) {
    what += fmt::format("{}{}", what.empty() ? "" : "; ", miss.text);
    names.push_back(miss.name);
  }
  what +=
      misses.empty() ? ", and this node is treated as a lone node" : "; this node is treated as a lone node";
  if (nnodes.origin != Origin::fallback) what += fmt::format(" ({})", r.words(Fact::nnodes));
  const std::string fix = fmt::format(
      "{} or with a profile of your own (--profile), or set RANKSHIM_NNODES=1 if it is alone", settle_alone);
  const bool only_empty = signs.empty() && std::all_of(misses.begin(), misses.end(),
                                                       [](const NearMiss& miss) { return miss.is_empty; });
  if (r.settings.flag(Option::strict) && !only_empty)
    r.fault(Anchor::looks_like_several, std::move(what), names, fix);
  else
    r.topology.warnings.push_back(what + "; " + fix);
}

}  // namespace rankshim
