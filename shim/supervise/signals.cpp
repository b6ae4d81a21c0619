#include "supervise/signals.h"

#include <unistd.h>

#include <csignal>
#include <cstring>

#include "base/log.h"
#include "supervise/kernel.h"

namespace rankshim::supervise {
namespace {

constexpr SignalSet harmless_by_default = bit(SIGCHLD) | bit(SIGCONT) | bit(SIGSTOP) | bit(SIGTSTP) |
                                          bit(SIGTTIN) | bit(SIGTTOU) | bit(SIGURG) | bit(SIGWINCH);

// The setting that stop_ignoring_children() has changed, kept for the command.
bool child_signal_was_ignored = false;

}  // namespace

bool inherited_as_ignored(int signal) {
  return signal == SIGCHLD ? child_signal_was_ignored : kernel::is_ignored(signal) == 1;
}

void stop_ignoring_children() {
  if (kernel::is_ignored(SIGCHLD) != 1) return;
  child_signal_was_ignored = true;
  kernel::set_ignored(SIGCHLD, false);
}

bool ends_by_default(int signal) { return (harmless_by_default & bit(signal)) == 0; }

bool asks_to_stop(int signal) {
  return signal == SIGTERM || signal == SIGINT || signal == SIGHUP || signal == SIGQUIT;
}

bool is_of_our_own_making(const Received& signal) {
  return (signal.number == SIGPIPE || signal.number == SIGXFSZ) && signal.sender == getpid();
}

void end_with_parent(int signal) {
  const pid_t parent = getppid();
  const int done = kernel::set_parent_death_signal(signal);
  if (done < 0)
    log::warn("rankshim cannot ask for {} at the end of its parent: {}", signal_name(signal),
              std::strerror(-done));
  if (getppid() != parent) kernel::send(getpid(), signal);
}

}  // namespace rankshim::supervise
