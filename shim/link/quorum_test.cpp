#include "link/quorum.h"

#include <catch2/catch.hpp>
#include <map>
#include <random>
#include <vector>

#include "base/text.h"

namespace rankshim::link {
namespace {

using Group = std::vector<KnownTerm>;

/// What a voter of the term knows.
KnownTerm voter_of(const Term& term, bool led = false) { return {.last = term, .votes = true, .led = led}; }

bool may_go_on(const KnownTerm& of_hub, const Group& group) {
  Votes votes(of_hub);
  for (const KnownTerm& member : group) votes.count(member);
  return votes.suffice();
}

TEST_CASE("more than half of the voters are a quorum, and exactly half only with their hub", "[link]") {
  const Term term{.number = 1, .hub = "a", .voters = 4};
  const KnownTerm hub = voter_of(term, true), other = voter_of(term), late{.last = term};
  CHECK(may_go_on(other, {other, other, other}));
  CHECK(may_go_on(hub, {hub, other}));
  CHECK_FALSE(may_go_on(other, {other, other}));
  CHECK_FALSE(may_go_on(hub, {hub, late, late, late}));
  const Term two{.number = 1, .hub = "a", .voters = 2};
  CHECK(may_go_on(voter_of(two, true), {voter_of(two, true)}));
  CHECK_FALSE(may_go_on(voter_of(two), {voter_of(two)}));
  Votes replaced(other);
  replaced.count(other);
  replaced.count(other);
  replaced.count_hub_of(term);
  CHECK(replaced.suffice());
}

TEST_CASE("a member that has not heard of the last term does not count", "[link]") {
  const Term first{.number = 1, .hub = "a", .voters = 3}, second{.number = 2, .hub = "a", .voters = 3};
  const KnownTerm hub = heard(voter_of(first), {.term = second, .votes = true});
  CHECK(may_go_on(hub, {hub, hub}));
  CHECK_FALSE(may_go_on(hub, {hub, voter_of(first), voter_of(first)}));
}

TEST_CASE("as long as a term may not be known to a quorum, that of the one before is needed too", "[link]") {
  const Term first{.number = 1, .hub = "a", .voters = 3}, second{.number = 2, .hub = "a", .voters = 5};
  const Ballot told{.term = second, .before = first, .votes = true};
  const KnownTerm hub = heard(voter_of(first, true), told), old = heard(voter_of(first), told),
                  late = heard({}, told);
  CHECK(may_go_on(hub, {hub, old, late}));
  CHECK_FALSE(may_go_on(hub, {hub, late, late}));
  KnownTerm settled = late;
  settled.before.reset();
  CHECK(may_go_on(settled, {settled, late, late}));
}

TEST_CASE("what a member knows of its vote in the term before stays as it is when it is told again",
          "[link]") {
  const Term first{.number = 1, .hub = "a", .voters = 3}, second{.number = 2, .hub = "a", .voters = 5};
  const Ballot told{.term = second, .before = first, .votes = true};
  const KnownTerm again = heard(heard(voter_of(first, true), told), told);
  CHECK((again.voted && again.led_before));
  CHECK_FALSE(heard(voter_of(first), told).led_before);
  CHECK_FALSE(heard(KnownTerm{.last = first}, told).voted);
}

TEST_CASE("a hub that has ended stands for its own term alone, the last or the one before", "[link]") {
  const Term first{.number = 1, .hub = "a", .voters = 2}, second{.number = 2, .hub = "b", .voters = 2};
  const Term other{.number = 1, .hub = "c", .voters = 2};
  const KnownTerm next = heard(voter_of(first), {.term = second, .before = first, .votes = true});
  const auto suffices = [&next](const std::vector<Term>& stands_for) {
    Votes votes(next);
    votes.count(next);
    for (const Term& term : stands_for) votes.count_hub_of(term);
    return votes.suffice();
  };
  CHECK(suffices({first, second}));
  CHECK_FALSE(suffices({first, other}));
  CHECK_FALSE(suffices({second, other}));
}

TEST_CASE("of a member that knows only the term before, a hub knows whether it was counted", "[link]") {
  const Term first{.number = 1, .hub = "a", .voters = 3}, second{.number = 2, .hub = "a", .voters = 5};
  const KnownTerm hub =
      heard(voter_of(first), {.term = second, .before = first, .kept = {{0, 1}, {3, 3}}, .votes = true});
  CHECK(is_kept(voter_of(first), 1, hub));
  CHECK(is_kept(voter_of(first), 3, hub));
  CHECK_FALSE(is_kept(voter_of(first), 2, hub));
  CHECK_FALSE(is_kept(std::nullopt, 1, hub));
  CHECK_FALSE(is_kept(KnownTerm{.last = first}, 1, hub));
  CHECK_FALSE(is_kept(voter_of({.number = 1, .hub = "b", .voters = 3}), 1, hub));
  CHECK_FALSE(is_kept(voter_of(first), 1, heard(hub, {.term = second, .votes = true})));
}

TEST_CASE("a member counts for a hub that knows as much, and never for another go of the same number",
          "[link]") {
  const Term third{.number = 3, .hub = "a", .voters = 3};
  const KnownTerm known = voter_of(third);
  CHECK(accepts({}, third));
  CHECK(accepts(known, third));
  CHECK(accepts(known, {.number = 4, .hub = "b", .voters = 3}));
  CHECK_FALSE(accepts(known, {.number = 3, .hub = "b", .voters = 3}));
  CHECK_FALSE(accepts(known, {.number = 2, .hub = "a", .voters = 3}));
}

/// A job in a network that is cut again and again, with messages that do not arrive, members that come late,
/// and containers that are started anew, some while the one before still runs.
class CutJob {
 public:
  explicit CutJob(std::mt19937& random) : random_(random), last_(between(1, 5)) {
    const Term first{.number = 1, .hub = "0", .voters = last_ + 1};
    for (unsigned id = 0; id <= last_; ++id) {
      members_[id].index = id;
      if (id == 0 || happens(80)) members_[id].known = voter_of(first, id == 0);
    }
  }

