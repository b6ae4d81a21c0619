#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "outcome/look.h"
#include "outcome/outcome.h"

/// Decides who hangs, from a look at all workers of the job.
namespace rankshim::outcome {

/// Decides who hangs, by the first row of this table that fits. `ended` holds the ranks that exited 0.
/// `victims` holds those that failed after waiting for others in vain, and where they waited, if their
/// exceptions say so; looks at victims are from before they failed. A rank of which nothing is known is never
/// blamed. "The next collective" of a process group is the one after the last that has completed on any rank.
///
/// - stopped: ranks are in state T or t, or in D throughout the look.
/// - missing, ended, order: a rank that has entered the next collective, or is still in an earlier one, waits
///   for the members that have not entered it; so did victims in their last one. To blame are the ranks for
///   which others wait and which are in no collective themselves; if any of these exited 0, only those. If
///   all of them wait for others, they wait in a cycle.
/// - mismatch: all members have entered the next collective, with different operations or from different
///   lines. To blame is the minority; if there is none, nobody.
///   The same if some have ended a collective that no rank can end before all have entered it.
/// - nobody missing: all members have entered the same collective. If not all members can be seen, it is
///   elsewhere.
/// - missing: nobody waits in a collective any more, and there are victims. To blame are the ranks that run
///   outside torch.distributed, if there are no more of them than victims.
/// - missing: nobody waits in a collective, and some ranks wait in torch.distributed, for example for its
///   store. To blame are the others.
/// - elsewhere: nobody waits in a collective, all ranks are in torch.distributed, and not all members of
///   their groups can be seen.
/// - order: all ranks are in torch.distributed, and some send or receive.
/// - ended: all ranks that run are in torch.distributed, and others exited 0. To blame are those.
/// - store: all ranks wait for torch's store or rendezvous.
/// - outlier: no rank reports its numbers, or none does anything, and at most a quarter of the ranks are at
///   another line than the rest.
/// - undecided: no rank reports its numbers, or none does anything.
///
/// Sets the cause, `rank`, `ranks`, `victims` and `hang`. Returns nullopt if nobody waits for anybody. Pure.
std::optional<Culprit> find_hang(const std::vector<WorkerLook>& looks,
                                 const std::vector<unsigned>& ended = {},
                                 const std::map<unsigned, Place>& victims = {});

/// Whether a function of torch.distributed sends to one rank, or receives from one: "send", "irecv".
bool is_point_to_point(std::string_view call);

/// Shortens a stack to at most `most` frames: the innermost calls and, however deep in libraries they are,
/// the user's own code with the call that it makes.
void shorten(std::vector<Frame>& stack, std::size_t most);

/// The frames of an exception's traceback, innermost call first. If the text has several tracebacks, those of
/// the last one.
std::vector<Frame> frames_of_traceback(std::string_view traceback);

/// Whether another worker has entered a collective of a common group that this one has not.
bool is_behind(const WorkerLook& look, const WorkerLook& other);

/// What a worker is doing: the innermost line of the user's own code, and the library function that it has
/// called. The user's own code is whatever is not in site-packages, dist-packages or Python's library.
Place place_of(const WorkerLook& look);

/// Ranks with the same stack.
struct StackGroup {
  std::vector<RankRange> ranks;
  WorkerLook look;  ///< of the first of them
};
/// Groups all ranks by stack, largest group last, so that ranks that differ come first.
std::vector<StackGroup> group_stacks(const std::vector<WorkerLook>& looks);

/// Ranks that wait in a collective, and the ranks that they wait for.
struct Wait {
  std::vector<RankRange> ranks;
  std::vector<RankRange> for_ranks;  ///< empty: all visible members have entered it
  std::string group;                 ///< "default_pg"
  std::uint64_t number = 0;          ///< of the collective in that group
  std::string operation;             ///< "all_reduce"; empty if it is unknown
};
/// Finds who waits for whom. `ended` holds the ranks that exited 0.
std::vector<Wait> find_waits(const std::vector<WorkerLook>& looks, const std::vector<unsigned>& ended = {});

/// "ranks 0 and 2 wait for rank 1 in all_reduce, number 21 of default_pg".
std::string in_words(const Wait& wait);

/// The groups as lines for a reader, at most `most_lines`: "ranks 0 and 2: in train.py:37, which called
/// all_reduce", followed by their stack, innermost call first.
std::vector<std::string> in_lines(const std::vector<StackGroup>& groups, std::size_t most_lines);

}  // namespace rankshim::outcome
