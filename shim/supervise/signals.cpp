#include "supervise/signals.h"

#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>
#include <cstring>

#include "base/log.h"
#include "supervise/kernel.h"

namespace rankshim::supervise {
namespace {

constexpr SignalSet harmless_by_default = bit(SIGCHLD) | bit(SIGCONT) | bit(SIGSTOP) | bit(SIGTSTP) |
                                          bit(SIGTTIN) | bit(SIGTTOU) | bit(SIGURG) | bit(SIGWINCH);

// Zero by constant initialisation, so that no later initialiser overwrites the mask that this one stores.
constinit SignalSet mask_before = 0;

/// For PID 1 the kernel drops every signal that arrives before it is blocked. 101 is the earliest priority
/// that a program may request: this runs before malloc and all other initialisers, on static musl as the
/// third system call.
[[gnu::constructor(101)]] void block_all_signals() { kernel::set_signal_mask(~SignalSet{0}, &mask_before); }

// The setting that stop_ignoring_children() has changed, kept for the command.
bool child_signal_was_ignored = false;

}  // namespace

SignalSet inherited_mask() { return mask_before; }

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

bool is_of_our_own_making(const Signal& signal) {
  return (signal.number == SIGPIPE || signal.number == SIGXFSZ) && signal.sender == getpid();
}

void end_with_parent(int signal) {
  const pid_t parent = getppid();
  const int done = kernel::result(prctl(PR_SET_PDEATHSIG, signal, 0, 0, 0));
  if (done < 0)
    log::warn("rankshim cannot ask for {} at the end of its parent: {}", signal_name(signal),
              std::strerror(-done));
  if (getppid() != parent) kernel::send(getpid(), signal);
}

}  // namespace rankshim::supervise
