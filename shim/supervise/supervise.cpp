#include "supervise/supervise.h"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <exception>
#include <filesystem>
#include <iterator>
#include <list>
#include <string_view>
#include <system_error>

#include "base/duration.h"
#include "base/fault.h"
#include "base/log.h"
#include "loop/loop.h"
#include "supervise/prepared.h"
#include "supervise/signal_forwarder.h"
#include "supervise/terminal.h"
#include "supervise/tree.h"

namespace rankshim::supervise {
namespace {

using node::Process;
using outcome::StopRequest;
using std::chrono::milliseconds;
using Clock = SignalQueue::Clock;
using Deadline = SignalQueue::Deadline;

constexpr milliseconds kill_again{100};      // a fork during a walk of the tree may have been missed
constexpr milliseconds kill_patience{5000};  // a process that is left after that is stuck in the kernel
constexpr milliseconds try_again{5};         // the pause before retrying what the system refused
constexpr unsigned reaped_at_once = 1000;    // then signals get their turn

/// Changes to / and returns the previous working directory. Staying there would keep its file system busy, so
/// that nobody could unmount it while the command runs, even after the command has left it. Stays, and
/// returns an empty path, if the path is unknown, because there would be no way back.
std::string leave_working_directory() {
  std::error_code unknown;
  std::string path = std::filesystem::current_path(unknown);
  return !path.empty() && chdir("/") == 0 ? path : std::string();
}

std::vector<Command> commands_of(Workers& launcher, const Command& command) {
  std::vector<Command> prepared = launcher.take_prepared();
  return prepared.empty() ? launcher.workers_to_start(command) : prepared;
}

/// Supervises one command from its start to the end of everything it started. What remains to be done is
/// stored in members (deadlines, the signals in `forwarder_`) before it is tried, so that a refused call
/// loses nothing.
class Supervisor {
 public:
  Supervisor(boost::asio::io_context& io, SignalQueue& signals, const Command& command, const Policy& policy)
      : io_(io),
        signals_(signals),
        command_(command),
        policy_(policy),
        launcher_(policy.launcher != nullptr ? *policy.launcher : program_),
        observer_(policy.observer != nullptr ? *policy.observer : nobody_),
        workers_(commands_of(launcher_, command)),
        starts_workers_(!workers_.empty()),
        terminal_(policy.ctty, launcher_.stops_workers() || starts_workers_),
        forwarder_(signals, policy, launcher_, running_) {}

  /// Starts the command; finished() if that failed.
  void start();

  /// Does everything that is due: signals that arrived, orders, deadlines that passed, children that ended.
  /// Once the command runs, only its end may end this.
  void step();
  [[nodiscard]] bool finished() const { return state_ == State::finished; }

  /// When the next thing is due that no signal announces.
  [[nodiscard]] Deadline due() const;

  /// Takes back what was lent to the command. Returns how it ended.
  ExitRecord end();

 private:
  /// The states of supervise.h. `killing` begins before or after the command's end.
  enum class State : std::uint8_t { running, leftovers, killing, finished };

  /// A signal after Policy::rewrite.
  struct Rewritten {
    Signal signal;
    int arrived = 0;    ///< its original number
    bool stop = false;  ///< whether it stops the command, if that runs
  };

  [[nodiscard]] pid_t command_pid() const { return spawns_.front().pid(); }
  [[nodiscard]] bool command_ended() const { return running_.empty(); }
  [[nodiscard]] milliseconds patience() const { return policy_.grace.value_or(default_grace); }
  [[nodiscard]] bool was_killed(int status) const;

  void on_signal(const Signal& arrived);
  void note_signal_for_rankshim(int signal);
  void on_running_signal(const Rewritten& one);
  void on_ignored_or_other(const Rewritten& one);
  void on_first_stop(const Rewritten& one);
  void pass_on(const Rewritten& one);
  void on_stop_of_leftovers(int signal);
  void begin_stop(const StopRequest& stop, std::optional<milliseconds> grace);
  void take_orders();

