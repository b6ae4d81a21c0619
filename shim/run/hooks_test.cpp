#include "run/hooks.h"

#include <catch2/catch.hpp>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <string>
#include <vector>

#include "report/wording.h"

namespace rankshim::run {
namespace {

using supervise::ExitRecord;
using namespace std::chrono_literals;

ExitRecord record_of(ExitRecord::Kind kind, int number) {
  ExitRecord made;
  made.kind = kind;
  made.number = number;
  return made;
}

TEST_CASE("a hook's end is a code and a sentence") {
  struct Case {
    ExitRecord end;
    int code;
    std::string sentence;
  };
  ExitRecord killed = record_of(ExitRecord::Kind::signalled, SIGKILL);
  killed.killed_by_us = true;
  ExitRecord stopped = killed;
  stopped.stop.emplace().signal = SIGTERM;
  ExitRecord refused = record_of(ExitRecord::Kind::not_started, ENOMEM);
  refused.failure.call = supervise::SpawnFailure::Call::fork;
  const std::vector<Case> cases = {
      {record_of(ExitRecord::Kind::exited, 0), 0, "exited with code 0"},
      {record_of(ExitRecord::Kind::exited, 3), 3, "exited with code 3"},
      {record_of(ExitRecord::Kind::signalled, SIGSEGV), 139, "was killed by SIGSEGV"},
      {killed, 137, "was killed by SIGKILL because it took longer than 10m"},
      {stopped, 137, "was killed by SIGKILL"},
      {refused, 71, "cannot be started: fork: " + std::string(std::strerror(ENOMEM))},
      {record_of(ExitRecord::Kind::withheld, ECHILD), 71,
       "ended, and the system does not report how: wait4: " + std::string(std::strerror(ECHILD))},
  };
  for (const Case& expected : cases) {
    CHECK(exit_code_of_hook(expected.end) == expected.code);
    CHECK(report::wording::hook_end(expected.end, 10min) == expected.sentence);
  }
}

TEST_CASE("a stop counts while a hook runs and after its end") {
  ExitRecord end = record_of(ExitRecord::Kind::exited, 0);
  CHECK_FALSE(stop_signal_of(end));
  end.signal_for_rankshim = SIGHUP;
  CHECK(stop_signal_of(end) == SIGHUP);
  end.stop.emplace().signal = SIGTERM;
  CHECK(stop_signal_of(end) == SIGTERM);
}

}  // namespace
}  // namespace rankshim::run
