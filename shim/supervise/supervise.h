#pragma once

#include <sys/types.h>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/core/noncopyable.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/signals.h"
#include "node/process.h"
#include "supervise/exit_record.h"
#include "supervise/signals.h"
#include "supervise/spawn.h"

/// Runs a command as PID 1, and defines the interface to whatever starts workers. It knows no launcher.
///
/// A supervised command is in one of four states:
///
/// - running: the command, or one of its workers, is not reaped yet. Signals are passed on. The first stop (a
///   signal or an order) starts the grace period. When one of several workers fails, the others are stopped.
/// - leftovers: the command has ended, but what it started may still run. Processes that handle the notice
///   that ended the command get time to save. Then everything gets TERM, and the leftover grace starts.
/// - killing: everything gets KILL, repeated every 100 ms, because a walk of the tree may have missed a fork.
/// - finished: nothing is left, or what is left is stuck in the kernel.
///
/// The transitions:
///
///     running    the system refuses the command's start              → finished
///     running    the command, or the last of its workers, is reaped  → leftovers
///     running    its grace is over; a second INT; an order to kill   → killing
///     leftovers  nothing is left                                     → finished
///     leftovers  its grace is over; INT or QUIT                      → killing
///     killing    nothing is left                                     → finished
///     killing    five seconds have passed                            → finished
///
/// If the command ends in the state killing, it does not go back to leftovers. A process with a handler for
/// ABRT prints its stacks before the first KILL. Each deadline is stored before it is acted on, so that a
/// call that the system refuses is retried, and no state is left too early.
namespace rankshim::supervise {

/// Observer is notified of what happens while the command runs. All calls come from the event loop and must
/// return at once. An exception that it throws is logged, and does not affect the command.
class Observer : boost::noncopyable {
 public:
  using Clock = std::chrono::steady_clock;

  virtual ~Observer() = default;

  /// The command was started at `when` with this environment, which stays valid. `processes` has its pid, or
  /// those of the workers that were started instead: fewer than planned if the system refused one.
  virtual void started(const std::vector<pid_t>& /*processes*/, Clock::time_point /*when*/,
                       const std::vector<std::string>& /*environment*/) {}
  /// The command, or one of its workers, could not be started; the record says why. If there is a process,
  /// its end is reported after this.
  virtual void start_failed(const ExitRecord& /*record*/) {}
  /// New workers were seen. The launcher calls this.
  virtual void workers_seen() {}
  /// A worker has ended; reported as soon as the kernel shows it. The launcher calls this.
  virtual void worker_ended(const WorkerEnd& /*worker*/) {}
  /// The first stop signal was passed on to the command. Processes that are left after `grace` are killed.
  virtual void stop_passed_on(const outcome::StopRequest& /*stop*/,
                              std::optional<std::chrono::milliseconds> /*grace*/) {}
  /// The command itself has exited; workers and leftover processes may still run.
  virtual void command_ended(const ExitRecord& /*record*/) {}
};

/// Order tells the supervisor of a running command what to do.
struct Order {
  enum class Kind : std::uint8_t {
    name_hanging,  ///< log which processes have not stopped, followed by `why`
    stop,          ///< as if a TERM had arrived
    kill,          ///< kill everything; `why` begins the log line
  };
  Kind kind = Kind::stop;
  std::string why;  ///< empty for stop
};

/// Workers is the interface through which supervise() learns about the workers of a command. This base class
/// stands for a program without workers; each launcher overrides it. All calls come from the event loop,
/// between the command's start and the end of everything that it started, and none may block.
class Workers : public Observer {
 public:
  /// The workers to start instead of the command, sorted by local rank, each in a new session; if empty, the
  /// command is started. Called once. The first worker that fails stops the others, and its end is treated as
  /// the command's.
  [[nodiscard]] virtual std::vector<Command> workers_to_start(const Command& /*command*/) { return {}; }

  /// Stores commands that workers_to_start() returned earlier and that were started early (prepared.h). The
  /// supervisor uses them instead of asking again.
  void set_prepared(std::vector<Command> commands) { prepared_ = std::move(commands); }
  [[nodiscard]] std::vector<Command> take_prepared() { return std::exchange(prepared_, {}); }
  /// Whether what the prepared commands were planned with is still available.
  [[nodiscard]] virtual bool can_still_start() const { return true; }

  /// Called when the command is about to be started. A watch that begins here misses nothing.
  virtual void prepare(boost::asio::io_context& /*io*/) {}

  /// Which processes are workers, and how each ended.
  [[nodiscard]] const WorkerRecord& record() const { return record_; }

  /// The workers of the last set that still run, as far as known.
  [[nodiscard]] virtual std::vector<WorkerState> running_workers() const {
    std::vector<WorkerState> running = record_.states;
    std::erase_if(running, [](const WorkerState& worker) { return worker.ended; });
    return running;
  }

  /// Whether the command starts its workers itself, and stops them when it gets a stop signal. If so, it gets
  /// only one stop signal, and none that it should ignore; a second INT kills everything. It is not in the
  /// terminal's foreground, so that Ctrl-C signals rankshim and not the workers as well. Its stacks are not
  /// printed while workers hang.
  [[nodiscard]] virtual bool stops_workers() const { return false; }
  /// The running workers, which get a signal of Policy::worker_signals. nullopt for a program, where the
  /// processes of its tree that handle the signal get it.
  [[nodiscard]] virtual std::optional<std::vector<node::Process>> receivers() const { return std::nullopt; }
  /// The workers that get this stop instead of the command, which ends after them. If empty, the command gets
  /// it.
  [[nodiscard]] virtual std::vector<node::Process> receivers_of_stop(int /*signal*/) { return {}; }

