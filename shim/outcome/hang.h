#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "outcome/look.h"
#include "outcome/outcome.h"

/// Who hangs: decided from a look at all workers of the job.
namespace rankshim::outcome {

/// Decides who hangs, by the first row that fits. `ended` are the ranks that have exited 0. A rank that is
/// neither looked at nor ended is unknown, and never to blame.
///
/// - stopped: ranks are in state T, t, or D all the time.
/// - missing, ended, order: for each group the next collective is the one after the last that has ended
///   anywhere. Whoever has entered it waits for those members who have not. Of all who are waited for, those
///   to blame wait for nobody themselves. If there is none, they wait in a circle.
/// - mismatch: all members have entered it by different operations or lines. The minority; if there is none,
/// all.
/// - nobody missing: all members have entered the same; elsewhere: if not all members can be seen.
/// - store: nobody waits in a collective, and all are at one line of torch's store or rendezvous.
/// - outlier: no rank tells its numbers, and at most a quarter has another stack than all others.
/// - undecided: no rank tells its numbers.
///
/// Sets the cause, `rank`, `ranks`, `victims` and `hang`. Pure. nullopt if nobody waits for anybody.
std::optional<Culprit> find_hang(const std::vector<WorkerLook>& looks,
                                 const std::vector<unsigned>& ended = {});

/// What a worker does.
Place place_of(const WorkerLook& look);

/// Ranks with the same stack.
struct StackGroup {
  std::vector<RankRange> ranks;
  WorkerLook look;  ///< of the first of them
};
/// All ranks, the largest group last: who differs comes first.
std::vector<StackGroup> group_stacks(const std::vector<WorkerLook>& looks);

/// What a reader sees of the groups, at most `most_lines` lines: "ranks 0 and 2-15: all_reduce, number 21 of
/// default_pg", and the stack below it, the innermost call first.
std::vector<std::string> in_lines(const std::vector<StackGroup>& groups, std::size_t most_lines);

}  // namespace rankshim::outcome
