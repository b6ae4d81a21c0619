#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "outcome/look.h"
#include "outcome/outcome.h"

/// Who hangs: decided from a look at all workers of the job.
namespace rankshim::outcome {

/// Decides who hangs, by the first row that fits. `ended` are the ranks that have exited 0, `victims` those
/// that have failed because they waited for others in vain, and where they waited, as far as their exceptions
/// say it; looks at them are from before. A rank of which nothing is known is never to blame. In each process
/// group the next collective is the one after the last that has ended anywhere.
///
/// - stopped: ranks are in state T, t, or D all the time.
/// - missing, ended, order: whoever has entered the next collective, or is still in an earlier one, waits for
///   those members who have not entered it; so did victims in their last one. To blame are those for whom
///   others wait and who are in no collective themselves, of these the ones that exited 0. If all wait for
///   others, they wait in a cycle.
/// - mismatch: all members have entered it by different operations or lines. The minority; if there is none,
///   nobody.
/// - nobody missing: all members have entered the same; elsewhere: if not all members can be seen.
/// - missing: nobody waits in a collective any more, there are victims, and no more run than these. Those
///   that run and are not in torch.distributed themselves.
/// - missing: nobody waits in a collective, and some wait in torch.distributed, as for its store. The others.
/// - order: all are in torch.distributed, and some send or receive.
/// - store: all are at one line of torch's store or rendezvous.
/// - outlier: no rank tells its numbers, or none does anything, and at most a quarter has another stack than
///   all others.
/// - undecided: no rank tells its numbers, or none does anything.
///
/// Sets the cause, `rank`, `ranks`, `victims` and `hang`. Pure. nullopt if nobody waits for anybody.
std::optional<Culprit> find_hang(const std::vector<WorkerLook>& looks,
                                 const std::vector<unsigned>& ended = {},
                                 const std::map<unsigned, Place>& victims = {});

/// Whether a function of torch.distributed sends to one rank, or receives from one: "send", "irecv".
bool is_point_to_point(std::string_view call);

/// The frames of an exception's traceback, the innermost call first; of several that follow each other the
/// last one's.
std::vector<Frame> frames_of_traceback(std::string_view traceback);

/// Whether another worker has entered a collective of one of its groups that this one has not.
bool is_behind(const WorkerLook& look, const WorkerLook& other);

/// What a worker does: the innermost line of the user's own code, which is what is not in site-packages,
/// dist-packages or Python's library, and the library's function that it has called.
Place place_of(const WorkerLook& look);

/// Ranks with the same stack.
struct StackGroup {
  std::vector<RankRange> ranks;
  WorkerLook look;  ///< of the first of them
};
/// All ranks, the largest group last: who differs comes first.
std::vector<StackGroup> group_stacks(const std::vector<WorkerLook>& looks);

/// Ranks that wait in a collective, and for whom.
struct Wait {
  std::vector<RankRange> ranks;
  std::vector<RankRange> for_ranks;  ///< empty: all members that can be seen have entered it
  std::string group;                 ///< "default_pg"
  std::uint64_t number = 0;          ///< of the collective in that group
  std::string operation;             ///< "all_reduce"; empty if it is unknown
};
/// Who waits for whom. `ended` are the ranks that have exited 0.
std::vector<Wait> find_waits(const std::vector<WorkerLook>& looks, const std::vector<unsigned>& ended = {});

/// "ranks 0 and 2 wait for rank 1 in all_reduce, number 21 of default_pg".
std::string in_words(const Wait& wait);

/// What a reader sees of the groups, at most `most_lines` lines: "ranks 0 and 2-15: all_reduce, number 21 of
/// default_pg", and the stack below it, the innermost call first.
std::vector<std::string> in_lines(const std::vector<StackGroup>& groups, std::size_t most_lines);

}  // namespace rankshim::outcome
