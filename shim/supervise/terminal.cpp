#include "supervise/terminal.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <termios.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "base/log.h"
#include "supervise/kernel.h"

namespace rankshim::supervise {
namespace {

/// Suspends this process, as Ctrl-Z would, until SIGCONT; returns whether it did. The kernel does not suspend
/// a process that nothing could continue (in an orphaned group, or PID 1).
bool stop_self() {
  SignalSet pending = 0;
  kernel::set_signal_mask(~bit(SIGTSTP), nullptr);
  kernel::send(getpid(), SIGTSTP);  // the process is suspended here
  kernel::set_signal_mask(~SignalSet{0}, nullptr);
  syscall(SYS_rt_sigpending, &pending, sizeof pending);
  return (pending & bit(SIGCONT)) != 0;
}

}  // namespace

Terminal::Terminal(bool command_has_its_own, bool keep) {
  if (command_has_its_own) {
    ioctl(STDIN_FILENO, TIOCNOTTY, 0);  // the kernel sends HUP and CONT to the terminal's foreground group
    return;
  }
  int candidate = STDIN_FILENO;
  pid_t foreground = tcgetpgrp(candidate);
  if (foreground < 0 && getsid(0) == getpid()) {
    opened_ = UniqueFd(open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC));
    candidate = opened_.number();
    foreground = tcgetpgrp(candidate);
  }
  if (foreground < 0) return;
  descriptor_ = candidate;
  group_ = getpgrp();
  // In a PID namespace below the terminal's, both are 0, because the groups are outside it. rankshim then
  // takes the terminal that it was given, as other inits do.
  termios settings{};
  keep_ = keep && tcgetattr(candidate, &settings) == 0 && (settings.c_lflag & TOSTOP) == 0;
  lent_ = foreground == group_ && !keep_;
}

void Terminal::command_stopped(pid_t group, int signal) {
  if (descriptor_ < 0 || (signal != SIGTSTP && signal != SIGTTIN && signal != SIGTTOU)) return;
  stopped_ = true;
  // A launcher that reads from the terminal, or lets its workers do so (torch 1.13), needs it after all.
  const bool needs_it = signal != SIGTSTP && std::exchange(keep_, false);
  if (needs_it) lend(group);
  if (!needs_it || !lent_) {
    take_back();
    if (stop_self()) return;
  }
  continue_command(group);
}

bool Terminal::continue_command(pid_t group) {
  if (!std::exchange(stopped_, false)) return false;
  lend(group);
  kernel::send(-group, SIGCONT);
  return true;
}

/// Gives the foreground to the command's group, if rankshim has it now.
void Terminal::lend(pid_t group) {
  if (keep_ || lent_ || tcgetpgrp(descriptor_) != group_) return;
  lent_ = tcsetpgrp(descriptor_, group) == 0;
  if (!lent_) log::warn("the terminal cannot be given to the command: {}", std::strerror(errno));
}

void Terminal::take_back() {
  if (!lent_ || group_ == 0) return;
  lent_ = false;
  if (tcsetpgrp(descriptor_, group_) != 0)
    log::warn("the terminal cannot be taken back: {}", std::strerror(errno));
}

}  // namespace rankshim::supervise
