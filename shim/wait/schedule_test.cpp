#include "wait/schedule.h"

#include <catch2/catch.hpp>

#include "wait/questions_for_test.h"

namespace rankshim::wait {
namespace {

using namespace std::chrono_literals;
using Duration = Schedule::Duration;

constexpr double middle = 0.5;

TEST_CASE("the interval between looks grows with the time waited, and is never below a node's share") {
  struct Row {
    unsigned nodes;
    Duration waited;
    Duration expected;
  };
  for (const Row& row : {
           Row{1, 0s, 100ms},
           Row{2, 5s, 100ms},
           Row{2, 10s, 200ms},
           Row{64, 0s, 100ms},
           Row{64, 40s, 800ms},
           Row{64, 600s, 2s},
           Row{256, 0s, 307'200us},
           Row{256, 30s, 600ms},
           Row{256, 600s, 2s},
           Row{1024, 0s, 1'228'800us},
           Row{4096, 0s, 4'915'200us},
           Row{4096, 600s, 4'915'200us},
           Row{16384, 600s, 19'660'800us},
       }) {
    CAPTURE(row.nodes, row.waited.count());
    CHECK(Schedule({}, row.nodes).between_looks(row.waited, middle) == row.expected);
  }
}

TEST_CASE("a cached denial is slept out, up to the longest interval") {
  struct Row {
    unsigned nodes;
    Duration waited;
    Duration valid_for;
    Duration expected;
  };
  for (const Row& row : {Row{2, 0s, 1s, 1s}, Row{2, 0s, 29s, 2s}, Row{2, 600s, 29s, 2s},
                         Row{256, 0s, 29s, 2s}, Row{4096, 0s, 1s, 4'915'200us}}) {
    CAPTURE(row.nodes, row.waited.count(), row.valid_for.count());
    CHECK(Schedule({}, row.nodes).between_looks(row.waited, middle, row.valid_for) == row.expected);
  }
}

TEST_CASE("chance changes an interval by half, so that many nodes do not come in waves") {
  const Schedule schedule({}, 2);
  CHECK(schedule.between_looks(0s, 0) == 50ms);
  CHECK(schedule.between_looks(0s, 1) == 150ms);
}

TEST_CASE("the first looks and searches are spread over a time that grows with the nodes") {
  CHECK(Schedule({}, 2).before_first_look(1) == 1'760us);
  CHECK(Schedule({}, 2).before_first_search(4, 1) == 0s);
  CHECK(Schedule({}, 1000).before_first_look(1) == 880ms);
  CHECK(Schedule({}, 4096).before_first_look(1) == 3'604'480us);
  CHECK(Schedule({}, 4096).before_first_look(0.25) == 901'120us);
  CHECK(Schedule({}, 4096).before_first_look(0) == 0s);
  CHECK(Schedule({}, 4096).before_first_search(4, 1) == Schedule({}, 4096).between_searches(4));
  CHECK(Schedule({}, 4096).before_first_search(4, 0) == 0s);
}

TEST_CASE("the whole search list is asked for every 5 s, and less often by many nodes") {
  CHECK(Schedule({}, 64).between_searches(4) == 5s);
  CHECK(Schedule({}, 256).between_searches(4) == 5s);
  CHECK(Schedule({}, 4096).between_searches(4) == 52'428'800us);
  CHECK(Schedule({}, 4096).between_searches(1) == 13'107'200us);
  CHECK(Schedule({}, 64).between_checks(5s) == 5s);
  CHECK(Schedule({}, 4096).between_checks(5s) == 16'384ms);
}

TEST_CASE("many nodes that start at one moment ask fewer than 2,500 questions in any second") {
  for (const unsigned nodes : {2U, 64U, 256U, 1024U, 4096U, 16384U}) {
    for (const auto there : {0s, 120s}) {
      CAPTURE(nodes, there.count());
      CHECK(test::simulate_questions(nodes, there).most() < 2500);
    }
  }
}

}  // namespace
}  // namespace rankshim::wait