  /// Cuts the network into two or three parts. In how many of them could somebody launch?
  unsigned cut() {
    change_members();
    parts_.assign(static_cast<std::size_t>(between(2, 3)), {});
    for (const auto& [id, member] : members_)
      parts_[between(1, static_cast<unsigned>(parts_.size())) - 1].push_back(id);
    unsigned count = 0;
    for (const auto& part : parts_) count += could_launch(part) ? 1 : 0;
    return count;
  }
  /// In each part somebody tries to.
  void try_to_launch() {
    for (const auto& part : parts_)
      if (!part.empty())
        lead(members_, part[between(0, static_cast<unsigned>(part.size()) - 1)], part, false);
  }

 private:
  struct Member {
    unsigned index = 0;
    std::optional<KnownTerm> known;
  };
  using Members = std::map<unsigned, Member>;  // by a number of each container

  unsigned between(unsigned least, unsigned most) { return least + random_() % (most - least + 1); }
  bool happens(unsigned percent) { return random_() % 100 < percent; }

  void change_members() {
    std::vector<unsigned> indices;
    for (const auto& [id, member] : members_) {
      if (happens(6)) indices.push_back(member.index);
      if (happens(3)) indices.push_back(member.index);  // it may still run
    }
    std::erase_if(members_,
                  [&](const auto& member) { return contains(indices, member.second.index) && happens(80); });
    if (happens(50)) indices.push_back(100 + last_);
    for (const unsigned index : indices) members_[++last_].index = index;
  }

  bool could_launch(const std::vector<unsigned>& part) {
    return std::ranges::any_of(part, [&](unsigned hub) {
      Members after = members_;
      return lead(after, hub, part, true);
    });
  }