  void reap();
  void on_child(pid_t pid, int status);
  void on_process_end(int status, bool fails_first);
  void record_end(pid_t pid, int status);
  void record_failed_start(SpawnFailure failed);
  void end_other_workers();
  void on_command_end(int status);
  void leave_time_to_save(int signal);
  void begin_leftovers(milliseconds grace);

  bool kill_in(milliseconds grace);
  void on_kill_due();
  [[nodiscard]] std::string_view why_kill_is_due() const;
  bool asks_for_stacks();
  void name_hanging(const std::vector<Process>& left, std::string_view what_now);
  void kill_all(std::string_view why);
  void give_up();

  /// Does something on which the command's end does not depend; logs an exception that it throws.
  template <class Act>
  void log_exceptions_of(const Act& act) {
    try {
      act();
    } catch (const std::exception& error) {
      loop::go_on_after(error);
    }
  }
  template <class Event>
  void notify(const Event& event) {
    for (Observer* one : {static_cast<Observer*>(&launcher_), &observer_})
      log_exceptions_of([&] { event(*one); });
  }

  boost::asio::io_context& io_;
  SignalQueue& signals_;
  const Command& command_;
  const Policy& policy_;
  Workers program_;  // for a command without workers
  Workers& launcher_;
  Observer nobody_;
  Observer& observer_;
  std::vector<Command> workers_;  // started instead of the command
  const bool starts_workers_;
  Terminal terminal_;
  std::list<Spawn> spawns_;     // of the command, or of the workers
  std::vector<pid_t> running_;  // those that were started and not yet reaped
  SignalForwarder forwarder_;
  State state_ = State::running;
  std::optional<Clock::time_point> failed_at_;  // when the first process failed, whose end is the command's
  bool others_remain_ = false;                  // a worker has failed, but the others are held
  bool interrupted_ = false;                    // by INT
  bool asked_for_stacks_ = false;
  bool leftovers_begun_ = false;
  milliseconds time_for_stacks_{0};

  // The deadlines, in the order in which they are checked; forwarder_ has one more.
  Deadline kill_at_;     // the first KILL, then each repetition
  Deadline give_up_at_;  // not even KILL helped
  Deadline reap_at_;     // a child may have ended
  Deadline save_until_;  // what is left after a notice has had time to save

