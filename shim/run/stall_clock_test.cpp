#include "run/stall_clock.h"

#include <catch2/catch.hpp>

namespace rankshim::run {
namespace {

using namespace std::chrono_literals;
using Workers = std::map<unsigned, Collectives>;

/// Three ranks have ended that many collectives, and rank 1 alone is not in the next one.
Workers waiting_for_1(std::uint64_t ended) {
  return {{0, {ended + 1, ended}}, {1, {ended, ended}}, {2, {ended + 1, ended}}};
}

const StallClock::Time begin_of_job{1h};

TEST_CASE("a job whose numbers move never stands still") {
  StallClock clock({.notice = 5min, .timeout = 15min}, begin_of_job);
  auto now = begin_of_job;
  for (unsigned step = 0; step < 100; ++step) {
    now = clock.next();
    CHECK_FALSE(clock.saw(waiting_for_1(step), now));
    CHECK(clock.stalled(now) == 0min);
    CHECK_FALSE(clock.notices(now));
    CHECK_FALSE(clock.ends(now, false));
  }
}

TEST_CASE("before a number has moved, a job does not stand still") {
  StallClock clock({.notice = 5min, .timeout = 15min}, begin_of_job);
  for (auto now = clock.next(); now < begin_of_job + 2h; now = clock.next()) {
    clock.saw(waiting_for_1(3), now);
    CHECK(clock.stalled(now) == 0min);
  }
}

TEST_CASE("that further ranks wait in their first collective is no progress") {
  StallClock clock({.notice = 5min, .timeout = 15min}, begin_of_job);
  clock.saw({{1, {.entered = 1}}}, begin_of_job + 20s);
  clock.saw({{1, {.entered = 1}}, {2, {.entered = 1}}}, begin_of_job + 1min);
  CHECK(clock.stalled(begin_of_job + 2h) == 0min);
}

TEST_CASE("a notice comes after its time, then after twice, four and eight times that") {
  StallClock clock({.notice = 5min}, begin_of_job);
  clock.saw(waiting_for_1(3), begin_of_job + 20s);
  clock.saw(waiting_for_1(4), begin_of_job + 1min);
  std::vector<std::chrono::minutes> notices;
  for (auto now = clock.next(); now < begin_of_job + 2h; now = clock.next()) {
    clock.saw(waiting_for_1(4), now);
    if (!clock.notices(now)) continue;
    notices.push_back(std::chrono::duration_cast<std::chrono::minutes>(clock.stalled(now)));
    clock.noticed();
    CHECK_FALSE(clock.ends(now, false));
  }
  REQUIRE(notices.size() == 5);
  for (std::size_t i = 0; i < notices.size(); ++i) {
    const auto wanted = 5min * (1 << i);
    CHECK(notices[i] >= wanted);
    CHECK(notices[i] < wanted + 5min);
  }
}

TEST_CASE("a job that goes on says how long it stood still, if that was noticed") {
  StallClock clock({.notice = 5min}, begin_of_job);
  clock.saw(waiting_for_1(3), begin_of_job + 20s);
  clock.saw(waiting_for_1(4), begin_of_job + 1min);
  CHECK_FALSE(clock.saw(waiting_for_1(5), begin_of_job + 7min));  // nobody was told
  clock.saw(waiting_for_1(5), begin_of_job + 13min);
  REQUIRE(clock.notices(begin_of_job + 13min));
  clock.noticed();
  CHECK(clock.saw(waiting_for_1(6), begin_of_job + 15min) == 8min);
  CHECK_FALSE(clock.saw(waiting_for_1(7), begin_of_job + 20min));
}

TEST_CASE("a job does not go on because a rank ends, or does not answer for a moment") {
  StallClock clock({.notice = 5min}, begin_of_job);
  clock.saw(waiting_for_1(3), begin_of_job + 20s);
  clock.saw(waiting_for_1(4), begin_of_job + 1min);
  clock.noticed();
  Workers fewer = waiting_for_1(4);
  fewer.erase(2);
  CHECK_FALSE(clock.saw(fewer, begin_of_job + 7min));
  CHECK_FALSE(clock.saw(waiting_for_1(4), begin_of_job + 8min));
  CHECK_FALSE(clock.saw({}, begin_of_job + 9min));
  CHECK(clock.stalled(begin_of_job + 9min) == 8min);
}

TEST_CASE("a job ends after its time, and after four times that if who is waited for works") {
  StallClock clock({.timeout = 15min}, begin_of_job);
  clock.saw(waiting_for_1(3), begin_of_job + 20s);
  clock.saw(waiting_for_1(4), begin_of_job + 1min);
  CHECK_FALSE(clock.notices(begin_of_job + 3h));
  CHECK_FALSE(clock.ends(begin_of_job + 15min, false));
  CHECK(clock.ends(begin_of_job + 16min, false));
  CHECK_FALSE(clock.ends(begin_of_job + 60min, true));
  CHECK(clock.ends(begin_of_job + 61min, true));
}

TEST_CASE("it looks soon at the beginning, then in the steps of its rules") {
  struct Row {
    StallClock::Rules rules;
    std::vector<std::chrono::milliseconds> pauses;
  };
  for (const Row& row : {Row{{.notice = 5min}, {20s, 40s, 80s, 160s, 5min, 5min}},
                         Row{{.notice = 5min, .timeout = 10min}, {20s, 40s, 80s, 2min, 2min}},
                         Row{{.timeout = 10s}, {2s, 2s}}}) {
    StallClock clock(row.rules, begin_of_job);
    REQUIRE(clock.is_on());
    auto before = begin_of_job;
    for (const auto pause : row.pauses) {
      CHECK(clock.next() - before == pause);
      before = clock.next();
      clock.saw({}, before);
    }
  }
  CHECK_FALSE(StallClock({}, begin_of_job).is_on());
}

TEST_CASE("a rank that is last in nine of ten looks is slow") {
  StallClock clock({.notice = 5min}, begin_of_job);
  std::uint64_t number = 0;
  const auto see = [&](const Workers& workers) { clock.saw(workers, begin_of_job + 1min * ++number); };
  for (unsigned look = 0; look < 8; ++look) see(waiting_for_1(number));
  CHECK(clock.stragglers().empty());
  see(waiting_for_1(number));
  CHECK(clock.stragglers() == std::vector<unsigned>{1});
  for (unsigned look = 0; look < 2; ++look) see({{0, {number, number}}, {1, {number + 1, number}}});
  CHECK(clock.stragglers().empty());
}

TEST_CASE("where most do not wait, nobody is last") {
  StallClock clock({.notice = 5min}, begin_of_job);
  for (unsigned look = 1; look <= 20; ++look)
    clock.saw({{0, {look, look}}, {1, {look, look}}, {2, {look + 1, look}}}, begin_of_job + 1min * look);
  CHECK(clock.stragglers().empty());
}

}  // namespace
}  // namespace rankshim::run
