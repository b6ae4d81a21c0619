#include "node/process.h"

#include <sched.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cerrno>
#include <csignal>
#include <thread>

#include "node/stuck_process_for_test.h"
#include "supervise/child_for_test.h"
#include "supervise/kernel.h"

using namespace rankshim;
using namespace rankshim::node;

TEST_CASE("a process's line in /proc is understood whatever its name is", "[process]") {
  const std::string rest = " 42 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 987654 10 20 18446744073709551615\n";
  for (const std::string name : {"sh", "a b", "x) R 1 (y", ")", "", "(("}) {
    INFO(name);
    const auto process = parse_stat("123 (" + name + ") S 7 42" + rest);
    REQUIRE(process);
    CHECK(process->pid == 123);
    CHECK(process->parent == 7);
    CHECK(process->group == 42);
    CHECK(process->state == 'S');
    CHECK(process->start == 987654);
    CHECK(process->alive());
  }
  for (const std::string broken :
       {"", "123", "123 (x)", "123 (x) ", "123 (x) S", "123 (x) S 7 42", "x (y) S 7 42 1"}) {
    CHECK_FALSE(parse_stat(broken));
  }
  CHECK_FALSE(parse_stat("123 (x) Z 7 42" + rest)->alive());
}

TEST_CASE("descendants are found, and nothing else", "[process]") {
  const supervise::Child child;
  const auto below = descendants(getpid());
  REQUIRE(below);
  bool found = false;
  for (const Process& process : *below) {
    CHECK(process.pid != getpid());
    found = found || process.pid == child.pid;
  }
  CHECK(found);
  CHECK(descendants(child.pid)->empty());
}

TEST_CASE("a process whose main thread alone has ended is alive", "[process]") {
  const pid_t pid = fork();
  if (pid == 0) {
    std::thread other([] {
      while (true) pause();
    });
    syscall(SYS_exit, 0);  // of this thread
  }
  siginfo_t info{};
  while (read_proc(pid, "stat")->find(") Z ") == std::string::npos) sched_yield();
  const auto process = read_process(pid);
  REQUIRE(process);
  CHECK(process->alive());
  CHECK(is_alive(pid));
  CHECK_FALSE(zombie_status(pid));
  CHECK(std::ranges::count(running_processes(), pid) == 1);
  REQUIRE(kill(pid, SIGKILL) == 0);
  REQUIRE(waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT) == 0);
  CHECK_FALSE(read_process(pid)->alive());
  CHECK_FALSE(is_alive(pid));
  CHECK(zombie_status(pid) == SIGKILL);
  waitpid(pid, nullptr, 0);
  CHECK_FALSE(is_alive(pid));
}

TEST_CASE("the memory of a process that is stuck in the kernel is not read", "[process][attack]") {
  const StuckProcess stuck;
  for (const char* memory : {"environ", "cmdline"}) {
    CHECK_FALSE(read_proc(stuck.pid(), memory));
    CHECK(errno == EBUSY);
  }
  CHECK(read_proc(stuck.pid(), "stat"));
}

TEST_CASE("a variable is found in a process's environment by its whole name", "[process]") {
  constexpr std::string_view environment("A=1\0NO_RANK=5\0RANK=7\0EMPTY=\0", 28);
  CHECK(value_in(environment, "RANK") == "7");
  CHECK(value_in(environment, "A") == "1");
  CHECK(value_in(environment, "EMPTY").empty());
  CHECK(value_in(environment, "NO").empty());
  CHECK(value_in("", "A").empty());
}