  /// Tells those that have come of a term. Returns who is with the hub after that, as far as it hears.
  Votes tell(Members& members, unsigned hub, const std::vector<unsigned>& come, const Ballot& ballot,
             const auto& votes, bool is_sure) {
    std::vector<unsigned> answered;
    for (const unsigned id : come) {
      std::optional<KnownTerm>& known = members[id].known;
      const bool knows = known && known->last == ballot.term;
      if (!knows) {
        if (!is_sure && !happens(70)) continue;
        Ballot told = ballot;
        told.votes = votes(members[id]);
        known = heard(known, told);
      }
      if (is_sure || id == hub || happens(90)) answered.push_back(id);
    }
    Votes with_it(*members[hub].known);
    for (const unsigned id : answered) with_it.count(*members[id].known);
    return with_it;
  }

  /// The hub settles the last term that it knows, counts those that it reaches, and launches if they have
  /// heard that; some hear, and some answers come. `is_sure`: all do.
  bool lead(Members& members, unsigned hub, const std::vector<unsigned>& part, bool is_sure) {
    KnownTerm* own = members[hub].known ? &*members[hub].known : nullptr;
    if (own == nullptr) return false;
    std::map<unsigned, unsigned> by_index{{members[hub].index, hub}};  // of two with one the newer one counts
    for (const unsigned id : part)
      if (id != hub && members[id].index != members[hub].index && accepts(members[id].known, own->last) &&
          (is_sure || happens(85)))
        by_index[members[id].index] = id;
    std::vector<unsigned> come;
    for (const auto& [index, id] : by_index) come.push_back(id);
    if (own->before) {
      const KnownTerm last = *own;
      const auto votes = [&](const Member& member) { return is_kept(member.known, member.index, last); };
      const Ballot again{.term = last.last, .before = last.before, .kept = last.kept};
      if (!tell(members, hub, come, again, votes, is_sure).suffice()) return false;
      own->before.reset();
      own->kept.clear();
    } else {
      Votes votes(*own);
      for (const unsigned id : come)
        if (members[id].known) votes.count(*members[id].known);
      if (!votes.suffice()) return false;
    }
    Ballot next{.term = {.number = own->last.number + 1,
                         .hub = std::to_string(hub) + "," + std::to_string(random_()),
                         .voters = static_cast<unsigned>(come.size())},
                .before = own->last};
    std::vector<unsigned> kept;
    for (const unsigned id : come) {
      const auto& known = members[id].known;
      if (known && known->last == own->last && known->votes) kept.push_back(members[id].index);
    }
    next.kept = outcome::to_ranges(kept);
    next.votes = true;
    *own = heard(*own, next);
    own->led = true;
    if (!tell(members, hub, come, next, [](const Member&) { return true; }, is_sure).suffice()) return false;
    for (const unsigned id : come) {
      std::optional<KnownTerm>& known = members[id].known;
      if (!known || known->last != next.term || (id != hub && !happens(60))) continue;
      known->before.reset();
      known->kept.clear();
    }
    return true;
  }

  std::mt19937& random_;
  unsigned last_;
  Members members_;
  std::vector<std::vector<unsigned>> parts_;
};

void cut_apart(unsigned jobs) {
  constexpr unsigned cuts = 5;
  std::mt19937 random(52);  // NOLINT: the same cuts each time
  unsigned split = 0, went_on = 0;
  for (unsigned job = 0; job < jobs; ++job) {
    CutJob cut_job(random);
    for (unsigned cut = 0; cut < cuts; ++cut) {
      const unsigned parts = cut_job.cut();
      split += parts > 1 ? 1 : 0;
      went_on += parts;
      cut_job.try_to_launch();
    }
  }
  CHECK(split == 0);
  CHECK(went_on > jobs * cuts / 3);  // it is no rule that nobody can follow
}

TEST_CASE("of a job that is cut apart 20,000 times never two parts go on", "[link]") { cut_apart(4'000); }

TEST_CASE("nor of one that is cut apart 200,000 times", "[.][nightly]") { cut_apart(40'000); }

}  // namespace
}  // namespace rankshim::link
