#include "supervise/tree.h"

#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>

#include "supervise/child_for_test.h"
#include "supervise/kernel.h"

using namespace rankshim;
using namespace rankshim::supervise;

TEST_CASE("a signal never reaches another process with the same number", "[tree]") {
  const Child child;
  auto below = *node::descendants(getpid());
  std::erase_if(below, [&](const node::Process& process) { return process.pid != child.pid; });
  REQUIRE(below.size() == 1);
  below[0].start += 1;  // as if the number had been given to it since
  CHECK(send_each(below, {SIGKILL}) == -ESRCH);
  CHECK(waitpid(child.pid, nullptr, WNOHANG) == 0);
  below[0].start -= 1;
  CHECK(send_each(below, {SIGUSR1}) == 0);
  int status = 0;
  CHECK(waitpid(child.pid, &status, 0) == child.pid);
  CHECK(WTERMSIG(status) == SIGUSR1);
}
