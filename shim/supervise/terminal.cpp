#include "supervise/terminal.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/log.h"

namespace rankshim::supervise {

Terminal::Terminal(bool command_has_its_own, bool keep) {
  if (command_has_its_own) {
    ioctl(STDIN_FILENO, TIOCNOTTY, 0);  // the kernel sends HUP and CONT to the terminal's foreground group
    return;
  }
  int candidate = STDIN_FILENO;
  pid_t foreground = tcgetpgrp(candidate);
  if (foreground < 0 && getsid(0) == getpid()) {
    opened_ = Descriptor(open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC));
    candidate = opened_.number();
    foreground = tcgetpgrp(candidate);
  }
  if (foreground < 0) return;
  descriptor_ = candidate;
  group_ = getpgrp();
  // In a PID namespace below the terminal's both are 0, because the groups are outside of it. Then rankshim
  // takes the terminal that it was given, as other inits do.
  termios settings{};
  keep_ = keep && tcgetattr(candidate, &settings) == 0 && (settings.c_lflag & TOSTOP) == 0;
  lent_ = foreground == group_ && !keep_;
}

void Terminal::lend(pid_t group) {
  if (descriptor_ < 0 || keep_ || lent_ || tcgetpgrp(descriptor_) != group_) return;
  lent_ = tcsetpgrp(descriptor_, group) == 0;
  if (!lent_) log::warn("the terminal cannot be given to the command: {}", std::strerror(errno));
}

bool Terminal::share(pid_t group) {
  if (!std::exchange(keep_, false)) return false;
  lend(group);
  return lent_;
}

void Terminal::take_back() {
  if (!lent_ || group_ == 0) return;
  lent_ = false;
  if (tcsetpgrp(descriptor_, group_) != 0)
    log::warn("the terminal cannot be taken back: {}", std::strerror(errno));
}

}  // namespace rankshim::supervise
