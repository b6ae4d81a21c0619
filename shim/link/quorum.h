#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

/// Who may go on when the hub is out of reach, so that of a job that a network has cut in two only one part
/// trains. Pure.
namespace rankshim::link {

/// A container of the job. One that was started anew is another member, which has never voted.
using MemberId = unsigned;

/// A `go`, by its attempt and its hub: those that it was said to vote on what follows it, whether they have
/// heard it or not. Members that come later vote from the next one on.
struct Term {
  unsigned attempt = 0;
  MemberId hub = 0;  ///< that said it, and votes too
  std::vector<MemberId> voters;
};

/// What a member knows of the last `go`.
struct KnownTerm {
  Term last;
  /// The one before, as long as it is not known that quorums of both have heard the last one.
  std::optional<Term> before;
};

/// Whether this group is a majority of the term's voters. Exactly half is one only with the hub that said it.
bool is_quorum(const Term& term, std::span<const MemberId> group);

/// Whether a member takes what a hub tells it in the place of what it knows itself (nullopt: nothing), and so
/// counts for that hub. Never for another `go` of the same attempt: one of the two may have its quorum.
bool accepts(const std::optional<KnownTerm>& own, const KnownTerm& told);

/// Whether a group may go on with the last attempt, or end it and say the next `go`. All in it have heard the
/// last one: a new hub tells those that come to it before it counts them, and they accept it.
bool may_go_on(const KnownTerm& known, std::span<const MemberId> group);

/// Who opens the hub if the term's own is lost, the first first: at most 8 voters, by the order of `ranked`,
/// which has the nodes that train by their ranks, and then the spares.
std::vector<MemberId> successors(const Term& term, std::span<const MemberId> ranked);

}  // namespace rankshim::link