  std::string working_directory_;  // the one that was left
  bool warned_traced_ = false;
  ExitRecord record_;
};

void Supervisor::start() {
  if (getpid() != 1 && prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0)
    log::warn(
        "cannot become the reaper of orphans ({}): processes that leave the command's process tree will not "
        "end with it",
        std::strerror(errno));
  launcher_.prepare(io_);
  std::vector<Process> prepared;
  const auto note_prepared = [&](const Command& command) {
    if (command.prepared) prepared.push_back(command.prepared->process());
  };
  note_prepared(command_);
  std::ranges::for_each(workers_, note_prepared);
  forwarder_.leave_alone_present_children(prepared);
  record_.started_at = Clock::now();
  if (!starts_workers_) spawns_.emplace_back(command_);
  for (const Command& worker : workers_) spawns_.emplace_back(worker);
  running_.reserve(spawns_.size());
  const Spawn::Start how{.terminal = starts_workers_ ? -1 : terminal_.descriptor(),
                         .new_session = policy_.ctty && !starts_workers_,
                         .detached = starts_workers_,
                         .ignored = policy_.ignored_at_start};
  // From the first start on, nothing may throw: an exception would abandon the command.
  for (Spawn& spawn : spawns_) {
    if (std::optional<SpawnFailure> failed = spawn.start(how)) {
      record_failed_start(*std::move(failed));
      failed_at_ = Clock::now();
      break;
    }
    running_.push_back(spawn.pid());
  }
  if (running_.empty()) {
    state_ = State::finished;
    return;
  }
  workers_ = {};  // their environments may be large
  record_.pid = command_pid();
  if (policy_.time_limit) kill_at_ = record_.started_at + *policy_.time_limit;
  reap_at_ = Clock::now();  // children from before rankshim's exec may have ended
  launcher_.attach([this] { signals_.wake(); }, &observer_);
  if (!policy_.hook) log_exceptions_of([this] { working_directory_ = leave_working_directory(); });
  notify([this](Observer& one) { one.started(running_, record_.started_at, command_.environment); });
  if (failed_at_) end_other_workers();
}

ExitRecord Supervisor::end() {
  log_exceptions_of([this] {
    launcher_.finish();
    record_.workers = launcher_.record();
  });
  launcher_.attach({}, nullptr);
  terminal_.take_back();
  if (!working_directory_.empty() && chdir(working_directory_.c_str()) != 0)
    log::warn("the working directory {} no longer exists ({})", working_directory_, std::strerror(errno));
  if (!record_.ended_at)
    record_.ran = std::chrono::duration_cast<milliseconds>(Clock::now() - record_.started_at);
  return record_;
}

void Supervisor::step() {
  for (Signal signal = signals_.take(); signal.number != 0; signal = signals_.take()) on_signal(signal);
  take_orders();
  if (others_remain_) end_other_workers();
  const auto is_over = [now = Clock::now()](const Deadline& due) { return due && *due <= now; };
  if (is_over(forwarder_.due())) forwarder_.try_again();
  if (is_over(kill_at_)) on_kill_due();
  if (is_over(give_up_at_)) give_up();
  if (is_over(save_until_)) begin_leftovers(policy_.leftover_grace);
  if (is_over(reap_at_)) reap();
}

Deadline Supervisor::due() const {
  Deadline next;
  for (const Deadline& due : {forwarder_.due(), kill_at_, give_up_at_, save_until_, reap_at_})
    if (due && (!next || *due < *next)) next = due;
  return next;
}

void Supervisor::on_signal(const Signal& arrived) {
  if (arrived.number == SIGCHLD) {
    reap_at_ = Clock::now();
    return;
  }
  // This is the HUP of a terminal that rankshim gave up.
  const bool gave_up = arrived.number == SIGHUP || arrived.number == SIGCONT;
  if (gave_up && policy_.ctty && arrived.sender == getpid()) return;
  Signal signal = arrived;
  signal.number = policy_.rewrite.apply(arrived.number);
  if (signal.number == 0) return;
  const bool ignored = inherited_as_ignored(arrived.number);
  const bool stop = (is_stop_signal(arrived.number) && !ignored) ||
                    (signal.number != arrived.number && is_stop_signal(signal.number));
  if (!ignored) note_signal_for_rankshim(arrived.number);
  if (state_ == State::running) {
    on_running_signal({.signal = signal, .arrived = arrived.number, .stop = stop});
  } else if (state_ == State::leftovers && stop) {
    on_stop_of_leftovers(arrived.number);
  }
}

/// Keeps the first one as ExitRecord::signal_for_rankshim; a stop takes precedence over other signals.
void Supervisor::note_signal_for_rankshim(int signal) {
  const bool is_ours = policy_.hook || state_ != State::running;
  if (!is_ours || !terminates_by_default(signal)) return;
  std::optional<int>& kept = record_.signal_for_rankshim;
  if (!kept || (is_stop_signal(signal) && !is_stop_signal(*kept))) kept = signal;
}

void Supervisor::on_running_signal(const Rewritten& one) {
  if (one.signal.number == SIGCONT && terminal_.continue_command(command_pid())) return;
  if (!one.stop) return on_ignored_or_other(one);
  const bool ordered = record_.stop && !record_.stop->from_outside();
  if (ordered && !record_.signal_after_order) record_.signal_after_order = one.arrived;
  const bool interrupted = std::exchange(interrupted_, interrupted_ || one.arrived == SIGINT);
  if (!record_.stop) return on_first_stop(one);
  if (interrupted && one.arrived == SIGINT && (launcher_.stops_workers() || starts_workers_))
    return kill_all("a second SIGINT");
  if (!launcher_.stops_workers()) return pass_on(one);
  log::debug("{} is not passed on: the launcher would restart its wait", signal_name(one.signal.number));
}

/// Handles a stop signal that was inherited as ignored, and signals that do not stop. The former would end
/// what nohup must keep running: torchrun, accelerate and others replace the inherited disposition, inside a
/// program too. INT and QUIT are also ignored in a shell's background jobs, where that has no such meaning.
void Supervisor::on_ignored_or_other(const Rewritten& one) {
  const int number = one.signal.number;
  const bool by_nohup = number == SIGHUP && inherited_as_ignored(SIGHUP);
  const bool would_stop = by_nohup || (launcher_.stops_workers() && is_stop_signal(number));
  if (!would_stop || (policy_.worker_signals & bit(number)) != 0) return pass_on(one);
  log::info("{} is not passed on: it was ignored when rankshim started{}", signal_name(number),
            by_nohup ? " (nohup)" : "");
}

void Supervisor::on_first_stop(const Rewritten& one) {
  pass_on(one);
  log_exceptions_of([&] {
    std::string what = signal_name(one.arrived) + " received and passed on";
    if (one.signal.number != one.arrived) what += " as " + signal_name(one.signal.number);
    if (policy_.grace) what += "; processes that still run are killed after " + seconds(*policy_.grace);
    log::info("{}", what);
  });
  begin_stop({StopRequest::By::signal, one.arrived, Clock::now()}, policy_.grace);
}

void Supervisor::pass_on(const Rewritten& one) {
  try {
    if (one.signal.number == one.arrived && policy_.sent_to_all && policy_.sent_to_all(one.signal))
      return forwarder_.pass_on_to_the_rest(one.signal, one.stop);
  } catch (const std::exception& error) {  // a process may get it twice, but it is not lost
    loop::go_on_after(error);
  }
  forwarder_.pass_on(one.signal, one.stop);
}

/// Handles a stop that arrives during the wait for leftover processes.
void Supervisor::on_stop_of_leftovers(int signal) {
  if (signal == SIGINT || signal == SIGQUIT)
    return kill_all(fmt::format("{} arrived while waiting for leftover processes", signal_name(signal)));
  if (save_until_) return begin_leftovers(patience());
  if (policy_.grace && kill_in(*policy_.grace))
    log::info("{} received: leftover processes are killed in {}", signal_name(signal),
              seconds(*policy_.grace));
}

/// Called when the first stop has been passed on. Everything is killed after `grace`.
void Supervisor::begin_stop(const StopRequest& stop, std::optional<milliseconds> grace) {
  record_.stop = stop;
  if (grace) kill_in(*grace);
  notify([&](Observer& one) { one.stop_passed_on(stop, grace); });
}

void Supervisor::take_orders() {
  while (std::optional<Order> order = launcher_.take_order()) {
    if (state_ != State::running) continue;
    switch (order->kind) {
      case Order::Kind::name_hanging:
        name_hanging(forwarder_.everything(), order->why);
        break;
      case Order::Kind::stop:
        if (record_.stop) break;
        forwarder_.pass_on({.number = SIGTERM}, true);
        begin_stop({StopRequest::By::order, SIGTERM, Clock::now()}, patience());
        break;
      case Order::Kind::kill:
        kill_all(order->why);
        break;
    }
  }
}

void Supervisor::reap() {
  pid_t pid = 0;
  unsigned reaped = 0;
  for (; reaped < reaped_at_once; ++reaped) {
    int status = 0;
    pid = kernel::result(wait4(-1, &status, WNOHANG | WUNTRACED, nullptr));
    if (pid <= 0) break;
    on_child(pid, status);
  }
  if (pid > 0) return;
  if (pid != -ECHILD) loop::throw_on_error(pid, "wait4");
  reap_at_.reset();
  if (pid == -ECHILD) {
    // Without a child, the command's end will never be reported. That must not look like success.
    if (!command_ended() && !failed_at_) {
      record_.kind = ExitRecord::Kind::withheld;
      record_.number = ECHILD;
    }
    record_.leftovers = std::max(record_.leftovers, record_.leftovers_killed);
    state_ = State::finished;
  } else if (command_ended() && forwarder_.nothing_left()) {
    state_ = State::finished;
  } else if (state_ == State::leftovers && !leftovers_begun_ && !save_until_) {
    begin_leftovers(record_.stop ? patience() : policy_.leftover_grace);  // one grace for all of them
  } else if (state_ == State::leftovers && leftovers_begun_ && reaped != 0) {
    forwarder_.stop_what_is_left(false);
  }
}

/// Handles a child that has ended and was reaped, or was suspended.
void Supervisor::on_child(pid_t pid, int status) {
  if (WIFSTOPPED(status)) {
    const bool traced = kernel::detach(pid, WSTOPSIG(status));
    if (traced && !std::exchange(warned_traced_, true))
      log::warn("a process asked rankshim to trace it (PTRACE_TRACEME): rankshim detaches from it");
    if (!traced && !starts_workers_ && !command_ended() && pid == command_pid())
      terminal_.command_stopped(pid, WSTOPSIG(status));
    return;
  }
  const bool is_own = std::erase(running_, pid) != 0;
  const bool fails_first = is_own && status != 0 && !failed_at_;
  // Before the launcher reports a worker's end, because for one that never became its command there is a
  // better reason.
  if (fails_first || (is_own && command_ended() && !failed_at_))
    log_exceptions_of([&] { record_end(pid, status); });
  log_exceptions_of([&] { launcher_.reaped(pid, status); });
  if (is_own) return on_process_end(status, fails_first);
  if (leftovers_begun_ && was_killed(status) && !forwarder_.is_apart(pid)) ++record_.leftovers_killed;
  if (policy_.warn_on_reap) log::warn("reaped an orphan: {}", pid);
}

/// Whether rankshim caused this end, by KILL or by the ABRT for stacks.
bool Supervisor::was_killed(int status) const {
  if (!WIFSIGNALED(status)) return false;
  return (WTERMSIG(status) == SIGKILL && state_ == State::killing) ||
         (WTERMSIG(status) == SIGABRT && asked_for_stacks_);
}

/// Handles the end of the command or of one of the workers.
void Supervisor::on_process_end(int status, bool fails_first) {
  if (fails_first) failed_at_ = Clock::now();
  if (command_ended()) return on_command_end(status);
  if (fails_first) end_other_workers();
}

void Supervisor::record_end(pid_t pid, int status) {
  record_.pid = pid;
  record_.kind = WIFSIGNALED(status) ? ExitRecord::Kind::signalled : ExitRecord::Kind::exited;
  record_.number = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
  record_.killed_by_us = was_killed(status);
  Spawn& spawn = *std::ranges::find(spawns_, pid, &Spawn::pid);
  if (std::optional<SpawnFailure> failed = spawn.failure()) record_failed_start(*std::move(failed));
}

void Supervisor::record_failed_start(SpawnFailure failed) {
  record_.kind = ExitRecord::Kind::not_started;
  record_.number = failed.error;
  record_.failure = std::move(failed);
  log_exceptions_of([this] {
    if (record_.failure.interpreter)
      record_.interpreter = missing_interpreter(record_.failure.path, working_directory_);
    observer_.start_failed(record_);
  });
}

/// Stops the other workers, which would wait for one that is gone. If a stop was passed on, it has already
/// reached them.
void Supervisor::end_other_workers() {
  others_remain_ = launcher_.is_held();
  if (others_remain_ || record_.stop || command_ended()) return;
  kill_in(patience());
  forwarder_.pass_on({.number = SIGTERM}, true);
  log::info("a worker has failed: the others are stopped (SIGTERM), and killed in {}", seconds(patience()));
}

void Supervisor::on_command_end(int status) {
  if (state_ == State::running) state_ = State::leftovers;
  forwarder_.drop_kept();
  // The terminal signalled the command, not rankshim.
  if (WIFSIGNALED(status) && (WTERMSIG(status) == SIGINT || WTERMSIG(status) == SIGQUIT) &&
      (terminal_.descriptor() >= 0 || policy_.ctty) && !starts_workers_ && !record_.stop) {
    record_.stop = {StopRequest::By::signal, WTERMSIG(status), Clock::now()};
    if (policy_.grace) kill_in(*policy_.grace);
  }
  terminal_.take_back();  // otherwise leftovers would get a Ctrl-C that is meant for rankshim
  if (WIFSIGNALED(status)) log_exceptions_of([&] { leave_time_to_save(WTERMSIG(status)); });
  log_exceptions_of([this] { launcher_.command_ended(record_); });
  // The launcher has already handled the workers that ended earlier, so their times are before this one.
  record_.ended_at = Clock::now();
  record_.ran = std::chrono::duration_cast<milliseconds>(*record_.ended_at - record_.started_at);
  log_exceptions_of([this] {
    record_.workers = launcher_.record();
    observer_.command_ended(record_);
  });
}

/// Gives processes time to save their state if a notice ended the command (Slurm's USR1, which reaches a
/// shell directly): it does not tell processes that handle it to stop.
void Supervisor::leave_time_to_save(int signal) {
  if (state_ != State::leftovers || record_.stop || (policy_.worker_signals & bit(signal)) == 0) return;
  std::vector<Process> saving = forwarder_.everything();
  std::erase_if(saving, [signal](const Process& process) {
    const std::optional<SignalMasks> masks = signal_masks(process.pid);
    return !masks || (masks->caught & bit(signal)) == 0;
  });
  if (saving.empty()) return;
  save_until_ = Clock::now() + patience();
  log::warn("the command was killed by {}, which processes below it handle; they have {} to save their state",
            signal_name(signal), seconds(patience()));
}

void Supervisor::begin_leftovers(milliseconds grace) {
  leftovers_begun_ = true;
  save_until_.reset();
  kill_in(grace);
  const std::vector<Process> left = forwarder_.everything();
  record_.leftovers = static_cast<unsigned>(std::ranges::count_if(left, &Process::alive));
  forwarder_.stop_what_is_left(true);
  forwarder_.continue_stopped();
  if (record_.stop && !policy_.grace)
    log::info("leftover processes are stopped (SIGTERM), and killed in {}", seconds(default_grace));
}

/// Schedules the KILL, unless it is already due sooner. Returns whether it did.
bool Supervisor::kill_in(milliseconds grace) {
  const Clock::time_point when = Clock::now() + grace;
  if (kill_at_ && *kill_at_ <= when) return false;
  kill_at_ = when;
  time_for_stacks_ = time_for_stacks(grace);
  return true;
}

void Supervisor::on_kill_due() {
  if (state_ == State::killing) {
    kill_at_ = Clock::now() + kill_again;
    forwarder_.to_all({SIGKILL});
    return;
  }
  bool asked = false;
  log_exceptions_of([&] { asked = asks_for_stacks(); });
  if (!asked) kill_all(why_kill_is_due());
}

std::string_view Supervisor::why_kill_is_due() const {
  if (command_ended()) return "leftover processes did not stop in time";
  if (record_.stop) return "the grace period is over";
  if (failed_at_) return "the other workers did not stop in time";
  return "the time limit is over";
}

/// Names the processes that have not stopped, and makes those with a handler for ABRT print their stacks:
/// Python has one if PYTHONFAULTHANDLER is set (faulthandler in Python's library). Only when the KILL is due,
/// because ABRT ends them. A launcher that still has workers is not asked, because it sees their ends; nor is
/// one whose workers have all ended, because nothing of theirs hangs.
bool Supervisor::asks_for_stacks() {
  if (std::exchange(asked_for_stacks_, true)) return false;
  std::vector<Process> left = forwarder_.everything();
  const auto& workers = launcher_.record().states;
  const bool all_ended = !workers.empty() && std::ranges::all_of(workers, &WorkerState::ended);
  if (launcher_.stops_workers() && (left.size() > 1 || all_ended))
    std::erase_if(left, [this](const Process& process) { return process.pid == command_pid(); });
  std::vector<Process> able;
  if (policy_.stacks)
    std::ranges::copy_if(left, std::back_inserter(able), [](const Process& process) {
      const std::optional<SignalMasks> masks = signal_masks(process.pid);
      return masks && (masks->caught & bit(SIGABRT)) != 0;
    });
  const bool is_late = (record_.stop || failed_at_) && !command_ended();
  if (!able.empty() || (is_late && !record_.not_stopped))
    name_hanging(left, able.empty() ? "" : ": asked for stacks by SIGABRT, then killed");
  if (able.empty()) return false;
  // If a pid belongs to another process by now, this does no harm.
  for (const Process& process : able) kernel::forbid_core(process.pid);
  send_each(able, {SIGABRT});
  kill_at_ = Clock::now() + time_for_stacks_;
  return true;
}

void Supervisor::name_hanging(const std::vector<Process>& left, std::string_view what_now) {
  NotStopped found{.processes = find_hanging(left, launcher_.record().states)};
  if (found.processes.empty()) return;
  Clock::time_point since = failed_at_.value_or(record_.started_at);
  if (record_.stop) since = record_.stop->when;
  if (command_ended()) since = record_.ended_at.value_or(record_.started_at);
  found.after = std::chrono::duration_cast<milliseconds>(Clock::now() - since);
  log::warn("{} did not stop in {}{}", in_words(found.processes), hours_and_minutes(found.after), what_now);
  if (!command_ended()) record_.not_stopped = std::move(found);
}

void Supervisor::kill_all(std::string_view why) {
  state_ = State::killing;
  kill_at_ = Clock::now() + kill_again;
  give_up_at_ = Clock::now() + kill_patience;
  forwarder_.to_all({SIGKILL});
  log::warn("{}: rankshim kills everything", why);
}

/// Names the processes that not even KILL ends, because they wait in the kernel for a dead file server or a
/// driver.
void Supervisor::give_up() {
  state_ = State::finished;
  if (!command_ended()) {
    record_.kind = ExitRecord::Kind::signalled;
    record_.number = SIGKILL;
    record_.killed_by_us = true;
  }
  record_.left_behind = find_hanging(forwarder_.everything());
  log::warn("SIGKILL has not ended the leftover processes within {}; they are left behind: {}",
            seconds(kill_patience),
            record_.left_behind.empty() ? "/proc does not show them" : in_words(record_.left_behind));
}

}  // namespace

int exit_code_of(const ExitRecord& record) {
  using Kind = ExitRecord::Kind;
  if (record.kind == Kind::exited) return record.number;
  if (record.kind == Kind::signalled)
    return exit_code::signal_base + (record.killed_by_us ? SIGKILL : record.number);
  if (record.kind == Kind::withheld || record.failure.call != SpawnFailure::Call::execve)
    return exit_code::system;
  return exit_code_of_exec(record.number);
}

int exit_code_of_status(int status) {
  return WIFSIGNALED(status) ? exit_code::signal_base + WTERMSIG(status) : WEXITSTATUS(status);
}

boost::asio::awaitable<ExitRecord> supervise(boost::asio::io_context& io, SignalQueue& signals,
                                             const Command& command, const Policy& policy) {
  Supervisor supervisor(io, signals, command, policy);
  supervisor.start();
  while (!supervisor.finished()) {
    // The command runs: what is refused now is retried, and ends nothing.
    try {
      supervisor.step();
      if (!supervisor.finished()) co_await signals.wait(supervisor.due());
    } catch (const std::exception& error) {
      loop::go_on_after(error);
      poll(nullptr, 0, static_cast<int>(try_again.count()));  // do not spin
    }
  }
  co_return supervisor.end();
}

}  // namespace rankshim::supervise
