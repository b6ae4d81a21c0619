#include "link/quorum.h"

#include <catch2/catch.hpp>
#include <map>
#include <random>

namespace rankshim::link {
namespace {

using Group = std::vector<MemberId>;

TEST_CASE("more than half of the voters are a quorum, and exactly half only with their hub", "[link]") {
  const Term term{.attempt = 0, .hub = 0, .voters = {0, 1, 2, 3}};
  CHECK(is_quorum(term, Group{1, 2, 3}));
  CHECK(is_quorum(term, Group{0, 3}));
  CHECK_FALSE(is_quorum(term, Group{1, 2}));
  CHECK_FALSE(is_quorum(term, Group{0, 7, 8, 9}));
  const Term two{.attempt = 0, .hub = 0, .voters = {0, 1}};
  CHECK(is_quorum(two, Group{0}));
  CHECK_FALSE(is_quorum(two, Group{1}));
}

TEST_CASE("as long as a go may not be known to a quorum, that of the one before is needed too", "[link]") {
  const Term first{.attempt = 0, .hub = 0, .voters = {0, 1, 2}};
  const Term second{.attempt = 1, .hub = 0, .voters = {0, 1, 2, 3, 4}};
  CHECK(may_go_on({.last = second, .before = {}}, Group{0, 3, 4}));
  CHECK_FALSE(may_go_on({.last = second, .before = first}, Group{0, 3, 4}));
  CHECK(may_go_on({.last = second, .before = first}, Group{0, 1, 4}));
}

TEST_CASE("a member accepts a later go, and never another one of the same attempt", "[link]") {
  const KnownTerm known{.last = {.attempt = 3, .hub = 1, .voters = {}}, .before = {}};
  CHECK(accepts({}, known));
  CHECK(accepts(known, known));
  CHECK(accepts(known, {.last = {.attempt = 4, .hub = 2, .voters = {}}, .before = {}}));
  CHECK_FALSE(accepts(known, {.last = {.attempt = 3, .hub = 2, .voters = {}}, .before = {}}));
  CHECK_FALSE(accepts(known, {.last = {.attempt = 2, .hub = 1, .voters = {}}, .before = {}}));
}

TEST_CASE("the successors are voters, those that train first, and at most 8", "[link]") {
  const Term term{.attempt = 2, .hub = 4, .voters = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11}};
  CHECK(successors(term, Group{4, 2, 10, 0, 11}) == Group{2, 0, 11});
  CHECK(successors(term, Group{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}).size() == 8);
}

/// A job in a network that is cut again and again, with messages that do not arrive, members that come late
/// and containers that are started anew.
class CutJob {
 public:
  explicit CutJob(std::mt19937& random) : random_(random), last_(between(1, 5)) {
    KnownTerm first{.last = {.attempt = 0, .hub = 0, .voters = {}}, .before = {}};
    for (MemberId member = 0; member <= last_; ++member) first.last.voters.push_back(member);
    for (const MemberId member : first.last.voters)
      members_[member] = member == 0 || happens(80) ? std::optional(first) : std::nullopt;
  }

  /// Cuts the network into two or three parts. In how many of them could somebody go on?
  unsigned cut() {
    change_members();
    parts_.assign(static_cast<std::size_t>(between(2, 3)), {});
    for (const auto& [member, known] : members_)
      parts_[between(1, static_cast<unsigned>(parts_.size())) - 1].push_back(member);
    unsigned count = 0;
    for (const Group& part : parts_) count += could_go_on(part) ? 1 : 0;
    return count;
  }
  /// In each part somebody tries to.
  void try_to_go_on() {
    for (const Group& part : parts_)
      if (!part.empty()) lead(part[between(0, static_cast<unsigned>(part.size()) - 1)], part);
  }

 private:
  unsigned between(unsigned least, unsigned most) { return least + random_() % (most - least + 1); }
  bool happens(unsigned percent) { return random_() % 100 < percent; }

  void change_members() {
    std::vector<MemberId> ended;
    for (const auto& [member, known] : members_)
      if (happens(6)) ended.push_back(member);
    for (const MemberId member : ended) members_.erase(member);
    const unsigned come = static_cast<unsigned>(ended.size()) + between(0, 1);
    for (unsigned count = 0; count < come; ++count) members_[++last_] = std::nullopt;
  }

  /// Those of the part that would count for that hub, if it reached all of them.
  Group followers(const KnownTerm& of_hub, const Group& part) const {
    Group all;
    for (const MemberId member : part)
      if (accepts(members_.at(member), of_hub)) all.push_back(member);
    return all;
  }
  bool could_go_on(const Group& part) const {
    return std::ranges::any_of(part, [&](MemberId hub) {
      const auto& known = members_.at(hub);
      return known && may_go_on(*known, followers(*known, part));
    });
  }

  /// The hub tells what it knows to those that it reaches, counts them, and says the next go, which some
  /// hear.
  void lead(MemberId hub, const Group& part) {
    if (!members_[hub]) return;
    KnownTerm known = *members_[hub];
    Group group;
    for (const MemberId member : followers(known, part)) {
      if (member != hub && !happens(85)) continue;
      if (member != hub) members_[member] = known;
      if (member == hub || happens(95)) group.push_back(member);  // the hub hears that
    }
    if (!may_go_on(known, group)) return;
    const KnownTerm next{.last = {.attempt = known.last.attempt + 1, .hub = hub, .voters = group},
                         .before = known.last};
    Group heard{hub}, answered{hub};
    members_[hub] = next;
    for (const MemberId member : group) {
      if (member == hub || !happens(70)) continue;
      members_[member] = next;
      heard.push_back(member);
      if (happens(90)) answered.push_back(member);
    }
    if (!is_quorum(next.last, answered) || !is_quorum(known.last, answered)) return;
    for (const MemberId member : heard)
      if (member == hub || happens(60)) members_[member]->before.reset();
  }

  std::mt19937& random_;
  MemberId last_;
  std::map<MemberId, std::optional<KnownTerm>> members_;
  std::vector<Group> parts_;
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
