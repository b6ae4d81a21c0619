#include "link/quorum.h"

#include <catch2/catch.hpp>
#include <map>
#include <random>
#include <vector>

namespace rankshim::link {
namespace {

using Group = std::vector<KnownTerm>;

/// What a voter of the term knows.
KnownTerm voter_of(const Term& term, bool said = false) {
  return {.last = term, .votes = true, .said = said};
}

TEST_CASE("more than half of the voters are a quorum, and exactly half only with their hub", "[link]") {
  const Term term{.number = 1, .hub = "a", .voters = 4};
  const KnownTerm hub = voter_of(term, true), other = voter_of(term), late{.last = term};
  CHECK(may_go_on(other, Group{other, other, other}));
  CHECK(may_go_on(hub, Group{hub, other}));
  CHECK_FALSE(may_go_on(other, Group{other, other}));
  CHECK_FALSE(may_go_on(hub, Group{hub, late, late, late}));
  const Term two{.number = 1, .hub = "a", .voters = 2};
  CHECK(may_go_on(voter_of(two, true), Group{voter_of(two, true)}));
  CHECK_FALSE(may_go_on(voter_of(two), Group{voter_of(two)}));
}

TEST_CASE("who has not heard the last go does not count", "[link]") {
  const Term first{.number = 1, .hub = "a", .voters = 3}, second{.number = 2, .hub = "a", .voters = 3};
  const KnownTerm hub = heard(voter_of(first), second, {}, true);
  CHECK(may_go_on(hub, Group{hub, hub}));
  CHECK_FALSE(may_go_on(hub, Group{hub, voter_of(first), voter_of(first)}));
}

TEST_CASE("as long as a go may not be known to a quorum, that of the one before is needed too", "[link]") {
  const Term first{.number = 1, .hub = "a", .voters = 3}, second{.number = 2, .hub = "a", .voters = 5};
  const KnownTerm hub = heard(voter_of(first, true), second, first, true);
  const KnownTerm old = heard(voter_of(first), second, first, true), late = heard({}, second, first, true);
  CHECK(may_go_on(hub, Group{hub, old, late}));
  CHECK_FALSE(may_go_on(hub, Group{hub, late, late}));
  KnownTerm settled = late;
  settled.before.reset();
  CHECK(may_go_on(settled, Group{settled, late, late}));
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

/// A job in a network that is cut again and again, with messages that do not arrive, members that come late
/// and containers that are started anew.
class CutJob {
 public:
  explicit CutJob(std::mt19937& random) : random_(random), last_(between(1, 5)) {
    const Term first{.number = 1, .hub = "0", .voters = last_ + 1};
    for (Member member = 0; member <= last_; ++member)
      if (member == 0 || happens(80))
        members_[member] = voter_of(first, member == 0);
      else
        members_[member] = std::nullopt;
  }

  /// Cuts the network into two or three parts. In how many of them could somebody go on?
  unsigned cut() {
    change_members();
    parts_.assign(static_cast<std::size_t>(between(2, 3)), {});
    for (const auto& [member, known] : members_)
      parts_[between(1, static_cast<unsigned>(parts_.size())) - 1].push_back(member);
    unsigned count = 0;
    for (const auto& part : parts_) count += could_go_on(part) ? 1 : 0;
    return count;
  }
  /// In each part somebody tries to.
  void try_to_go_on() {
    for (const auto& part : parts_)
      if (!part.empty()) lead(part[between(0, static_cast<unsigned>(part.size()) - 1)], part);
  }

 private:
  using Member = unsigned;

  unsigned between(unsigned least, unsigned most) { return least + random_() % (most - least + 1); }
  bool happens(unsigned percent) { return random_() % 100 < percent; }

  void change_members() {
    std::vector<Member> ended;
    for (const auto& [member, known] : members_)
      if (happens(6)) ended.push_back(member);
    for (const Member member : ended) members_.erase(member);
    const unsigned come = static_cast<unsigned>(ended.size()) + between(0, 1);
    for (unsigned count = 0; count < come; ++count) members_[++last_] = std::nullopt;
  }

  /// What those know that would come to this hub.
  [[nodiscard]] Group known_to(const KnownTerm& hub, const std::vector<Member>& part) const {
    Group group;
    for (const Member member : part)
      if (const auto& known = members_.at(member); known && accepts(known, hub.last)) group.push_back(*known);
    return group;
  }
  [[nodiscard]] bool could_go_on(const std::vector<Member>& part) const {
    return std::ranges::any_of(part, [&](Member hub) {
      const auto& known = members_.at(hub);
      return known && may_go_on(*known, known_to(*known, part));
    });
  }

  /// The hub counts those that it reaches, and says the next go, or counts the voters again; some hear that.
  void lead(Member hub, const std::vector<Member>& part) {
    if (!members_[hub]) return;
    const KnownTerm known = *members_[hub];
    std::vector<Member> come;
    Group group;
    for (const Member member : part) {
      if (!accepts(members_[member], known.last) || (member != hub && !happens(85))) continue;
      come.push_back(member);
      if (members_[member]) group.push_back(*members_[member]);
    }
    if (!may_go_on(known, group)) return;
    const Term next{.number = known.last.number + 1,
                    .hub = std::to_string(hub) + "," + std::to_string(random_()),
                    .voters = static_cast<unsigned>(come.size())};
    std::vector<Member> hear{hub};
    Group answered;
    for (const Member member : come) {
      if (member != hub && !happens(70)) continue;
      if (member != hub) hear.push_back(member);
      members_[member] = heard(members_[member], next, known.last, true);
      members_[member]->said = member == hub;
      if (member == hub || happens(90)) answered.push_back(*members_[member]);
    }
    if (!may_go_on(*members_[hub], answered)) return;
    for (const Member member : hear)
      if (member == hub || happens(60)) members_[member]->before.reset();
  }

  std::mt19937& random_;
  Member last_;
  std::map<Member, std::optional<KnownTerm>> members_;
  std::vector<std::vector<Member>> parts_;
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
      cut_job.try_to_go_on();
    }
  }
  CHECK(split == 0);
  CHECK(went_on > jobs * cuts / 3);  // it is no rule that nobody can follow
}

TEST_CASE("of a job that is cut apart 20,000 times never two parts go on", "[link]") { cut_apart(4'000); }

TEST_CASE("nor of one that is cut apart 200,000 times", "[.][nightly]") { cut_apart(40'000); }

}  // namespace
}  // namespace rankshim::link
