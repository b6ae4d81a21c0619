#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>

namespace rankshim::node {

/// A process that is stuck in the kernel (state D) for the lifetime of this object: the parent of a vfork(2)
/// takes no signal until its child has executed a program or ended.
class StuckProcess {
 public:
  StuckProcess() {
    REQUIRE(pipe(ready_) == 0);
    pid_ = fork();
    if (pid_ == 0) {
      if (vfork() == 0) {
        const pid_t own = getpid();
        [[maybe_unused]] const auto sent = write(ready_[1], &own, sizeof own);
        while (true) pause();
      }
      _exit(0);
    }
    REQUIRE(read(ready_[0], &child_, sizeof child_) == sizeof child_);
  }
  ~StuckProcess() {
    kill(child_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    for (const int end : ready_) close(end);
  }
  StuckProcess(const StuckProcess&) = delete;
  StuckProcess& operator=(const StuckProcess&) = delete;

  [[nodiscard]] pid_t pid() const { return pid_; }

 private:
  int ready_[2] = {-1, -1};
  pid_t pid_ = 0;
  pid_t child_ = 0;
};

}  // namespace rankshim::node
