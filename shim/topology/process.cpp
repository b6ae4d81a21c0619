#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "topology/resolution.h"

namespace rankshim {
namespace {

void check_below(Resolution& r, Fact smaller, Fact larger) {
  if (r.number(smaller) < r.number(larger)) return;
  r.clash(
      Anchor::not_below, smaller, "is not below", larger,
      smaller == Fact::node_rank ? settle_nodes : fmt::format("correct one of them, or {}", settle_process));
}

/// Checks the number of processes on this node; returns false, after a fault, if it cannot be true.
bool check_local_size(Resolution& r) {
  const unsigned world = r.number(Fact::world_size), local = r.number(Fact::local_world_size);
  if (local == 0) return true;
  const auto contradicts = [&](Fact other, const std::string& more) {
    if (r.fact(Fact::local_world_size)->from_user() || r.fact(other)->from_user())
      return;  // a value that the user set needs no warning
    r.fault(Anchor::contradiction,
            fmt::format("{} contradicts {}{}", r.words(Fact::local_world_size), r.words(other), more),
            {r.source(Fact::local_world_size), r.source(other)}, "correct one of them, or " + settle(other));
  };
  const auto nnodes = r.known(Fact::nnodes), nproc = r.known(Fact::nproc_per_node);
  // Every other node has at least one; they need not be spread evenly.
  if (nnodes && *nnodes != 0 && (*nnodes == 1 ? local != world : local + *nnodes - 1 > world))
    contradicts(Fact::nnodes, " and " + r.words(Fact::world_size));
  const bool even = !nnodes || *nnodes * local == world;
  if (nproc && *nproc != local && even) contradicts(Fact::nproc_per_node, "");
  return r.faults.empty();
}

}  // namespace

void complete_process(Resolution& r) {
  for (const Fact needed : {Fact::rank, Fact::world_size, Fact::local_rank}) {
    const auto& value = r.fact(needed);
    if (value && parse_count(value->text)) continue;
    if (value) {
      r.wrong(Anchor::no_number, needed, "is not a number", fmt::format("correct it, or {}", settle_process));
      continue;
    }
    std::vector<std::string> names = {upper_case(name(needed))};
    const Missing missing = why_missing(r, needed, names);
    const platform::Causes causes = causes_of_platform(r);
    names.insert(names.end(), causes.names.begin(), causes.names.end());
    r.fault(Anchor::rank_unknown,
            fmt::format("{} ({}) has started one process per accelerator, but {} is unknown{}",
                        r.topology.platform, causes.text, name(needed), missing.why),
            names,
            missing.unset.empty()
                ? fmt::format("{}{}", missing.remedy, settle_process)
                : fmt::format("{}set {}, or {}", missing.remedy, missing.unset, settle_process));
  }
  if (!r.faults.empty()) return;
  const unsigned world = r.number(Fact::world_size);
  const unsigned here = r.number(Fact::local_world_size);
  const bool one_node = std::ranges::any_of(r.claims, [](const Claim& claim) {
    return claim.fact == Fact::nnodes && claim.source != Source::user && claim.value.text == "1";
  });
  if (user_says_alone(r) && !one_node && here != 0 && here < world) {
    r.fault(
        Anchor::not_alone,
        fmt::format("{}, but {} of {} processes are on this node ({}), so there are other nodes",
                    r.words(Fact::nnodes), here, r.words(Fact::world_size), r.words(Fact::local_world_size)),
        {r.source(Fact::world_size), r.source(Fact::local_world_size)},
        "start this node's processes alone, or take RANKSHIM_NNODES (--nnodes) out");
    return;
  }
  check_below(r, Fact::rank, Fact::world_size);
  if (r.number(Fact::rank) < r.number(Fact::local_rank))
    r.fault(Anchor::not_below,
            fmt::format("{} is below {}, but a node has no more processes than the job", r.words(Fact::rank),
                        r.words(Fact::local_rank)),
            {r.source(Fact::rank), r.source(Fact::local_rank)},
            has_own_words(r) ? fmt::format("correct one of them, or {}", settle_process)
                             : "correct one of them, or describe this node with --nnodes and --node-rank "
                               "(RANKSHIM_NNODES, RANKSHIM_NODE_RANK)");
  if (r.fact(Fact::local_world_size)) check_below(r, Fact::local_rank, Fact::local_world_size);
  if (r.known(Fact::node_rank) && r.known(Fact::nnodes)) check_below(r, Fact::node_rank, Fact::nnodes);
  if (!r.faults.empty() || !check_local_size(r)) return;

  r.hosts_master = r.number(Fact::rank) == 0;
  r.is_alone = world == 1;
  if (const auto& nnodes = r.fact(Fact::nnodes);
      !r.fact(Fact::local_world_size) && nnodes && nnodes->text == "1" && nnodes->detail != "NNODES")
    r.fact(Fact::local_world_size) =
        Value{fmt::format("{}", world), Origin::derived, "world_size and nnodes"};
  const unsigned local = r.number(Fact::local_world_size);
  if (local != 0 && !r.fact(Fact::nproc_per_node)) {
    r.fact(Fact::nproc_per_node) = Value{fmt::format("{}", local), Origin::derived, "local_world_size"};
  }
  if (local != 0 && world % local == 0 && !r.fact(Fact::nnodes)) {
    r.fact(Fact::nnodes) =
        Value{fmt::format("{}", world / local), Origin::derived, "world_size and local_world_size"};
  }
  if (!r.fact(Fact::master_addr)) {
    if (world > 1 && r.topology.facts.text(Fact::nnodes) != "1") {
      std::vector<std::string> names = {r.source(Fact::world_size), "MASTER_ADDR"};
      const Missing missing = why_missing(r, Fact::master_addr, names);
      why_missing(r, Fact::nnodes, names);  // on one node it would not matter
      why_missing(r, Fact::local_world_size, names);
      r.fault(
          Anchor::master_unknown,
          fmt::format("{}, but the address of rank 0 is unknown{}", r.words(Fact::world_size), missing.why),
          names,
          missing.remedy +
              "set MASTER_ADDR to the name or address of rank 0's node, or --master-addr "
              "(RANKSHIM_MASTER_ADDR)");
      return;
    }
    r.fact(Fact::master_addr) = Value{"127.0.0.1", Origin::fallback, ""};
  }
  if (!r.is_alone && !check_master_addr(r)) return;
  complete_run_id(r);
  complete_port(r);
  if (r.topology.facts.text(Fact::nnodes) != "1") check_loopback(r);
}

}  // namespace rankshim
