#include "launchers/program.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "supervise/child_for_test.h"
#include "supervise/kernel.h"

namespace rankshim::launchers {
namespace {

namespace fs = std::filesystem;
using supervise::Child;
using supervise::WorkerState;

/// A folder where workers' Python answers.
struct Answers {
  std::string path = (fs::temp_directory_path() / "rankshim-answers-XXXXXX").string();
  Answers() { REQUIRE(mkdtemp(path.data()) != nullptr); }
  ~Answers() { fs::remove_all(path); }
  Answers(const Answers&) = delete;
  Answers& operator=(const Answers&) = delete;

  /// This process has a process group.
  void add(pid_t pid) const { std::ofstream(path + "/look." + std::to_string(pid)); }
};

/// The workers that a program sees whose command is this process, by their local ranks.
std::vector<WorkerState> workers_here(const Answers& answers, const std::vector<std::string>& environment) {
  Program program({}, false, answers.path);
  program.started({getpid()}, Program::Clock::now(), environment);
  std::vector<WorkerState> workers = program.running_workers();
  std::ranges::sort(workers, {}, &WorkerState::local_rank);
  return workers;
}

/// A child with one of its own, which waits.
struct Parent {
  pid_t pid = -1, child = -1;
  Parent() {
    std::array<int, 2> ends{};
    REQUIRE(pipe(ends.data()) == 0);
    pid = fork();
    if (pid == 0) {
      const Child below;
      if (write(ends[1], &below.pid, sizeof below.pid) < 0) _exit(1);
      while (true) pause();
    }
    REQUIRE(read(ends[0], &child, sizeof child) == sizeof child);
    close(ends[0]);
    close(ends[1]);
  }
  ~Parent() {
    supervise::kernel::send(child, SIGKILL);
    supervise::kernel::send(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
  }
  Parent(const Parent&) = delete;
  Parent& operator=(const Parent&) = delete;
};

}  // namespace

TEST_CASE("of a program the process with a process group is the worker, not what it has started") {
  const std::vector<std::string> environment{"PATH=/bin"};
  const Answers answers;
  const Parent trains;
  const auto before = workers_here(answers, environment);
  REQUIRE(before.size() == 1);
  CHECK(before[0].pid == trains.child);  // a chain of programs, as far as it is known
  answers.add(trains.pid);
  const auto after = workers_here(answers, environment);
  REQUIRE(after.size() == 1);
  CHECK(after[0].pid == trains.pid);
  CHECK(after[0].local_rank == 0);
}

TEST_CASE("several processes with a process group are workers in the order of their start") {
  const std::vector<std::string> environment{"PATH=/bin", "RANK=7"};
  const Answers answers;
  const Child second;
  {
    const Child first;
    answers.add(first.pid);
    answers.add(second.pid);
    CHECK(workers_here(answers, environment).size() == 2);
  }
  const Child third;
  answers.add(third.pid);
  const auto workers = workers_here(answers, environment);  // one has ended
  REQUIRE(workers.size() == 2);
  const unsigned first_ended = second.pid < third.pid ? 0 : 1;
  CHECK(workers[first_ended].pid == second.pid);
  CHECK(workers[0].rank == std::nullopt);
}

TEST_CASE("where all processes with a process group have ended, their parent is not a worker") {
  const std::vector<std::string> environment{"PATH=/bin"};
  const Answers answers;
  {
    const Child first, second;
    answers.add(first.pid);
    answers.add(second.pid);
    CHECK(workers_here(answers, environment).size() == 2);
  }
  CHECK(workers_here(answers, environment).empty());
}

}  // namespace rankshim::launchers
