#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <iterator>

#include "base/text.h"
#include "topology/near_miss.h"
#include "topology/topology_resolver.h"

namespace rankshim {
namespace {

constexpr const char* settle =
    "describe this node with --nnodes, --node-rank and --master-addr (RANKSHIM_NNODES, RANKSHIM_NODE_RANK, "
    "RANKSHIM_MASTER_ADDR)";

}  // namespace

void TopologyResolver::weigh_alone() {
  if (!reads_variables_ || user_says_alone()) return;
  const Value& nnodes = *fact(Fact::nnodes);
  for (const auto& [proof, names] : proofs_of_others()) {
    std::vector<std::string> all = {name_of(Fact::nnodes, nnodes)};
    all.insert(all.end(), names.begin(), names.end());
    std::vector<std::string> there;
    std::ranges::copy_if(names, std::back_inserter(there), [&](const std::string& name) {
      return name.starts_with('/') || node_.environment().get(name);
    });
    fault(fmt::format("{}, but {}", in_words(Fact::nnodes, nnodes), proof), all,
          fmt::format("unset {} if this node is alone, or {}", joined(there, " and "), settle));
  }
  if (!faults_.empty()) return;
  if (const auto& master = fact(Fact::master_addr); master && rank_variables().rank &&
                                                    rank_variables().world_size.value_or(1) > 1 &&
                                                    !is_this_node(master->text))
    topology_.warnings.push_back(
        fmt::format("{} names another machine, but {} and WORLD_SIZE is the number of its workers, so this "
                    "node trains alone; {}",
                    in_words(Fact::master_addr, *master), in_words(Fact::nnodes, nnodes), settle));

  if (const auto part = std::ranges::find(claims_, Source::part, &Claim::source);
      part != claims_.end() && part->by == topology_.platform && nnodes.detail == part->value.detail)
    topology_.warnings.push_back(fmt::format(
        "this is {}, and nothing says whether the others train with this one, so this node trains alone; "
        "{}, or set RANKSHIM_NNODES=1 if it is alone",
        platform_.profile->title(), settle));

  const auto signs = unknown_signs();
  const auto misses = near_misses_of_several_nodes(node_.environment());
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
  if (!signs.empty() && platform_.profile == nullptr) what += ", but no platform is recognised";
  for (const NearMiss& miss : misses) {
    what += fmt::format("{}{}", what.empty() ? "" : "; ", miss.text);
    names.push_back(miss.name);
  }
  what +=
      misses.empty() ? ", and this node is treated as a lone node" : "; this node is treated as a lone node";
  if (nnodes.origin != Origin::fallback) what += fmt::format(" ({})", in_words(Fact::nnodes, nnodes));
  const std::string fix = fmt::format(
      "{} or with a profile of your own (--profile), or set RANKSHIM_NNODES=1 if it is alone", settle);
  const bool only_empty = signs.empty() && std::all_of(misses.begin(), misses.end(),
                                                       [](const NearMiss& miss) { return miss.is_empty; });
  if (settings_.flag(Option::strict) && !only_empty)
    fault(std::move(what), names, fix);
  else
    topology_.warnings.push_back(what + "; " + fix);
}

std::vector<std::pair<std::string, std::vector<std::string>>> TopologyResolver::proofs_of_others() const {
  std::vector<std::pair<std::string, std::vector<std::string>>> proofs;
  const Facts& mine = topology_.facts;
  for (const platform::Other& other : platform_.others) {
    if (!other.several.empty())
      proofs.emplace_back(
          fmt::format("{} shows several processes of {}", other.several, other.profile->title()),
          other.names);
    if (!other.profile->has_own_words() || other.facts.has(Fact::nnodes)) continue;
    // It does not say how many nodes there are, but that there are others.
    for (const Fact known : {Fact::node_rank, Fact::master_addr}) {
      const auto& its = other.facts[known];
      if (!its) continue;
      const bool is_another = known == Fact::node_rank
                                  ? parse_count(its->text).value_or(0) > 0
                                  : !is_this_node(its->text) && !same_host(its->text, mine.text(known));
      if (!is_another) continue;
      std::vector<std::string> names;
      its->append_inputs(name(known), names);
      proofs.emplace_back(
          fmt::format("{} of {} shows other nodes", in_words(known, *its), other.profile->name()), names);
      break;
    }
  }
  // As many processes as this node has workers are its own.
  const RankVariables ranks = rank_variables();
  const unsigned world = ranks.world_size.value_or(1);
  const auto is_as_many = [&](const Value& workers) {
    return parse_count(workers.text) == world && workers.detail.find("WORLD_SIZE") == std::string::npos;
  };
  const bool is_own = is_as_many(*mine[Fact::nproc_per_node]) ||
                      std::any_of(claims_.begin(), claims_.end(), [&](const Claim& claim) {
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

bool TopologyResolver::is_this_node(std::string_view host) const {
  return is_loopback(host) || same_host(host, node_.host_name()) || node_.owns_address(host);
}

std::vector<std::string> TopologyResolver::unknown_signs() const {
  auto signs = signs_of_several_nodes(node_.environment());
  std::vector<std::string> known = {"RANK", "WORLD_SIZE"};  // these were weighed
  const auto add = [&](const platform::Profile& profile) {
    for (std::string& name : platform::inputs_of(profile, node_)) known.push_back(std::move(name));
  };
  if (signs.empty()) return signs;
  if (has_own_words()) add(*platform_.profile);
  for (const platform::Other& other : platform_.others) add(*other.profile);
  std::erase_if(signs, [&](const std::string& sign) {
    return std::find(known.begin(), known.end(), entry_name(sign)) != known.end();
  });
  return signs;
}

}  // namespace rankshim
