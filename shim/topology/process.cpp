#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "topology/topology_resolver.h"

namespace rankshim {

void TopologyResolver::complete_process() {
  for (const Fact needed : {Fact::rank, Fact::world_size, Fact::local_rank}) {
    const auto& value = fact(needed);
    if (value && parse_count(value->text)) continue;
    std::vector<std::string> names = {value ? name_of(needed, *value) : upper_case(name(needed))};
    if (value) {
      fault(fmt::format("{} is not a number", in_words(needed, *value)), names,
            fmt::format("correct it, or {}", settle_process));
      continue;
    }
    const Missing missing = this->missing(needed, names);
    const platform::Causes causes = this->causes();
    names.insert(names.end(), causes.names.begin(), causes.names.end());
    fault(fmt::format("{} ({}) has started one process per accelerator, but {} is unknown{}",
                      topology_.platform, causes.text, name(needed), missing.why),
          names,
          missing.unset.empty()
              ? fmt::format("{}{}", missing.remedy, settle_process)
              : fmt::format("{}set {}, or {}", missing.remedy, missing.unset, settle_process));
  }
  if (!faults_.empty()) return;
  const unsigned world = number(Fact::world_size);
  const unsigned here = number(Fact::local_world_size);
  const bool one_node = std::ranges::any_of(claims_, [](const Claim& claim) {
    return claim.fact == Fact::nnodes && claim.source != Source::user && claim.value.text == "1";
  });
  if (user_says_alone() && !one_node && here != 0 && here < world) {
    const Value &all = *fact(Fact::world_size), &own = *fact(Fact::local_world_size);
    fault(fmt::format("{}, but {} of {} processes are on this node ({}), so there are other nodes",
                      in_words(Fact::nnodes, *fact(Fact::nnodes)), here, in_words(Fact::world_size, all),
                      in_words(Fact::local_world_size, own)),
          {name_of(Fact::world_size, all), name_of(Fact::local_world_size, own)},
          "start this node's processes alone, or take RANKSHIM_NNODES (--nnodes) out");
    return;
  }
  check_below(Fact::rank, Fact::world_size);
  if (number(Fact::rank) < number(Fact::local_rank))
    fault(fmt::format("{} is below {}, but a node has no more processes than the job",
                      in_words(Fact::rank, *fact(Fact::rank)),
                      in_words(Fact::local_rank, *fact(Fact::local_rank))),
          {name_of(Fact::rank, *fact(Fact::rank)), name_of(Fact::local_rank, *fact(Fact::local_rank))},
          has_own_words() ? fmt::format("correct one of them, or {}", settle_process)
                          : "correct one of them, or describe this node with --nnodes and --node-rank "
                            "(RANKSHIM_NNODES, RANKSHIM_NODE_RANK)");
  if (fact(Fact::local_world_size)) check_below(Fact::local_rank, Fact::local_world_size);
  if (parse_count(facts().text(Fact::node_rank)) && parse_count(facts().text(Fact::nnodes)))
    check_below(Fact::node_rank, Fact::nnodes);
  if (!faults_.empty() || !check_local_size()) return;

  hosts_master_ = number(Fact::rank) == 0;
  is_alone_ = world == 1;
  if (const auto& nnodes = fact(Fact::nnodes);
      !fact(Fact::local_world_size) && nnodes && nnodes->text == "1" && nnodes->detail != "NNODES")
    fact(Fact::local_world_size) = Value{fmt::format("{}", world), Origin::derived, "world_size and nnodes"};
  const unsigned local = number(Fact::local_world_size);
  if (local != 0 && !fact(Fact::nproc_per_node)) {
    fact(Fact::nproc_per_node) = Value{fmt::format("{}", local), Origin::derived, "local_world_size"};
  }
  if (local != 0 && world % local == 0 && !fact(Fact::nnodes)) {
    fact(Fact::nnodes) =
        Value{fmt::format("{}", world / local), Origin::derived, "world_size and local_world_size"};
  }
  if (!fact(Fact::master_addr)) {
    if (world > 1 && facts().text(Fact::nnodes) != "1") {
      std::vector<std::string> names = {name_of(Fact::world_size, *fact(Fact::world_size)), "MASTER_ADDR"};
      const Missing missing = this->missing(Fact::master_addr, names);
      this->missing(Fact::nnodes, names);  // on one node it would not matter
      this->missing(Fact::local_world_size, names);
      fault(fmt::format("{}, but the address of rank 0 is unknown{}",
                        in_words(Fact::world_size, *fact(Fact::world_size)), missing.why),
            names,
            fmt::format("{}set MASTER_ADDR to the name or address of rank 0's node, or --master-addr "
                        "(RANKSHIM_MASTER_ADDR)",
                        missing.remedy));
      return;
    }
    fact(Fact::master_addr) = Value{"127.0.0.1", Origin::fallback, ""};
  }
  if (!is_alone_ && !check_master_addr()) return;
  complete_run_id();
  complete_port();
  if (facts().text(Fact::nnodes) != "1") check_loopback();
}

void TopologyResolver::check_below(Fact smaller, Fact larger) {
  const unsigned limit = number(larger);
  if (number(smaller) < limit) return;
  fault(
      fmt::format("{} is not below {}", in_words(smaller, *fact(smaller)), in_words(larger, *fact(larger))),
      {name_of(smaller, *fact(smaller)), name_of(larger, *fact(larger))},
      smaller == Fact::node_rank ? settle_nodes : fmt::format("correct one of them, or {}", settle_process));
}

bool TopologyResolver::check_local_size() {
  const unsigned world = number(Fact::world_size), local = number(Fact::local_world_size);
  if (local == 0) return true;
  const auto contradicts = [&](Fact other, const std::string& more, const std::string& settled) {
    const Value &mine = *fact(Fact::local_world_size), &its = *fact(other);
    if (mine.from_user() || its.from_user()) return;  // a value that the user set needs no warning
    fault(fmt::format("{} contradicts {}{}", in_words(Fact::local_world_size, mine), in_words(other, its),
                      more),
          {name_of(Fact::local_world_size, mine), name_of(other, its)}, settled);
  };
  const auto nnodes = parse_count(facts().text(Fact::nnodes)),
             nproc = parse_count(facts().text(Fact::nproc_per_node));
  // Every other node has at least one; they need not be spread evenly.
  if (nnodes && *nnodes != 0 && (*nnodes == 1 ? local != world : local + *nnodes - 1 > world))
    contradicts(Fact::nnodes, fmt::format(" and {}", in_words(Fact::world_size, *fact(Fact::world_size))),
                "correct one of them, or settle it with --nnodes (RANKSHIM_NNODES)");
  const bool even = !nnodes || *nnodes * local == world;
  if (nproc && *nproc != local && even)
    contradicts(Fact::nproc_per_node, "",
                fmt::format("correct one of them, or settle it with --nproc-per-node "
                            "(RANKSHIM_NPROC_PER_NODE)"));
  return faults_.empty();
}

}  // namespace rankshim
