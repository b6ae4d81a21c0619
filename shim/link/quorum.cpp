#include "link/quorum.h"

namespace rankshim::link {
namespace {

bool is_quorum(const Term& term, std::size_t votes, bool has_hub) {
  return 2 * votes > term.voters || (2 * votes == term.voters && has_hub);
}

}  // namespace

KnownTerm heard(const std::optional<KnownTerm>& own, const Term& last, const std::optional<Term>& before,
                bool votes) {
  KnownTerm known{.last = last, .votes = votes, .before = before};
  if (!own || !before) return known;
  if (own->last == *before) {
    known.voted = own->votes;
    known.said_before = own->said;
  } else if (own->before == before) {
    known.voted = own->voted;
    known.said_before = own->said_before;
  }
  return known;
}

bool accepts(const std::optional<KnownTerm>& own, const Term& of_hub) {
  return !own || own->last == of_hub || own->last.number < of_hub.number;
}

bool may_go_on(const KnownTerm& of_hub, std::span<const KnownTerm> group) {
  std::size_t votes = 0, voted = 0;
  bool has_hub = false, had_hub = false;
  for (const KnownTerm& member : group) {
    if (member.last != of_hub.last) continue;
    votes += member.votes ? 1 : 0;
    has_hub = has_hub || member.said;
    voted += member.voted ? 1 : 0;
    had_hub = had_hub || member.said_before;
  }
  return is_quorum(of_hub.last, votes, has_hub) &&
         (!of_hub.before || is_quorum(*of_hub.before, voted, had_hub));
}

}  // namespace rankshim::link
