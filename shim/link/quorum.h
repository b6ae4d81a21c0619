#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "outcome/outcome.h"

/// Decides who may go on when the hub is out of reach, so that if a network partition cuts a job in two, only
/// one part trains. Pure.
namespace rankshim::link {

/// A count of the voters who decide what follows, whether or not they have heard of it. Voters are counted
/// before each `go` but the first, with the first one, and when members have come or gone. Each member knows
/// whether it votes (KnownTerm). Members that come later vote from the next term on, and one that was started
/// anew is a new member, which has never voted.
struct Term {
  unsigned number = 0;  ///< a later term has a higher number
  std::string hub;      ///< the instance that began it, which also votes
  unsigned voters = 0;  ///< how many voters there are

  friend bool operator==(const Term& one, const Term& other) {
    return one.number == other.number && one.hub == other.hub;
  }
};

/// What a hub tells a member about a term.
struct Ballot {
  Term term;
  /// The previous term, until it is known that quorums of both terms have heard this one. Until then neither
  /// the hub nor a successor launches.
  std::optional<Term> before;
  /// The indices of its voters that also voted in the previous term. From these, a successor knows whether a
  /// member that knows only the previous term votes in this one. If there are too many ranges, some are left
  /// out, and those members do not vote.
  std::vector<outcome::RankRange> kept;
  bool votes = false;  ///< the recipient is one of the voters
};

/// What a member knows about the last term.
struct KnownTerm {
  Term last;
  bool votes = false;                    ///< this member is one of its voters
  bool led = false;                      ///< this member is its hub
  std::optional<Term> before;            ///< as in Ballot
  bool voted = false;                    ///< this member was one of the previous term's voters …
  bool led_before = false;               ///< … and its hub
  std::vector<outcome::RankRange> kept;  ///< as in Ballot; not told to other nodes
};

/// What a member knows after hearing this.
KnownTerm heard(const std::optional<KnownTerm>& own, const Ballot& told);

/// Whether the member with this index, which has not heard the term that `hub` knows, is one of that term's
/// voters.
bool is_kept(const std::optional<KnownTerm>& member, unsigned index, const KnownTerm& hub);

/// Whether the member may count for a hub that knows this term: it must know the same term or an earlier one.
/// A different term with the same number is never accepted, because either of the two may have its quorum.
bool accepts(const std::optional<KnownTerm>& own, const Term& of_hub);

/// Counts the members that side with a hub, and tells whether they are a majority of the voters of the last
/// term that the hub knows and, if necessary, of the previous one. Exactly half is a majority only if it
/// includes the hub that began the term.
class Votes {
 public:
  /// `of_hub` must outlive this. The hub's own vote is counted like any other.
  explicit Votes(const KnownTerm& of_hub) : known_(of_hub) {}

  /// Counts a member. One that has not heard the last term does not count.
  void count(const KnownTerm& member);
  /// Counts the hub that began this term as being on this side, because a new container in its place shows
  /// that it has ended.
  void count_hub_of(const Term& term);
  [[nodiscard]] bool suffice() const;

 private:
  const KnownTerm& known_;
  std::size_t votes_ = 0, voted_ = 0;
  bool has_hub_ = false, had_hub_ = false;
};

}  // namespace rankshim::link
