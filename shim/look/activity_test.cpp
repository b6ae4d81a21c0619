#include "look/activity.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>

#include "look/look.h"

namespace rankshim::look {
namespace {

TEST_CASE("a worker works if it computes, reads or writes, and polls if it only wakes up", "[look]") {
  const struct {
    const char* who;
    Activity after;  // 5 s later
    Work work;
  } cases[] = {
      {"waits in a collective", {}, Work::none},
      {"polls its DataLoader each 5 s", {.switches = 1, .ticks = 1}, Work::none},
      {"is at the limit", {.switches = 5, .ticks = 5, .bytes = 50'000}, Work::none},
      {"evaluates", {.switches = 1525, .ticks = 190}, Work::works},
      {"computes without a switch", {.ticks = 500}, Work::works},
      {"writes a checkpoint slowly", {.switches = 2, .bytes = 10'000'000}, Work::works},
      {"polls twice a second", {.switches = 10}, Work::polls},
  };
  const Activity before{.switches = 1000, .ticks = 2000, .bytes = 3000};
  for (const auto& [who, rise, expected] : cases) {
    INFO(who);
    const Activity after{.switches = before.switches + rise.switches,
                         .ticks = before.ticks + rise.ticks,
                         .bytes = before.bytes + rise.bytes};
    CHECK(work_between(before, after, std::chrono::seconds(5)) == expected);
  }
  // A process below it has ended, with what it had read.
  const Activity smaller{.switches = 1000, .ticks = 2000, .bytes = 0};
  CHECK(work_between(before, smaller, std::chrono::seconds(5)) == Work::none);
}

TEST_CASE("what a process does is read from /proc", "[look]") {
  const Activity own = read_activity(getpid());
  CHECK(own.state == 'R');
  CHECK(own.kernel.empty());
  CHECK(own.bytes > 0);

  const pid_t child = fork();
  if (child == 0) {
    raise(SIGSTOP);
    _exit(0);
  }
  waitpid(child, nullptr, WUNTRACED);
  CHECK(read_activity(child).state == 'T');
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  CHECK(read_activity(child).state == '?');
}

TEST_CASE("a worker is alone if its default group has no other member", "[look]") {
  const auto in_group = [](const char* name, std::vector<outcome::RankRange> members) {
    return outcome::WorkerLook{.groups = {{.name = "0", .description = name, .members = std::move(members)}}};
  };
  CHECK(is_alone_in_its_group(in_group("default_pg", {{0, 0}})));
  CHECK_FALSE(is_alone_in_its_group(in_group("default_pg", {{0, 1}})));
  CHECK_FALSE(is_alone_in_its_group(in_group("default_pg", {{0, 0}, {2, 2}})));
  CHECK_FALSE(is_alone_in_its_group(in_group("dp", {{0, 0}})));
  CHECK_FALSE(is_alone_in_its_group({}));
}

}  // namespace
}  // namespace rankshim::look
