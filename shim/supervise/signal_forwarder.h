#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <chrono>
#include <optional>
#include <utility>
#include <vector>

#include "base/signals.h"
#include "supervise/launcher.h"
#include "supervise/signal_queue.h"
#include "supervise/tree.h"

namespace rankshim::supervise {

/// Delivers signals to the command and to what it started, and never to anything else. A signal that cannot
/// be delivered now is kept and tried again: no signal is lost as long as it has a receiver.
class SignalForwarder {
 public:
  using Clock = std::chrono::steady_clock;

  /// `signals` leaves real-time signals in the kernel's queue while too many are kept here. A signal for the
  /// launcher's workers is kept until there are workers and each of them can take it.
  SignalForwarder(SignalQueue& signals, SignalScope scope, Launcher& launcher)
      : signals_(signals), scope_(scope), launcher_(launcher) {}

  /// Children from before rankshim's exec do not belong to the command (`exec > >(tee log); exec rankshim …`
  /// in a shell): they are reaped, but neither signalled nor waited for. To be called before the command is
  /// started.
  void leave_alone_present_children();

  /// The command runs now as these processes; before this call nothing may be passed on.
  void begin(std::vector<pid_t> processes) {
    processes_ = std::move(processes);
    kept_.reserve(first_real_time_signal);  // each standard signal can be kept without memory
  }

  /// One of these processes was reaped: its number may belong to another process.
  void process_ended(pid_t process) { std::erase(processes_, process); }

  /// All of them were reaped. Signals that are kept for the command are dropped.
  void command_ended();

  /// Passes a signal on, now or as soon as possible. `stop`: it asks the command to stop.
  void pass_on(const Signal& signal, bool stop = false);

  /// When try_again() is to be called; nothing if no signal is kept.
  [[nodiscard]] const std::optional<Clock::time_point>& due() const { return due_; }
  void try_again();

  /// Sends to everything that the command started: by one call to all of a PID namespace if rankshim is its
  /// PID 1, otherwise to all descendants. Returns 0 or −errno.
  int to_all(const Signal& signal);

  /// Asks what the command has left behind to stop. To be called again when one of it has ended: its children
  /// have not been asked if it handled the signal, and are asked now.
  void stop_what_is_left();

  /// Continues those that are stopped (by job control or a debugger): only then they can follow a signal.
  void continue_stopped();

  /// Everything that the command started and left, by /proc; nothing if that does not show it.
  [[nodiscard]] std::optional<std::vector<Process>> everything() const;

  /// Whether only children from before rankshim's exec are left. The kernel does not tell them apart from the
  /// command's.
  [[nodiscard]] bool nothing_left() const;

 private:
  struct Kept {
    Signal signal;
    bool stop = false;
    unsigned refused = 0;  ///< how often the kernel refused it
  };

  int deliver(const Signal& signal, bool stop);
  int deliver_to(pid_t process, const Signal& signal);
  std::optional<int> walk(const Signal& signal);
  int deliver_to_workers(const Signal& signal);
  int walk_group(pid_t group, const Signal& signal);
  void set_due(bool progress);

  SignalQueue& signals_;
  const SignalScope scope_;
  Launcher& launcher_;
  const bool pid_1_ = getpid() == 1;
  std::vector<pid_t> processes_;  // the command's that have not ended
  std::vector<Process> before_us_;
  StopWalk stop_walk_;
  bool asked_what_is_left_ = false;
  std::vector<Kept> kept_;  // in the order of their arrival
  std::chrono::milliseconds delay_{0};
  std::optional<Clock::time_point> due_;
};

}  // namespace rankshim::supervise
