#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "base/text.h"
#include "topology/resolution.h"

namespace rankshim {
namespace {

/// Refuses what a process cannot do without.
void check_complete(Resolution& r) {
  for (const Fact needed : {Fact::rank, Fact::world_size, Fact::local_rank}) {
    if (r.known(needed)) continue;
    if (r.has(needed)) {
      r.refuse(Anchor::no_number, r.said(needed) + " is not a number",
               fmt::format("correct it, or {}", settle_process));
      continue;
    }
    const Missing missing = why_missing(r, needed);
    r.refuse(
        Anchor::rank_unknown,
        r.recognised() + " has started one process per accelerator, but " + std::string(name(needed)) +
            " is unknown" + missing.why,
        fmt::format("{}{}{}", missing.remedy,
                    missing.unset.empty() ? "" : fmt::format("set {}, or ", missing.unset), settle_process));
  }
}

/// Whether the user's word that the node is alone cannot be true.
bool has_other_nodes(const Resolution& r) {
  const bool one_node = std::ranges::any_of(r.claims, [](const Claim& claim) {
    return claim.fact == Fact::nnodes && claim.source != Source::user && claim.value.text == "1";
  });
  const unsigned here = r.number(Fact::local_world_size);
  return r.user_says_alone() && !one_node && here != 0 && here < r.number(Fact::world_size);
}

/// Checks the number of processes on this node.
void check_local_size(Resolution& r) {
  const unsigned world = r.number(Fact::world_size), local = r.number(Fact::local_world_size);
  if (local == 0 || r.is_users(Fact::local_world_size)) return;
  const auto contradicts = [&](Fact other, const Said& more) {
    if (r.is_users(other)) return;  // a value that the user set needs no warning
    r.refuse(Anchor::contradiction, r.said(Fact::local_world_size) + " contradicts " + r.said(other) + more,
             "correct one of them, or " + settle(other));
  };
  const auto nnodes = r.known(Fact::nnodes), nproc = r.known(Fact::nproc_per_node);
  // Every other node has at least one; they need not be spread evenly.
  if (nnodes && *nnodes != 0 && (*nnodes == 1 ? local != world : local + *nnodes - 1 > world))
    contradicts(Fact::nnodes, " and " + r.said(Fact::world_size));
  const bool even = !nnodes || *nnodes * local == world;
  if (nproc && *nproc != local && even) contradicts(Fact::nproc_per_node, "");
}

void check_numbers_of_process(Resolution& r) {
  check_below(r, Fact::rank, Fact::world_size, settle_process);
  if (r.number(Fact::rank) < r.number(Fact::local_rank))
    r.refuse(Anchor::not_below,
             r.said(Fact::rank) + " is below " + r.said(Fact::local_rank) +
                 ", but a node has no more processes than the job",
             fmt::format("correct one of them, or {}", r.has_own_words() ? settle_process : settle_nodes));
  if (r.has(Fact::local_world_size)) check_below(r, Fact::local_rank, Fact::local_world_size, settle_process);
  if (r.known(Fact::node_rank) && r.known(Fact::nnodes)) check_below(r, Fact::node_rank, Fact::nnodes);
  if (r.faults.empty()) check_local_size(r);
}

}  // namespace

void complete_process(Resolution& r) {
  check_complete(r);
  if (!r.faults.empty()) return;
  if (has_other_nodes(r))
    return r.refuse(Anchor::not_alone,
                    r.said(Fact::nnodes) + ", but " + r.said(Fact::local_world_size) + " is not all of " +
                        r.said(Fact::world_size) + ", so there are other nodes",
                    "start this node's processes alone, or take RANKSHIM_NNODES (--nnodes) out");
  check_numbers_of_process(r);
  if (!r.faults.empty()) return;

  const unsigned world = r.number(Fact::world_size), rank = r.number(Fact::rank);
  r.topology.part = CreatedProcess{rank, world, r.number(Fact::local_rank)};
  if (r.text(Fact::nnodes) == "1" && r.fact(Fact::nnodes)->detail != "NNODES")
    r.fill(Fact::local_world_size, {std::to_string(world), Origin::derived, "world_size and nnodes"});
  if (const unsigned local = r.number(Fact::local_world_size); local != 0) {
    r.fill(Fact::nproc_per_node, {std::to_string(local), Origin::derived, "local_world_size"});
    if (world % local == 0)
      r.fill(Fact::nnodes,
             {std::to_string(world / local), Origin::derived, "world_size and local_world_size"});
  }
  const bool one_node = r.text(Fact::nnodes) == "1";
  if (world == 1 || one_node) r.fill(Fact::master_addr, {"127.0.0.1"});
  if (!r.has(Fact::master_addr)) {
    Missing missing = why_missing(r, Fact::master_addr);
    for (const Fact of_one_node : {Fact::nnodes, Fact::local_world_size})  // there it would not matter
      std::ranges::move(why_missing(r, of_one_node).why.names, std::back_inserter(missing.why.names));
    return r.refuse(Anchor::master_unknown,
                    r.said(Fact::world_size) + ", but the address of rank 0 is unknown" + missing.why,
                    missing.remedy + set_master_addr);
  }
  if (world == 1 || check_master_addr(r)) complete_meeting(r, rank == 0 || one_node);
}

}  // namespace rankshim
