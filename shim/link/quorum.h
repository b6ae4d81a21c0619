#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <string>

/// Who may go on when the hub is out of reach, so that of a job that a network has cut in two only one part
/// trains. Pure.
namespace rankshim::link {

/// A `go`, or a later count of its voters: those that it was said to vote on what follows it, whether they
/// have heard it or not. Each knows of itself that it does (KnownTerm). Members that come later vote from the
/// next one on, and one that was started anew is another member, which has never voted.
struct Term {
  unsigned number = 0;  ///< of two, the later one has the higher
  std::string hub;      ///< the instance that said it, and votes too
  unsigned voters = 0;  ///< how many

  friend bool operator==(const Term& one, const Term& other) {
    return one.number == other.number && one.hub == other.hub;
  }
};

/// What a member knows of the last term.
struct KnownTerm {
  Term last;
  bool votes = false;  ///< this member is one of its voters
  bool said = false;   ///< this member is its hub
  /// The one before, as long as it is not known that quorums of both have heard the last one.
  std::optional<Term> before;
  bool voted = false;        ///< this member is one of that one's voters …
  bool said_before = false;  ///< … and its hub
};

/// What a member knows that hears a term: `votes` says whether it is one of its voters.
KnownTerm heard(const std::optional<KnownTerm>& own, const Term& last, const std::optional<Term>& before,
                bool votes);

/// Whether the member may count for a hub that knows this term: it knows the same, or nothing later. Never
/// for another one of the same number: one of the two may have its quorum.
bool accepts(const std::optional<KnownTerm>& own, const Term& of_hub);

/// Whether a group is a majority of the voters, for the last term and, where that is needed, for the one
/// before. Exactly half is one only with the hub that said it. `group` is what its members know, that of the
/// hub that asks included. Who has not heard the last term does not count.
bool may_go_on(const KnownTerm& of_hub, std::span<const KnownTerm> group);

}  // namespace rankshim::link
