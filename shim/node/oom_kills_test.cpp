#include "node/oom_kills.h"

#include <catch2/catch.hpp>

namespace rankshim::node {
namespace {

using namespace std::chrono_literals;

TEST_CASE("an end is one at the memory limit only if the counter of kills rose with it") {
  const OomKills::Clock::time_point begin{}, rose = begin + 100s;
  constexpr pid_t worker = 17;
  OomKills kills;
  CHECK_FALSE(kills.evidence(worker, begin, rose).own);

  REQUIRE(kills.count(1, rose));
  CHECK_FALSE(kills.count(1, rose + 1s));
  CHECK(kills.evidence(worker, begin, rose).own);
  CHECK(kills.evidence(worker, begin, rose + 10s).own);  // its memory takes time to free

  // It runs on: it was another process, and a later KILL is somebody else's.
  kills.outlived(1, {worker});
  CHECK_FALSE(kills.evidence(worker, begin, rose + 10s).own);
  CHECK(kills.evidence(worker + 1, begin, rose + 10s).own);
  CHECK_FALSE(kills.evidence(worker + 1, rose + 1s, rose + 10s).own);  // of a later set of workers

  CHECK(kills.evidence(worker + 1, std::nullopt, rose + 10s).own);
  CHECK_FALSE(kills.evidence(worker + 1, std::nullopt, rose + 1h).own);

  // The next kill can be its own again; what outlived the first says nothing.
  REQUIRE(kills.count(2, rose + 20s));
  kills.outlived(1, {worker});
  CHECK(kills.evidence(worker, begin, rose + 20s).own);
}

TEST_CASE("a child's kill at the memory limit explains its parent's end only for a while") {
  const OomKills::Clock::time_point begin{}, rose = begin + 100s;
  constexpr pid_t parent = 17;
  OomKills kills;
  CHECK_FALSE(kills.evidence(parent, begin, rose).of_child);
  kills.count(1, rose);
  kills.outlived(1, {parent});
  CHECK(kills.evidence(parent, begin, rose + 10s).of_child);
  CHECK_FALSE(kills.evidence(parent, begin, rose + 1h).of_child);
}

}  // namespace
}  // namespace rankshim::node