  /// Called when a process was reaped with this wait status: the command, a worker, or an orphan of the
  /// command.
  virtual void reaped(pid_t /*process*/, int /*status*/) {}
  /// Called when everything has ended: stops all watches.
  virtual void finish() {}
  /// Whether the workers' last output is still being written after everything has ended.
  [[nodiscard]] virtual bool has_output() const { return false; }

  /// Gives the supervisor an order, from the launcher or from other nodes. Call it on the event loop. The
  /// order is carried out in the supervisor's next step; before the command's start it is kept until the
  /// command runs, and when the command is being killed or has ended it is dropped.
  void give(Order order) {
    orders_.push_back(std::move(order));
    if (wake_) wake_();
  }
  /// Takes the oldest pending order; nullopt if there is none.
  std::optional<Order> take_order() {
    if (orders_.empty()) return std::nullopt;
    Order order = std::move(orders_.front());
    orders_.erase(orders_.begin());
    return order;
  }
  /// Holds the workers: until release(), one worker's failure does not stop the others, so that they can be
  /// looked at. Each hold() is followed by a release() a moment later.
  void hold() { ++holds_; }
  void release() {
    --holds_;
    if (wake_) wake_();
  }
  [[nodiscard]] bool is_held() const { return holds_ != 0; }
  /// For the supervisor. `wake` is called for each order, and makes it take its next step. `observer` is
  /// notified of workers' ends, and outlives the command.
  void attach(std::function<void()> wake, Observer* observer) {
    wake_ = std::move(wake);
    observer_ = observer;
  }

 protected:
  /// Notifies the observer of new workers.
  void tell_seen() const {
    if (observer_ != nullptr) observer_->workers_seen();
  }
  /// Notifies the observer that a worker has ended.
  void tell_end(const WorkerEnd& worker) const {
    if (observer_ != nullptr) observer_->worker_ended(worker);
  }

  WorkerRecord record_;

 private:
  std::vector<Command> prepared_;
  std::vector<Order> orders_;
  unsigned holds_ = 0;
  std::function<void()> wake_;
  Observer* observer_ = nullptr;
};

/// The grace, where --grace sets none, for what is left after a stop and for other workers when one has
/// failed: Kubernetes' default.
inline constexpr std::chrono::milliseconds default_grace{30'000};

/// Policy defines how a command is supervised.
struct Policy {
  SignalScope scope = SignalScope::handlers;
  /// The time from passing on a stop signal until everything is killed; nullopt: no limit.
  std::optional<std::chrono::milliseconds> grace;
  /// The time between SIGTERM and SIGKILL for leftover processes, once the command has exited.
  std::chrono::milliseconds leftover_grace{5000};
  /// Returns the children of rankshim that are not the command's, which may come and go while it runs. They
  /// are reaped, but neither signalled nor waited for. Empty: there are none.
  std::function<std::vector<node::Process>()> apart;
  /// The command's workers; null for a program that has none.
  Workers* launcher = nullptr;
  /// Signals that announce something (Slurm's USR1 before the time limit), and kill most launchers. They go
  /// to the workers instead of the command; in a program with SignalScope::handlers, to the processes that
  /// handle them. Such a signal is kept while there are no workers, or one of them cannot take it.
  SignalSet worker_signals = 0;
  /// Signals that the command starts with ignored, because they also reach it directly (scancel signals every
  /// process of a step). Installing a handler changes that, except in a shell (POSIX, trap). Workers inherit
  /// it, so a worker can take such a signal only once it has a handler.
  SignalSet ignored_at_start = 0;
  /// Whether the sender of a signal has also sent it to everything below rankshim; empty: never.
  std::function<bool(const Signal&)> sent_to_all;
  /// The command is not the job but a hook or a helper: a signal that arrives while it runs is also reported
  /// as ExitRecord::signal_for_rankshim.
  bool hook = false;
  /// How long the command may run before everything is killed; nullopt: no limit.
  std::optional<std::chrono::milliseconds> time_limit;
  /// The observer; may be null.
  Observer* observer = nullptr;
  /// Which signals are replaced before they are passed on. A signal stops the command if it, or its
  /// replacement, is a stop signal; one that is not passed on has no effect.
  SignalMap rewrite;
  /// Whether a process that did not stop is made to print its stacks before it is killed (tree.h).
  bool stacks = false;
  bool warn_on_reap = false;  ///< log a line for each reaped orphan
  /// Whether the command gets a new session, with stdin as its controlling terminal.
  bool ctty = false;
};

/// Starts the command, passes signals on, reaps every process that ends, and winds down until nothing that
/// the command started is left. Works as PID 1, and otherwise as a child subreaper. If something is missing
/// or forbidden by seccomp (pidfd, subreaper, /proc), it works without it and logs a warning. After the start
/// nothing ends it early. Children that rankshim already had (from a shell that executed it) are reaped, but
/// neither signalled nor waited for.
///
/// A stop signal that was inherited as ignored is passed on but stops nothing; a launcher that would stop
/// nevertheless does not get it, nor does a program get a HUP (nohup). Once the command has ended, a TERM or
/// HUP can only shorten the remaining time, to Policy::grace, because everything has got its TERM by then;
/// INT (Ctrl-C) or QUIT kills what is left at once. If the command had the terminal, being killed by INT or
/// QUIT is treated as a stop. `command` and `policy` must outlive the call.
boost::asio::awaitable<ExitRecord> supervise(boost::asio::io_context& io, SignalQueue& signals,
                                             const Command& command, const Policy& policy);

}  // namespace rankshim::supervise
