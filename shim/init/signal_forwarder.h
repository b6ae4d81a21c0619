#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <chrono>
#include <optional>
#include <vector>

#include "base/signal_scope.h"
#include "init/kernel.h"
#include "init/launcher.h"
#include "init/signal_queue.h"
#include "init/tree.h"

namespace rankshim::supervise {

/// Brings signals to the command and to what it started, and never to anything else. What cannot be delivered
/// now is kept and tried again: nothing that was handed over is lost while somebody is there to take it.
class SignalForwarder {
 public:
  using Clock = std::chrono::steady_clock;

  /// `signals` is told to leave real-time signals in the kernel's queue while too many are kept here. What
  /// goes to the launcher's workers is kept until there are some and each of them can take it.
  SignalForwarder(SignalQueue& signals, SignalScope scope, const Launcher& launcher)
      : signals_(signals), scope_(scope), launcher_(launcher) {}

  /// Children from before our exec are none of the command's (`exec > >(tee log); exec rankshim …` in a
  /// shell): they are reaped, but neither signalled nor waited for. Call it before the command is started.
  void leave_alone_present_children();

  /// The command runs now; until then nothing may be passed on.
  void begin(pid_t command) { command_ = command; }

  /// It was reaped: its number may belong to another process. What is kept for it is dropped.
  void command_ended();

  /// Passes a signal on, now or as soon as that is possible.
  void pass_on(const Received& signal);

  /// When try_again() is to be called; nothing while nothing is kept.
  [[nodiscard]] const std::optional<Clock::time_point>& due() const { return due_; }
  void try_again();

  /// To all that the command started. All of a PID namespace by one call where that is ours; otherwise our
  /// own descendants. 0 or −errno.
  int to_all(int signal, const kernel::Payload* payload = nullptr);

  /// To those of them that are stopped (job control, a debugger); to all where /proc does not tell who is.
  void to_stopped(int signal);

  /// Everything that the command started and left, by /proc; nothing where that does not tell.
  [[nodiscard]] std::optional<std::vector<Process>> everything() const;

  /// Whether only children from before us are left, of which the kernel does not say that they are not the
  /// command's.
  [[nodiscard]] bool nothing_left() const;

 private:
  struct Kept {
    Received signal;
    unsigned refused = 0;  ///< how often the kernel refused it
  };

  int deliver(const Received& signal);
  int deliver_to_workers(const Received& signal);
  int walk_group(int signal, const kernel::Payload& payload);
  void keep(const Received& signal);
  void set_due(bool progress);

  SignalQueue& signals_;
  const SignalScope scope_;
  const Launcher& launcher_;
  const bool pid_1_ = getpid() == 1;
  pid_t command_ = 0;
  bool command_ended_ = false;
  std::vector<Process> before_us_;
  std::vector<Kept> kept_;  // in the order of their arrival
  SignalSet kept_numbers_ = 0;
  std::chrono::milliseconds delay_{0};
  std::optional<Clock::time_point> due_;
};

}  // namespace rankshim::supervise
