#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <chrono>
#include <optional>
#include <vector>

#include "supervise/supervise.h"
#include "supervise/tree.h"

namespace rankshim::supervise {

/// Delivers signals to the command and to what it started, and never to anything else. A signal that cannot
/// be delivered now is kept and retried: no signal is lost while it has a receiver.
class SignalForwarder {
 public:
  using Clock = std::chrono::steady_clock;

  /// `processes` has the command's processes that were started and not yet reaped; until then their pids, and
  /// those of their groups, cannot be reused. While too many signals are kept here, `signals` leaves
  /// real-time signals in the kernel's queue.
  SignalForwarder(SignalQueue& signals, const Policy& policy, Workers& launcher,
                  const std::vector<pid_t>& processes)
      : signals_(signals), policy_(policy), launcher_(launcher), processes_(processes) {
    kept_.reserve(first_real_time_signal);  // keeping each standard signal needs no further memory
  }

  /// Excludes the children that exist now. Call it before the command starts. Children from before rankshim's
  /// exec are not the command's (`exec > >(tee log); exec rankshim …` in a shell): they are reaped, but
  /// neither signalled nor waited for. `prepared` lists processes that exist already but are the command's.
  void leave_alone_present_children(const std::vector<node::Process>& prepared);

  /// Whether this process is a child of rankshim, but not one of the command's.
  [[nodiscard]] bool is_apart(pid_t process) const;

  /// Passes a signal on, now or as soon as possible. `stop`: the signal stops the command, so suspended
  /// processes (SIGSTOP) are continued.
  void pass_on(const Signal& signal, bool stop = false);

  /// The same, for a signal whose sender has already sent it to everything below rankshim. One of
  /// Policy::worker_signals goes only to the processes that could not take it then, any other to nobody. A
  /// process that got a stop this way is not stopped again.
  void pass_on_to_the_rest(const Signal& signal, bool stop = false);

  /// When to call try_again(); nullopt if no signal is kept.
  [[nodiscard]] const std::optional<Clock::time_point>& due() const { return due_; }
  void try_again();

  /// Drops the signals kept for the command, which has ended.
  void drop_kept();

  /// Sends to everything that the command started: with one call to the whole PID namespace if rankshim is
  /// its PID 1, otherwise to all descendants. Returns 0 or −errno.
  int to_all(const Signal& signal);

  /// Stops leftover processes. Call it again, with `first` false, whenever one of them has ended: if that one
  /// handled the signal, its children have not been stopped yet.
  void stop_what_is_left(bool first);

  /// Continues suspended processes (by job control or a debugger), because only then can they act on a
  /// signal. Logs refused memory.
  void continue_stopped();

  /// All processes that the command started; empty if /proc does not show them, or memory for the list is
  /// refused.
  [[nodiscard]] std::vector<node::Process> everything() const;

  /// Whether the only children left are not the command's. The kernel cannot tell the two apart.
  [[nodiscard]] bool nothing_left() const;

 private:
  struct Kept {
    Signal signal;
    bool stop = false;
    Clock::time_point since;  // when it came
  };
  struct Receiver {
    node::Process process;
    int signal = 0;
  };

  [[nodiscard]] std::vector<node::Process> apart() const;
  [[nodiscard]] bool is_for_workers(int signal) const { return (policy_.worker_signals & bit(signal)) != 0; }
  [[nodiscard]] bool has_got(const node::Process& process, int signal) const;
  [[nodiscard]] bool waits(int signal) const;
  void forget_receivers(int signal);
  void pass_on_further(Signal signal, bool stop);
  [[nodiscard]] bool can_take(const node::Process& worker, int signal) const;
  [[nodiscard]] std::vector<node::Process> own_among(const std::vector<node::Process>& all) const;
  [[nodiscard]] std::vector<node::Process> walkable() const;
  int deliver(const Kept& kept);
  std::optional<int> walk(const Signal& signal);
  int walk_from(std::vector<node::Process> next, const std::vector<node::Process>& all, const Signal& signal);
  int to_workers(std::vector<node::Process> workers, const Signal& signal);
  int to_handlers_in_time(const Signal& signal, Clock::time_point since);
  std::optional<int> to_handlers(const Signal& signal);
  int to_command(const Signal& signal, bool groups);
  int to_group(pid_t leader, const Signal& signal);
  void set_due(bool progress);

  SignalQueue& signals_;
  const Policy& policy_;
  Workers& launcher_;
  const std::vector<pid_t>& processes_;
  const bool pid_1_ = getpid() == 1;
  std::vector<node::Process> before_us_;
  std::vector<Receiver> got_;  // who has got a stop, or a signal that was sent to everything
  std::vector<Kept> kept_;     // in order of arrival
  std::chrono::milliseconds delay_{0};
  std::optional<Clock::time_point> due_;
};

}  // namespace rankshim::supervise
