#include "link/quorum.h"

namespace rankshim::link {
namespace {

bool is_quorum(const Term& term, std::size_t votes, bool has_hub) {
  return 2 * votes > term.voters || (2 * votes == term.voters && has_hub);
}

}  // namespace

KnownTerm heard(const std::optional<KnownTerm>& own, const Ballot& told) {
  KnownTerm known{.last = told.term, .votes = told.votes, .before = told.before, .kept = told.kept};
  if (!own) return known;
  known.led = own->led && own->last == told.term;
  if (!told.before) return known;
  if (own->last == *told.before) {
    known.voted = own->votes;
    known.led_before = own->led;
  } else if (own->before == told.before) {
    known.voted = own->voted;
    known.led_before = own->led_before;
  }
  return known;
}

bool is_kept(const std::optional<KnownTerm>& member, unsigned index, const KnownTerm& hub) {
  const auto has_it = [index](const outcome::RankRange& range) { return range.contains(index); };
  return member && hub.before && member->last == *hub.before && member->votes &&
         std::ranges::any_of(hub.kept, has_it);
}

bool accepts(const std::optional<KnownTerm>& own, const Term& of_hub) {
  return !own || own->last == of_hub || own->last.number < of_hub.number;
}

void Votes::count(const KnownTerm& member) {
  if (member.last != known_.last) return;
  votes_ += member.votes ? 1 : 0;
  has_hub_ = has_hub_ || member.led;
  voted_ += member.voted ? 1 : 0;
  had_hub_ = had_hub_ || member.led_before;
}

void Votes::count_hub_of(const Term& term) {
  has_hub_ = has_hub_ || known_.last == term;
  had_hub_ = had_hub_ || known_.before == term;
}

bool Votes::suffice() const {
  return is_quorum(known_.last, votes_, has_hub_) &&
         (!known_.before || is_quorum(*known_.before, voted_, had_hub_));
}

}  // namespace rankshim::link
