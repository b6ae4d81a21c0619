#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "supervise/kernel.h"

namespace rankshim::supervise {

/// A child that waits for a signal; the destructor kills it.
struct Child {
  pid_t pid = fork();
  Child() {
    while (pid == 0) pause();
  }
  ~Child() {
    kernel::send(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
};

}  // namespace rankshim::supervise
