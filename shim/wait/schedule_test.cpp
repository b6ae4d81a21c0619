#include "wait/schedule.h"

#include <catch2/catch.hpp>

#include "wait/questions_for_test.h"

namespace rankshim::wait {
namespace {

using namespace std::chrono_literals;
using Duration = Schedule::Duration;

constexpr double middle = 0.5;

TEST_CASE("the interval between looks grows with the time waited, and in a large job with its nodes") {
  struct Row {
    unsigned nodes;
    Duration waited;
    Duration expected;
  };
  for (const Row& row : {
           Row{1, 0s, 100ms},
           Row{2, 10s, 500ms},
           Row{64, 0s, 100ms},
           Row{64, 40s, 2s},
           Row{64, 600s, 2s},  // as ever
           Row{65, 0s, 100ms},
           Row{256, 0s, 307'200us},
           Row{256, 30s, 1'500ms},
           Row{256, 59s, 2s},
           Row{256, 60s, 3s},
           Row{256, 600s, 5s},
           Row{1024, 0s, 1'228'800us},
           Row{4096, 0s, 4'915'200us},
           Row{4096, 600s, 5s},
           Row{16384, 600s, 19'660'800us},
       }) {
    CAPTURE(row.nodes, row.waited.count());
    CHECK(Schedule({}, row.nodes).between_looks(row.waited, middle) == row.expected);
  }
}

TEST_CASE("a cached denial is slept out, up to the longest interval of the moment") {
  struct Row {
    unsigned nodes;
    Duration waited;
    Duration valid_for;
    Duration expected;
  };
  for (const Row& row :
       {Row{2, 0s, 1s, 1s}, Row{2, 0s, 29s, 2s}, Row{2, 600s, 29s, 2s}, Row{256, 0s, 29s, 2s},
        Row{256, 61s, 4s, 4s}, Row{256, 61s, 29s, 5s}, Row{4096, 0s, 1s, 4'915'200us}}) {
    CAPTURE(row.nodes, row.waited.count(), row.valid_for.count());
    CHECK(Schedule({}, row.nodes).between_looks(row.waited, middle, row.valid_for) == row.expected);
  }
}

TEST_CASE("chance changes an interval by a tenth, and by half where the nodes would come in waves") {
  const Schedule small({}, 64), large({}, 4096);
  CHECK(small.between_looks(0s, 0) == 90ms);
  CHECK(small.between_looks(0s, 1) == 110ms);
  CHECK(large.between_looks(0s, 0) == 2'457'600us);
  CHECK(large.between_looks(0s, 1) == 7'372'800us);
  CHECK(large.between_looks(600s, 1) == 5'500ms);
}

TEST_CASE("the first looks of a large job are spread, and its first searches over an interval") {
  CHECK(Schedule({}, 64).before_first_look(1) == 0s);
  CHECK(Schedule({}, 64).before_first_search(4, 1) == 0s);
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

TEST_CASE("looks that ask two questions and searches together stay below 2,500 questions in a second") {
  for (const unsigned nodes : {65U, 256U, 1024U, 4096U, 100'000U}) {
    const Schedule schedule({}, nodes);
    for (const Duration waited : {Duration(0), Duration(30s), Duration(600s)}) {
      CAPTURE(nodes, waited.count());
      const auto rate = [&](double questions, Duration interval) {
        return nodes * questions / std::chrono::duration<double>(interval).count();
      };
      CHECK(rate(2, schedule.between_looks(waited, middle)) + rate(8, schedule.between_searches(4)) < 2500);
    }
  }
}

TEST_CASE("many nodes that start at one moment ask fewer than 2,500 questions in any second") {
  for (const unsigned nodes : {256U, 1024U, 4096U}) {
    for (const auto there : {0s, 120s}) {
      CAPTURE(nodes, there.count());
      CHECK(test::simulate_questions(nodes, there).most() < 2500);
    }
  }
}

}  // namespace
}  // namespace rankshim::wait
