#include "supervise/terminal.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstring>

#include "log/log.h"
#include "supervise/kernel.h"

namespace rankshim::supervise {

Terminal::Terminal() {
  int candidate = STDIN_FILENO;
  pid_t foreground = kernel::foreground_group(candidate);
  if (foreground < 0 && getsid(0) == getpid()) {
    candidate = open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (candidate < 0) return;
    foreground = kernel::foreground_group(candidate);
  }
  group_ = getpgrp();
  // In a PID namespace below the terminal's both are 0: outside of it. Then we take what we are given, as
  // other inits do.
  if (foreground == group_) {
    descriptor_ = candidate;
  } else if (candidate != STDIN_FILENO) {
    close(candidate);
  }
}

Terminal::~Terminal() {
  if (descriptor_ > STDIN_FILENO) close(descriptor_);
}

void Terminal::take_back() const {
  if (descriptor_ < 0 || group_ == 0) return;
  const int done = kernel::set_foreground_group(descriptor_, group_);
  if (done < 0) log::debug("the terminal could not be taken back: {}", std::strerror(-done));
}

}  // namespace rankshim::supervise
