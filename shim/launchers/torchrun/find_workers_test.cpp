#include "launchers/torchrun/find_workers.h"

#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>

#include "supervise/child_for_test.h"
#include "supervise/kernel.h"

using namespace rankshim;
using namespace rankshim::supervise;
using namespace rankshim::torchrun;

TEST_CASE("a worker is a descendant with the LOCAL_RANK that the agent does not have", "[workers]") {
  const Child child;  // has our own environment
  CHECK(find_worker(child.pid, {"PATH=/bin"}) == Presence::none);
  // The environment that a process was started with is what /proc shows.
  int ready[2];
  REQUIRE(pipe(ready) == 0);
  const pid_t worker = fork();
  if (worker == 0) {
    dup2(ready[1], STDOUT_FILENO);
    execlp("env", "env", "A=1", "LOCAL_RANK=3", "sh", "-c", "echo ready; kill -STOP $$", nullptr);
    _exit(127);
  }
  char byte = 0;
  REQUIRE(read(ready[0], &byte, 1) == 1);
  CHECK(find_worker(getpid(), {"PATH=/bin"}) == Presence::some);
  CHECK(find_worker(getpid(), {"LOCAL_RANK=0"}) == Presence::some);
  kernel::send(worker, SIGKILL);
  waitpid(worker, nullptr, 0);
  close(ready[0]);
  close(ready[1]);
  CHECK(find_worker(getpid(), {"PATH=/bin"}) == Presence::none);
}
