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

/// PID 1, and its interface to whatever starts workers: it knows no launcher.
///
/// A supervised command is in one of four states:
///
/// - running: the command, or one of its workers, is not reaped yet. Signals are passed on. The first stop
///   (a signal or an order) begins the grace. When one of several workers fails, the others are stopped.
/// - leftovers: the command has ended, and what it started may still run. What handles the notice that ended
///   the command has time to save. Then everything gets TERM, and the leftover grace begins.
/// - killing: everything gets KILL, and again every 100 ms, because a walk may have missed a fork.
/// - finished: nothing is left, or what is left is stuck in the kernel.
///
/// What leads from one to another:
///
///     running    the system refuses the command's start              → finished
///     running    the command, or the last of its workers, is reaped  → leftovers
///     running    its grace is over; a second INT; an order to kill   → killing
///     leftovers  nothing is left                                     → finished
///     leftovers  its grace is over; INT or QUIT                      → killing
///     killing    nothing is left                                     → finished
///     killing    five seconds have passed                            → finished
///
/// The command's end in the state killing does not lead back to leftovers. A process that has a handler for
/// ABRT shows its stacks before the first KILL. Each deadline is stored before it is acted on, so that a call
/// that the system refuses is tried again, and no state is left too early.
namespace rankshim::supervise {

/// Observer is notified of what happens while the command runs. Every call comes from the event loop and must
/// return at once. An exception that it throws is logged, and changes nothing for the command.
class Observer : boost::noncopyable {
 public:
  using Clock = std::chrono::steady_clock;

  virtual ~Observer() = default;

  /// The command runs since `when` with this environment, which stays valid. `processes` has its process
  /// number, or those of the workers that were started instead: fewer than planned if the system refused one.
  virtual void started(const std::vector<pid_t>& /*processes*/, Clock::time_point /*when*/,
                       const std::vector<std::string>& /*environment*/) {}
  /// The command, or one of its workers, could not be started; the record says why. The end of that process,
  /// if there is one, comes after this.
  virtual void start_failed(const ExitRecord& /*record*/) {}
  /// Workers are seen that were not before. This comes from the launcher.
  virtual void workers_seen() {}
  /// A worker has ended, as soon as the kernel shows it. This comes from the launcher.
  virtual void worker_ended(const WorkerEnd& /*worker*/) {}
  /// The first stop signal was passed on to the command. Processes that are left after `grace` are killed.
  virtual void stop_passed_on(const outcome::StopRequest& /*stop*/,
                              std::optional<std::chrono::milliseconds> /*grace*/) {}
  /// The command itself has exited; workers and leftover processes may still run.
  virtual void command_ended(const ExitRecord& /*record*/) {}
};

/// Order is something that the supervisor of a running command must do.
struct Order {
  enum class Kind : std::uint8_t {
    name_hanging,  ///< log what has not stopped; `why` follows it in the line
    stop,          ///< as if a TERM had come
    kill,          ///< kill everything; `why` begins the line
  };
  Kind kind = Kind::stop;
  std::string why;  ///< empty for stop
};

/// Workers is the interface that supervise() asks about the workers of a command. This base class is a
/// program without workers; each launcher overrides it. All calls come from the event loop, between the
/// command's start and the end of everything that it started, and none may block.
class Workers : public Observer {
 public:
  /// Called once: the workers to start instead of the command, sorted by local rank, each in a new session.
  /// Empty: the command is started. The first worker that fails stops the others, and its end is treated as
  /// the command's.
  [[nodiscard]] virtual std::vector<Command> workers_to_start(const Command& /*command*/) { return {}; }

  /// The commands that workers_to_start() has returned before the supervisor asks, and that were started
  /// early (prepared.h): they take the place of its answer.
  void set_prepared(std::vector<Command> commands) { prepared_ = std::move(commands); }
  [[nodiscard]] std::vector<Command> take_prepared() { return std::exchange(prepared_, {}); }
  /// Whether what they were planned with can still be had, a while later.
  [[nodiscard]] virtual bool can_still_start() const { return true; }

  /// The command is about to be started. A watch that begins here misses nothing.
  virtual void prepare(boost::asio::io_context& /*io*/) {}

  /// Which processes are workers, and how each ended.
  [[nodiscard]] const WorkerRecord& record() const { return record_; }

  /// The workers of the last set that run, as far as they are known.
  [[nodiscard]] virtual std::vector<WorkerState> running_workers() const {
    std::vector<WorkerState> running = record_.states;
    std::erase_if(running, [](const WorkerState& worker) { return worker.ended; });
    return running;
  }

  /// Whether the command starts its workers itself, and stops them when it gets a stop signal. If so, it gets
  /// no second one and none that it should ignore; a second INT kills everything. It is not in the terminal's
  /// foreground, so that Ctrl-C sends its signal to rankshim and not to the workers as well. Its stacks are
  /// not printed while workers hang.
  [[nodiscard]] virtual bool stops_workers() const { return false; }
  /// The running workers that get one of Policy::worker_signals. nullopt for a program: the processes of its
  /// tree that handle the signal get it.
  [[nodiscard]] virtual std::optional<std::vector<node::Process>> receivers() const { return std::nullopt; }
  /// The workers that get this stop instead of the command, which ends after them; empty: the command gets
  /// it.
  [[nodiscard]] virtual std::vector<node::Process> receivers_of_stop(int /*signal*/) { return {}; }

