#include "run/lookout.h"

#include <catch2/catch.hpp>
#include <string>
#include <string_view>

namespace rankshim::run {
namespace {

outcome::WorkerLook look_of(unsigned rank, std::uint64_t entered, unsigned line) {
  return {.rank = rank,
          .state = 'S',
          .stack = {{"/app/train.py", line, "step"}},
          .groups = {{.name = "0",
                      .description = "default_pg",
                      .members = {{0, 2}},
                      .entered = entered,
                      .ended = 20,
                      .operation = "all_reduce"}}};
}

std::string answer(const JobObservation& observation) {
  return describe(observation,
                  [](outcome::Culprit culprit) {
                    culprit.host = "a";
                    return culprit;
                  })
      .str();
}

TEST_CASE("the answer about stacks has who hangs, who waits for whom, and equal stacks together") {
  const std::string told = answer({.looks = {look_of(0, 21, 37), look_of(1, 20, 26), look_of(2, 21, 37)}});
  std::string_view rest = told;
  for (const std::string_view next : {"ranks 0 and 2 wait in all_reduce (train.py:37) for rank 1 on node 0 "
                                      "(a), which is in step (train.py:26)",
                                      "ranks 0 and 2 wait for rank 1 in all_reduce, number 21 of default_pg",
                                      "rank 1: in step (train.py:26)", "    step (/app/train.py:26)",
                                      "ranks 0 and 2: in step (train.py:37)"}) {
    INFO(told);
    INFO(next);
    const std::size_t at = rest.find(next);
    REQUIRE(at != rest.npos);
    rest.remove_prefix(at + next.size());
  }
}

TEST_CASE("the answer about stacks blames a rank for those that waited for it in vain, and have ended") {
  const std::string told = answer(
      {.victims = {{0, {}}, {2, {}}}, .looks = {look_of(0, 21, 37), look_of(1, 20, 26), look_of(2, 21, 37)}});
  CHECK(told.find("for rank 1 on node 0 (a), which is in step (train.py:26)") != told.npos);
  CHECK(told.find("\"ranks\":1,") != told.npos);
  CHECK(told.find("train.py:37") == told.npos);
}

TEST_CASE(
    "a rank that is exiting after its exception shows nothing of who hangs, and its stack is still shown") {
  outcome::WorkerLook exits = look_of(1, 20, 26);
  exits.groups.clear();
  JobObservation observation{.looks = {look_of(0, 21, 37), exits, look_of(2, 21, 37)}};
  REQUIRE(observation.find_hang());
  observation.raised = {0, 1, 2};
  CHECK_FALSE(observation.find_hang());
  CHECK(answer(observation).find("step (/app/train.py:26)") != std::string::npos);
}

TEST_CASE("the answer about stacks of a job that trains has no hang, and one of no worker says so") {
  CHECK(answer({.looks = {look_of(0, 20, 37), look_of(1, 20, 37)}}).find("hang") == std::string::npos);
  CHECK(answer({}).find("no worker is running") != std::string::npos);
}

}  // namespace
}  // namespace rankshim::run
