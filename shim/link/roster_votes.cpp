#include <fmt/format.h>

#include <ranges>
#include <tuple>
#include <utility>

#include "base/text.h"
#include "link/roster.h"

/// The part of the roster that counts who may go on (link/quorum.h), in a job with spares.
///
/// - Before each attempt but the first, and when members have come or gone, the hub counts the voters again.
///   It launches only when all connected nodes have answered. A node that has moved on to another hub does
///   not answer, so no vote counts for two hubs.
/// - A count is settled when majorities of its voters and of the previous count's have heard it. If the hub
///   is lost before that, its successor tells the count to those that have not heard it.

namespace rankshim::link {

bool Roster::has_heard(const Node& node) const { return node.term && node.term->last == term_->last; }

bool Roster::is_told() const { return !term_ || (is_counted_ && !awaits_answers()); }

/// Whether the connected nodes may go on without the others.
bool Roster::has_votes() const {
  if (!term_) return true;
  Votes votes(*term_);
  for (const Node& node : nodes_) {
    if (node.connection && node.term) votes.count(*node.term);
    const bool stands_for_hub = node.connection && !node.hello.term && rules_.old_hub == index_of(node);
    if (stands_for_hub && first_term_) votes.count_hub_of(*first_term_);
  }
  return votes.suffice();
}

/// Whether the nodes that stay will have the votes, once the last count is settled. Those that are about to
/// go help with that, because they answer before they end: this hub above all.
bool Roster::will_have_votes() const {
  if (!term_) return true;
  KnownTerm settled = *term_;
  settled.before.reset();
  Votes all(*term_), staying(settled);
  for (const Node& node : nodes_) {
    if (!node.connection) continue;
    const KnownTerm known = index_of(node) == own_ ? *term_ : heard(node.term, ballot(node));
    all.count(known);
    if (!members_.all()[index_of(node)].is_gone()) staying.count(known);
  }
  return all.suffice() && staying.suffice();
}

/// The voters that are connected, and have heard the last term: those of that one, or of the one before.
unsigned Roster::voters_here(bool KnownTerm::* is_voter) const {
  return static_cast<unsigned>(std::ranges::count_if(nodes_, [&](const Node& node) {
    return node.connection && has_heard(node) && (*node.term).*is_voter;
  }));
}

/// Whether nodes with a rank that this hub does not know may still come.
bool Roster::awaits_voters(Time now) const {
  return term_ && now < enough_at_ + rules_.spares && voters_here(&KnownTerm::votes) < rules_.to_come;
}

/// Begins a term. All nodes that are connected, or about to come back, vote from now on.
void Roster::begin_term() {
  Ballot next{.term = {.number = term() + 1, .hub = own().hello.instance}, .votes = true};
  if (term_) next.before = term_->last;
  std::vector<unsigned> kept;
  unanswered_.clear();
  for (Node& node : nodes_) {
    if (node.connection && index_of(node) != own_) unanswered_.insert(index_of(node));
    node.votes = node.connection || (node.votes && node.lost_at != Time::max());
    next.term.voters += node.votes ? 1 : 0;
    if (node.votes && term_ && has_heard(node) && node.term->votes) kept.push_back(index_of(node));
  }
  next.kept = outcome::to_ranges(std::move(kept));
  term_ = heard(term_, next);
  term_->led = true;
  own().term = term_;
}

void Roster::count_voters() {
  begin_term();
  tell_voters();
  settle();
}

/// Counts again while the job runs, because members come and go, and the next hub must not need the votes of
/// those that are gone.
void Roster::count_voters_again() {
  const auto is_counted = [](const Node& node) {
    return node.connection ? node.votes : !node.votes || node.lost_at != Time::max();
  };
  const auto is_ending = [](const Node& node) { return node.done.has_value(); };
  if (!term_ || term_->before || std::ranges::all_of(nodes_, is_counted) ||
      std::ranges::any_of(nodes_, is_ending) || !has_votes())
    return;
  count_voters();
}

Ballot Roster::ballot(const Node& node) const {
  return {.term = term_->last, .before = term_->before, .kept = term_->kept, .votes = node.votes};
}

void Roster::tell_voters() {
  const std::vector<ListenAddress> all = launched() ? candidates() : std::vector<ListenAddress>();
  for (const Node& node : nodes_)
    if (node.connection) send(*node.connection, Voters{ballot(node), all});
}

/// Tells a node that has joined the meeting about the term. It votes if it was counted, as the instance that
/// it is or as a voter of the previous term.
void Roster::tell_of_term(Node& node, bool is_same) {
  if (has_heard(node)) {
    unanswered_.erase(index_of(node));
    node.votes = node.term->votes;
    return;
  }
  unanswered_.insert(index_of(node));
  node.votes = (is_same && node.votes) || is_kept(node.term, index_of(node), *term_);
  if (is_counted_ || term_->before) send(*node.connection, Voters{ballot(node), {}});
}

void Roster::heard_by(Node& node, unsigned number) {
  if (number != term() || has_heard(node)) return;
  node.term = heard(node.term, ballot(node));
  unanswered_.erase(index_of(node));
}

/// Drops the previous term once enough nodes have heard the current one. tick() checks that, not each answer,
/// because it looks at every node.
void Roster::settle() {
  if (!term_ || !term_->before || !has_votes()) return;
  term_->before.reset();
  term_->kept.clear();
  own().term = term_;
  if (launched()) tell_voters();
}

/// Where to find the hub and its successors: the nodes that train, by rank, and then the spares.
std::vector<ListenAddress> Roster::candidates() const {
  std::vector<const Node*> nodes;
  for (const Node& node : nodes_)
    if (node.connection && node.hello.listen_port != 0) nodes.push_back(&node);
  std::ranges::sort(nodes, {}, [this](const Node* node) {
    return std::tuple(node != &own(), !node->trains(), node->go.rank.value_or(0), node);
  });
  std::vector<ListenAddress> candidates;
  for (const Node* node : nodes | std::views::take(most_successors + 1))
    candidates.push_back(
        {.index = index_of(*node), .address = node->hello.seen, .port = node->hello.listen_port});
  return candidates;
}

/// The nodes that have not answered the count yet.
Few<NodeName> Roster::unanswered() const {
  Few<NodeName> silent;
  if (!awaits_answers()) return silent;
  for (const unsigned index : unanswered_) silent.add(name_of(nodes_[index].hello));
  return silent;
}

/// How many voters are here; nullopt if they are enough.
std::optional<LackingVotes> Roster::lacking_votes() const {
  if (has_votes()) return std::nullopt;
  const unsigned here = voters_here(&KnownTerm::votes);
  const bool is_before = term_->before && 2 * here > term_->last.voters;
  if (is_before) return LackingVotes{.here = voters_here(&KnownTerm::voted), .all = term_->before->voters};
  return LackingVotes{.here = here, .all = term_->last.voters, .counted = is_counted_};
}

}  // namespace rankshim::link