  /// A process was reaped, with this wait status: the command, a worker, or one that the command had left.
  virtual void reaped(pid_t /*process*/, int /*status*/) {}
  /// Everything has ended: stops all watches.
  virtual void finish() {}
  /// Whether the workers' last output is still being written, after everything has ended.
  [[nodiscard]] virtual bool has_output() const { return false; }

  /// An order of the launcher or of other nodes, to be given on the event loop. It is carried out in the
  /// supervisor's next step. One that comes before the command's start is carried out when it runs, and one
  /// that comes when it is being killed or has ended is dropped.
  void give(Order order) {
    orders_.push_back(std::move(order));
    if (wake_) wake_();
  }
  /// The oldest order that was not taken yet; nullopt if there is none.
  std::optional<Order> take_order() {
    if (orders_.empty()) return std::nullopt;
    Order order = std::move(orders_.front());
    orders_.erase(orders_.begin());
    return order;
  }
  /// While somebody holds them, one worker's failure does not stop the others, which are looked at. Each
  /// hold() is followed by a release() a moment later.
  void hold() { ++holds_; }
  void release() {
    --holds_;
    if (wake_) wake_();
  }
  [[nodiscard]] bool is_held() const { return holds_ != 0; }
  /// For the supervisor: `wake` is called for each order, and makes it take its next step; `observer` gets
  /// the ends of workers. It outlives the command.
  void attach(std::function<void()> wake, Observer* observer) {
    wake_ = std::move(wake);
    observer_ = observer;
  }

 protected:
  /// Notifies the observer of further workers.
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

/// Policy is how a command is supervised.
struct Policy {
  SignalScope scope = SignalScope::handlers;
  /// The time from passing a stop signal on until everything is killed; nullopt: no limit.
  std::optional<std::chrono::milliseconds> grace;
  /// The time between SIGTERM and SIGKILL for leftover processes, once the command has exited.
  std::chrono::milliseconds leftover_grace{5000};
  /// Children of rankshim that are not the command's, and may come and go while it runs: reaped, but neither
  /// signalled nor waited for. Empty: there are none.
  std::function<std::vector<node::Process>()> apart;
  /// The command's workers; null for a program that has none.
  Workers* launcher = nullptr;
  /// Signals that announce something (Slurm's USR1 before the time limit), of which most launchers die. They
  /// go to the workers instead of the command, and in a program with SignalScope::handlers to the processes
  /// that handle them. While there is none, or one of the workers cannot take it, such a signal is kept.
  SignalSet worker_signals = 0;
  /// Signals that the command ignores at its start, because they reach it directly too (scancel signals every
  /// process of a step). A handler replaces that, except in a shell (POSIX, trap). Workers inherit it, so a
  /// worker can take such a signal only once it has a handler.
  SignalSet ignored_at_start = 0;
  /// Whether the sender of a signal has sent it to everything below rankshim as well; empty: never.
  std::function<bool(const Signal&)> sent_to_all;
  /// The command is not the job but a hook or a helper: a signal that comes while it runs is also reported as
  /// ExitRecord::late_signal.
  bool hook = false;
  /// How long the command may run before everything is killed; nullopt: no limit.
  std::optional<std::chrono::milliseconds> time_limit;
  /// The observer; may be null.
  Observer* observer = nullptr;
  /// Which signals are replaced before they are passed on. A signal stops the command if it, or its
  /// replacement, asks to stop; one that is not passed on has no effect.
  SignalMap rewrite;
  /// A process that did not stop shows its stacks before it is killed (tree.h).
  bool stacks = false;
  bool warn_on_reap = false;  ///< a line for each orphan that was reaped
  /// The command gets a new session, with stdin as its controlling terminal.
  bool ctty = false;
};

/// Starts the command, passes signals on, reaps every process that ends, and winds down until nothing that
/// the command started is left. It works as PID 1 and, as child subreaper, also otherwise. If the kernel or
/// seccomp lacks something (pidfd, subreaper, /proc), it works without it and logs a warning. After the start
/// nothing ends it early. Children that rankshim had before (of a shell that executed it) are reaped, but
/// neither signalled nor waited for.
///
/// A stop signal that was inherited as ignored is passed on and stops nothing; a launcher that would stop
/// nevertheless does not get it, nor does a program get a HUP (nohup). Once the command has ended, a TERM or
/// HUP can only shorten the remaining time, to Policy::grace, because everything has got its TERM by then;
/// INT (Ctrl-C) or QUIT kills what is left at once. If the command had the terminal, its end by INT or QUIT
/// is treated as a stop. `command` and `policy` must live until the end.
boost::asio::awaitable<ExitRecord> supervise(boost::asio::io_context& io, SignalQueue& signals,
                                             const Command& command, const Policy& policy);

}  // namespace rankshim::supervise
