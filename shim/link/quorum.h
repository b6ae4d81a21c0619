#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "outcome/outcome.h"

/// Who may go on when the hub is out of reach, so that of a job that a network has cut in two only one part
/// trains. Pure.
namespace rankshim::link {

/// A count of the voters on what follows, whether they have heard of it or not: before each `go` but the
/// first, with that one, and when members have come or gone. Each knows of itself that it votes (KnownTerm).
/// Members that come later vote from the next one on, and one that was started anew is another member, which
/// has never voted.
struct Term {
  unsigned number = 0;  ///< of two, the later one has the higher
  std::string hub;      ///< the instance that began it, and votes too
  unsigned voters = 0;  ///< how many

  friend bool operator==(const Term& one, const Term& other) {
    return one.number == other.number && one.hub == other.hub;
  }
};

/// What a hub tells of a term.
struct Ballot {
  Term term;
  /// The one before, as long as it is not known that quorums of both have heard the term: until then neither
  /// the hub nor who takes over from it launches.
  std::optional<Term> before;
  /// The indices of its voters that voted in that one, too: of a member that knows only that one, a hub that
  /// takes over knows so whether it votes in this one. Of many ranges some are left out: those do not vote.
  std::vector<outcome::RankRange> kept;
  bool votes = false;  ///< the recipient is one of the voters
};

/// What a member knows of the last term.
struct KnownTerm {
  Term last;
  bool votes = false;                    ///< this member is one of its voters
  bool said = false;                     ///< this member is its hub
  std::optional<Term> before;            ///< as in Ballot
  bool voted = false;                    ///< this member is one of that one's voters …
  bool said_before = false;              ///< … and its hub
  std::vector<outcome::RankRange> kept;  ///< as in Ballot; other nodes are not told
};

/// What a member knows that has heard this.
KnownTerm heard(const std::optional<KnownTerm>& own, const Ballot& told);

/// Whether a member of this index, which has not heard the term that `hub` knows, is one of its voters.
bool is_kept(const std::optional<KnownTerm>& member, unsigned index, const KnownTerm& hub);

/// Whether the member may count for a hub that knows this term: it knows the same, or nothing later. Never
/// for another one of the same number: one of the two may have its quorum.
bool accepts(const std::optional<KnownTerm>& own, const Term& of_hub);

/// Counts who is with a hub: whether they are a majority of the voters, for the last term that it knows and,
/// where that is needed, for the one before. Exactly half is one only with the hub that began the term.
class Votes {
 public:
  /// `of_hub` must outlive this. Its own vote is counted like any other.
  explicit Votes(const KnownTerm& of_hub) : known_(of_hub) {}

  /// A member that has not heard the last term does not count.
  void count(const KnownTerm& member);
  /// A new container in the place of the hub that began this term shows that this one has ended.
  void count_hub_of(const Term& term);
  [[nodiscard]] bool suffice() const;

 private:
  const KnownTerm& known_;
  std::size_t votes_ = 0, voted_ = 0;
  bool has_hub_ = false, had_hub_ = false;
};

}  // namespace rankshim::link
