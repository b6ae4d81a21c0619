#include "init/supervise.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <exception>
#include <string_view>
#include <utility>

#include "base/exit_code.h"
#include "base/log.h"
#include "base/seconds.h"
#include "init/delivery.h"
#include "init/kernel.h"
#include "init/last_resort.h"
#include "init/observer.h"
#include "init/stacks.h"
#include "init/terminal.h"
#include "init/tree.h"
#include "init/working_directory.h"
#include "wait/loop_failed.h"

namespace rankshim::supervise {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds grace_after_stop{30'000};  // for leftovers, where no --grace is given
constexpr milliseconds kill_again{100};           // a fork may have slipped through a walk of the tree
constexpr milliseconds kill_patience{5000};       // what is there after that sits in the kernel
constexpr milliseconds try_again{5};              // a refused call
constexpr milliseconds a_while{1000};             // then a call that is refused is refused for ever
constexpr milliseconds look_at_proc_again{50};
constexpr unsigned reaped_at_once = 1000;  // then signals get their turn

enum class Phase : std::uint8_t { running, leftovers, killing, finished };

/// One command from its start to the end of all it started. Whatever is still to be done lies in members
/// (`reap_due_`, the deadlines, what `delivery_` holds) before it is tried: what Asio throws on the way
/// loses none of it.
class Supervisor {
 public:
  Supervisor(boost::asio::io_context& io, SignalQueue& signals, const Command& command, const Policy& policy)
      : io_(io),
        signals_(signals),
        command_(command),
        policy_(policy),
        launcher_(policy.launcher != nullptr ? *policy.launcher : program_),
        timer_(io),
        terminal_(policy.ctty, launcher_.stops_workers()),
        spawn_(command),
        delivery_(signals, policy.scope, launcher_) {}

  Ending run();

 private:
  using Deadline = std::optional<Clock::time_point>;

  /// The rows of the table of deadlines, in the order in which they are looked at.
  enum Row : std::size_t {
    reap_again,     ///< the kernel refused to tell
    deliver_again,  ///< the kernel refused a signal
    end_of_delay,   ///< a TERM has waited for --pre-stop-delay
    look,           ///< the launcher's
    ask_for_stack,  ///< a moment before the KILL
    kill,           ///< the first, and those that follow
    leave_behind,   ///< not even KILL helps
    rows,
  };

  void step();
  void listen();
  boost::asio::awaitable<void> receive();
  void step_without_loop();
  void finish_launcher();
  void stop_listening();
  void arm_timer();
  void act_on_deadlines();
  void on_reap_again() { reap_due_ = true; }
  void on_deliver_again() { delivery_.try_again(); }

  void on_signal(const Received& arrived);
  void on_running_signal(const Received& signal, bool stop, int arrived);
  void on_stop(int arrived, int passed_on, bool delayed);
  [[nodiscard]] bool delays(int signal) const;
  void pass_on_delayed();
  void stop_was_passed_on();
  void look_at_command();

  void reap();
  void reap_by_proc(int refusal);
  void on_command_end(int status);
  void on_orphan_end(pid_t pid, int status);
  [[nodiscard]] bool was_killed(int status) const;
  void on_command_stopped(int signal);
  void continue_command();
  void stop_as_by_term();
  void not_started(const SpawnFailure& failed);
  void begin_leftovers();
  void kill_by(Clock::time_point start, milliseconds grace);
  void show_stacks();
  void on_kill_due();
  void tell_who_hangs(const std::vector<Process>& left, std::string_view what_now);
  void kill_all(std::string_view why);
  void give_up();

  void warn_once(bool& warned, std::string_view what, int error) const;

  boost::asio::io_context& io_;
  SignalQueue& signals_;
  const Command& command_;
  const Policy policy_;
  Launcher program_;  // that has no workers
  Launcher& launcher_;
  boost::asio::steady_timer timer_;
  Deadline timer_set_for_;
  boost::asio::cancellation_signal stop_listening_;
  bool listening_ = false;

  Terminal terminal_;
  Spawn spawn_;
  Delivery delivery_;
  Phase phase_ = Phase::running;
  bool command_ended_ = false;  // and reaped: its number may belong to another process
  bool reap_due_ = false;
  Clock::time_point started_;
  std::optional<Received> delayed_;  // a TERM that waits for --pre-stop-delay
  bool stopping_ = false;            // a stop signal came to us while the command ran
  bool interrupted_ = false;         // by INT
  bool command_stopped_ = false;     // by the terminal
  bool asked_for_stacks_ = false;
  bool looked_at_leftovers_ = false;

  std::array<Deadline, rows> due_;

  WorkingDirectory working_directory_;
  bool observed_ = false;
  bool loop_failed_ = false;  // and never comes back
  std::optional<Clock::time_point> reaping_refused_since_;
  bool reaps_by_proc_ = false;
  bool warned_reap_ = false;
  bool warned_traced_ = false;
  bool warned_exception_ = false;
  Ending ending_;
};

Ending Supervisor::run() {
  if (getpid() != 1 && policy_.subreaper) {
    const int done = kernel::become_subreaper();
    if (done < 0) {
      log::warn(
          "cannot become the reaper of orphans ({}): what leaves the command's process tree is not ended "
          "with it",
          std::strerror(-done));
    }
  }
  delivery_.leave_alone_present_children();
  started_ = Clock::now();
  ending_.started_at = started_;
  if (const std::optional<SpawnFailure> failed = spawn_.start({.terminal = terminal_.descriptor(),
                                                               .new_session = policy_.ctty,
                                                               .death_signal = policy_.child_death_signal,
                                                               .no_new_privs = policy_.no_new_privs})) {
    not_started(*failed);
    return ending_;
  }
  delivery_.begin(spawn_.pid());
  if (!policy_.hook) {
    last_resort::command_runs(
        spawn_.pid(), policy_.scope == SignalScope::child ? spawn_.pid() : -spawn_.pid(), policy_.grace);
  }
  ending_.pid = spawn_.pid();
  if (policy_.limit) due_[kill] = started_ + *policy_.limit;
  if (!policy_.hook) working_directory_.leave();  // hooks are short
  launcher_.started(io_, spawn_.pid(), started_, command_.environment);
  reap_due_ = true;  // children from before our exec may have ended
  while (phase_ != Phase::finished) step();

  timer_.cancel();
  stop_listening();
  terminal_.take_back();
  working_directory_.come_back();
  return ending_;
}

void Supervisor::stop_listening() {
  // From inside of the loop, where it takes effect at once: Boost 1.81 posts what is emitted outside, by the
  // address of something that may belong to the next command (after a hook) by then.
  bool told = false;
  boost::asio::post(io_, [&] {
    if (listening_) stop_listening_.emit(boost::asio::cancellation_type::terminal);
    told = true;
  });
  constexpr int most_steps = 1000;  // of a loop that cannot wait: there is nothing to wait for
  for (int steps = 0; (listening_ || !told) && !(loop_failed_ && steps == most_steps); ++steps) step();
}

// Once the command runs nothing may end us but its end: whatever is thrown is said once, and the loop goes
// on.
void Supervisor::step() {
  try {
    if (loop_failed_ && phase_ != Phase::finished) return step_without_loop();
    if (!listening_ && phase_ != Phase::finished) listen();
    if (policy_.observer != nullptr && !observed_) {
      observed_ = true;
      policy_.observer->started(spawn_.pid());
    }
    arm_timer();
    if (io_.stopped()) io_.restart();
    if (reap_due_) {
      io_.poll_one();
    } else {
      io_.run_one();
    }
    act_on_deadlines();
    if (reap_due_) reap();
    if (phase_ == Phase::finished) finish_launcher();
  } catch (const LoopFailed& error) {
    if (!std::exchange(loop_failed_, true))
      log::warn("the system refuses to wait for events ({}): from here on only signals and ends are followed",
                error.code().message());
  } catch (const std::exception& error) {
    if (!warned_exception_) log::warn("supervision goes on after an error of its own: {}", error.what());
    warned_exception_ = true;
    // Should it be lasting: not at full speed, and the command's end is noticed even if signals cannot be
    // read.
    poll(nullptr, 0, static_cast<int>(try_again.count()));
    reap_due_ = true;
  }
}

/// Signals by another call, and ends by looking: without pidfds, inotify and questions for our status.
void Supervisor::step_without_loop() {
  arm_timer();
  const Clock::time_point look_again = Clock::now() + a_while;
  const auto time = std::min(timer_set_for_.value_or(look_again), look_again) - Clock::now();
  const auto left = std::max(std::chrono::ceil<milliseconds>(time), milliseconds(1));
  if (const Received signal = signals_.take(left); signal.number != 0) on_signal(signal);
  act_on_deadlines();
  reap();
  if (phase_ == Phase::finished) finish_launcher();
}

void Supervisor::finish_launcher() {
  launcher_.finish();
  ending_.workers = launcher_.record();
}

void Supervisor::listen() {
  boost::asio::co_spawn(
      io_, receive(),
      boost::asio::bind_cancellation_slot(stop_listening_.slot(), [this](const std::exception_ptr& error) {
        listening_ = false;
        if (error && phase_ != Phase::finished) std::rethrow_exception(error);
      }));
  listening_ = true;
}

boost::asio::awaitable<void> Supervisor::receive() {
  while (phase_ != Phase::finished) {
    if (const Received signal = co_await signals_.next(); signal.number != 0) on_signal(signal);
  }
}

// Once all is over no deadline counts any more: the last steps only take the listening back, and one that
// passes meanwhile (the next KILL's) would begin the end anew.
void Supervisor::arm_timer() {
  if (phase_ == Phase::finished) return;
  due_[deliver_again] = delivery_.due();
  due_[look] = phase_ == Phase::running && !command_ended_ ? launcher_.due() : std::nullopt;
  Deadline next;
  for (const Deadline& due : due_) {
    if (due && (!next || *due < *next)) next = due;
  }
  if (next == timer_set_for_) return;
  timer_set_for_.reset();
  if (next) {
    timer_.expires_at(*next);
    timer_.async_wait(
        [](const boost::system::error_code&) {});  // to wake the loop, which then looks at the deadlines
  } else {
    timer_.cancel();
  }
  timer_set_for_ = next;
}

void Supervisor::act_on_deadlines() {
  if (!timer_set_for_ || phase_ == Phase::finished) return;
  const Clock::time_point now = Clock::now();
  if (*timer_set_for_ <= now) timer_set_for_.reset();  // it has fired: what is still due then needs it anew
  constexpr std::array<void (Supervisor::*)(), rows> acts = {
      &Supervisor::on_reap_again,   &Supervisor::on_deliver_again, &Supervisor::pass_on_delayed,
      &Supervisor::look_at_command, &Supervisor::show_stacks,      &Supervisor::on_kill_due,
      &Supervisor::give_up};
  for (std::size_t row = 0; row < rows; ++row) {
    if (!due_[row] || *due_[row] > now) continue;
    due_[row].reset();
    (this->*acts[row])();
  }
}

void Supervisor::on_kill_due() {
  if (phase_ == Phase::killing) {
    due_[kill] = Clock::now() + kill_again;
    delivery_.to_all(SIGKILL);
    return;
  }
  if (const std::optional<std::vector<Process>> left = delivery_.everything();
      left && ending_.stop_signal && !command_ended_ && !asked_for_stacks_)
    tell_who_hangs(*left, "");
  kill_all(command_ended_        ? "what the command left did not end in its time"
           : ending_.stop_signal ? "the grace is over"
                                 : "its time is over");
}

// ---- signals ----

void Supervisor::on_signal(const Received& arrived) {
  last_resort::settle(arrived.number);
  if (arrived.number == SIGCHLD) {
    reap_due_ = true;
    return;
  }
  // A terminal that we gave up.
  const bool gave_up =
      policy_.ctty && (arrived.number == SIGHUP || arrived.number == SIGCONT) && arrived.sender == getpid();
  if (gave_up || is_of_our_own_making(arrived)) return;
  Received signal = arrived;
  signal.number = policy_.rewrite.apply(arrived.number);
  if (signal.number == 0) return;
  const bool stop = (asks_to_stop(arrived.number) && !inherited_as_ignored(arrived.number)) ||
                    (signal.number != arrived.number && asks_to_stop(signal.number));
  // Between its end and the look at what it left: who asks then has not stopped it.
  const Phase phase = command_ended_ && phase_ == Phase::running ? Phase::leftovers : phase_;
  const bool first =
      !ending_.late_signal || (asks_to_stop(arrived.number) && !asks_to_stop(*ending_.late_signal));
  if ((policy_.hook || phase != Phase::running) && first && ends_by_default(arrived.number) &&
      !inherited_as_ignored(arrived.number))
    ending_.late_signal = arrived.number;
  switch (phase) {
    case Phase::running:
      on_running_signal(signal, stop, arrived.number);
      return;
    case Phase::leftovers:
      if (!stop) return;
      if (arrived.number == SIGINT || arrived.number == SIGQUIT) {
        kill_all(fmt::format("{} came while waiting for what the command left", signal_name(arrived.number)));
      } else if (policy_.grace) {
        const Deadline before = due_[kill];
        kill_by(Clock::now(), *policy_.grace);
        if (due_[kill] != before)
          log::info("{} received; what the command left is killed in {}", signal_name(arrived.number),
                    seconds(*policy_.grace));
      }
      return;
    case Phase::killing:
    case Phase::finished:
      return;
  }
}

void Supervisor::on_running_signal(const Received& signal, bool stop, int arrived) {
  if (signal.number == SIGCONT && command_stopped_) return continue_command();
  // It would end what nohup is to keep.
  if (!stop && launcher_.stops_workers() && asks_to_stop(signal.number) &&
      !launcher_.is_for_workers(signal.number))
    return;
  if (!stop) return delivery_.pass_on(signal);
  const bool interrupted = std::exchange(interrupted_, interrupted_ || arrived == SIGINT);
  if (!ending_.stop_signal) {
    last_resort::owe(signal.number);
    const bool delayed = delays(arrived);
    if (delayed) {
      delayed_ = signal;
      due_[end_of_delay] = Clock::now() + policy_.pre_stop_delay;
    } else {
      last_resort::settle(signal.number);
      delivery_.pass_on(signal);
    }
    return on_stop(arrived, signal.number, delayed);
  }
  const bool was_delayed = delayed_.has_value();
  pass_on_delayed();
  if (launcher_.stops_workers() && interrupted && arrived == SIGINT) return kill_all("a second SIGINT");
  if (launcher_.stops_workers()) {
    log::debug("{} is not passed on: the launcher would start its waiting anew", signal_name(signal.number));
  } else if (!was_delayed || arrived != SIGTERM) {
    delivery_.pass_on(signal);
  }
}

void Supervisor::on_stop(int arrived, int passed_on, bool delayed) {
  const Clock::time_point now = Clock::now();
  launcher_.stop_came();
  stopping_ = true;
  ending_.stop_signal = arrived;
  if (!delayed) ending_.stopped_at = now;
  if (policy_.grace) {
    kill_by(now, *policy_.grace);
    if (!policy_.hook) last_resort::kill_at(*due_[kill]);
  }
  if (!delayed) stop_was_passed_on();
  std::string what = signal_name(arrived) + " received and passed on";
  if (passed_on != arrived) what += " as " + signal_name(passed_on);
  if (delayed) what += " in " + seconds(policy_.pre_stop_delay);
  if (policy_.grace) what += "; what is left in " + seconds(*policy_.grace) + " is killed";
  log::info("{}", what);
  if (policy_.observer != nullptr) policy_.observer->stopping(arrived);
}

/// Not while nobody is served yet.
bool Supervisor::delays(int signal) const {
  return signal == SIGTERM && policy_.pre_stop_delay.count() != 0 && launcher_.has_work();
}

void Supervisor::pass_on_delayed() {
  due_[end_of_delay].reset();
  if (!delayed_) return;
  delivery_.pass_on(*std::exchange(delayed_, std::nullopt));
  ending_.stopped_at = Clock::now();
  stop_was_passed_on();
}

void Supervisor::stop_was_passed_on() { launcher_.stop_passed_on(*ending_.stop_signal, policy_.grace); }

// ---- what the launcher asks for ----

void Supervisor::look_at_command() {
  if (phase_ != Phase::running || command_ended_) return;
  const Request request = launcher_.look();
  switch (request.kind) {
    case Request::Kind::nothing:
      return;
    case Request::Kind::name_hanging:
      if (const std::optional<std::vector<Process>> left = delivery_.everything())
        tell_who_hangs(*left, request.text);
      return;
    case Request::Kind::stop:
      return stop_as_by_term();
    case Request::Kind::kill:
      return kill_all(request.text);
  }
}

void Supervisor::stop_as_by_term() {
  const Clock::time_point now = Clock::now();
  ending_.stop_signal = SIGTERM;
  ending_.stopped_at = now;
  stopping_ = true;
  Received stop;
  stop.number = SIGTERM;
  delivery_.pass_on(stop);
  kill_by(now, policy_.grace.value_or(grace_after_stop));
  stop_was_passed_on();
  if (policy_.observer != nullptr) policy_.observer->stopping(SIGTERM);
}

// ---- ends ----

void Supervisor::reap() {
  for (unsigned reaped = 0; reaped < reaped_at_once; ++reaped) {
    int status = 0;
    bool let_go = false;
    const pid_t pid = kernel::reap(status, terminal_.is_there(), let_go);
    if (let_go) {
      if (!std::exchange(warned_traced_, true))
        log::warn(
            "a process asked to be traced by rankshim (PTRACE_TRACEME): rankshim traces nothing and lets it "
            "go");
    }
    if (pid >= 0) reaping_refused_since_.reset();
    if (pid > 0) {
      const bool command = pid == spawn_.pid() && !command_ended_;
      if (WIFSTOPPED(status)) {
        if (command) on_command_stopped(WSTOPSIG(status));
      } else if (command) {
        on_command_end(status);
      } else {
        launcher_.reaped(pid, status);
        on_orphan_end(pid, status);
      }
      continue;
    }
    reap_due_ = false;
    if (pid == -ECHILD) {
      // Without a child nobody will tell of the command's end any more: that must not look like success.
      if (!command_ended_) {
        ending_.kind = Ending::Kind::withheld;
        ending_.number = ECHILD;
      }
      ending_.leftovers = std::max(ending_.leftovers, ending_.leftovers_killed);
      phase_ = Phase::finished;
    } else if (pid < 0) {
      due_[reap_again] = Clock::now() + try_again;
      warn_once(warned_reap_, "cannot ask for ended processes", pid);
      reap_by_proc(pid);
    } else if (command_ended_ && delivery_.nothing_left()) {
      phase_ = Phase::finished;
    } else if (command_ended_ && phase_ == Phase::running) {
      begin_leftovers();
    }
    return;
  }
}

/// Where the kernel has refused to tell for a second: /proc says who is a zombie, and with which status.
/// Without /proc nobody will ever tell of the end, and everything is ended.
void Supervisor::reap_by_proc(int refusal) {
  const Clock::time_point now = Clock::now();
  if (!reaping_refused_since_) reaping_refused_since_ = now;
  if (now - *reaping_refused_since_ < a_while) return;
  due_[reap_again] = now + look_at_proc_again;
  if (!std::exchange(reaps_by_proc_, true))
    log::warn("the system refuses to tell of ended processes ({}): /proc is asked instead",
              std::strerror(-refusal));
  const std::optional<std::vector<Process>> all = delivery_.everything();
  if (!all) {
    if (phase_ != Phase::killing) kill_all("nothing tells of ended processes");
    return;
  }
  const auto command = std::ranges::find(*all, spawn_.pid(), &Process::pid);
  if (!command_ended_ && (command == all->end() || !command->alive())) {
    const std::optional<int> status = zombie_status(spawn_.pid());
    on_command_end(status.value_or(0));
    if (!status) {
      ending_.kind = Ending::Kind::withheld;
      ending_.number = -refusal;
    }
  }
  if (!command_ended_) return;
  if (std::ranges::none_of(*all, &Process::alive))
    phase_ = Phase::finished;
  else if (phase_ == Phase::running)
    begin_leftovers();
}

/// Whether this end is our work: by KILL, or by the ABRT that is to show stacks.
bool Supervisor::was_killed(int status) const {
  if (!WIFSIGNALED(status)) return false;
  return (WTERMSIG(status) == SIGKILL && phase_ == Phase::killing) ||
         (WTERMSIG(status) == SIGABRT && asked_for_stacks_);
}

void Supervisor::on_orphan_end(pid_t pid, int status) {
  if (looked_at_leftovers_ && was_killed(status)) ++ending_.leftovers_killed;
  if (policy_.warn_on_reap) log::warn("reaped a process that its parent had left: {}", pid);
}

/// By Ctrl-Z, or by reading or writing in the background: who waits for us is to see us stopped, with the
/// terminal ours again. Where nobody can ever continue us the kernel lets nobody stop; nor may the command.
void Supervisor::on_command_stopped(int signal) {
  if (signal != SIGTSTP && signal != SIGTTIN && signal != SIGTTOU) return;
  command_stopped_ = true;
  // A launcher that reads what is typed, or lets its workers (torch 1.13).
  if (signal != SIGTSTP && terminal_.share(spawn_.pid())) return continue_command();
  terminal_.take_back();
  if (kernel::stop_self() == 0) continue_command();
}

void Supervisor::continue_command() {
  command_stopped_ = false;
  terminal_.lend(spawn_.pid());
  kernel::send(-spawn_.pid(), SIGCONT);
}

void Supervisor::on_command_end(int status) {
  command_ended_ = true;
  delivery_.command_ended();
  ending_.ran = std::chrono::duration_cast<milliseconds>(Clock::now() - started_);
  due_[end_of_delay].reset();
  if (std::exchange(delayed_, std::nullopt)) {  // nobody had asked the command to stop
    ending_.late_signal = std::exchange(ending_.stop_signal, std::nullopt);
    stopping_ = false;
  }
  // Its terminal asked it, and not us.
  if (WIFSIGNALED(status) && (WTERMSIG(status) == SIGINT || WTERMSIG(status) == SIGQUIT) &&
      (terminal_.descriptor() >= 0 || policy_.ctty) && !ending_.stop_signal) {
    ending_.stop_signal = WTERMSIG(status);
    ending_.stopped_at = Clock::now();
    stopping_ = true;
    if (policy_.grace) kill_by(*ending_.stopped_at, *policy_.grace);
  }
  if (const std::optional<SpawnFailure> failed = spawn_.failure()) {
    not_started(*failed);
  } else if (WIFSIGNALED(status)) {
    ending_.kind = Ending::Kind::signalled;
    ending_.killed_by_us = was_killed(status);
    ending_.number = ending_.killed_by_us ? SIGKILL : WTERMSIG(status);
  } else {
    ending_.number = WEXITSTATUS(status);
  }
  ending_.ended_at = Clock::now();
  if (!policy_.hook)
    last_resort::command_ended(
        ending_.kind == Ending::Kind::signalled ? exit_code::signal_base + ending_.number : ending_.number);
  launcher_.command_ended();
  ending_.ended_at = Clock::now();  // the workers that ended before were looked at, and stand before it
  terminal_.take_back();            // a Ctrl-C is for us now: what is left would have it otherwise
  if (policy_.observer != nullptr) policy_.observer->command_ended();
}

void Supervisor::not_started(const SpawnFailure& failed) {
  ending_.kind = Ending::Kind::not_started;
  ending_.number = failed.error;
  ending_.failed_call = failed.call;
  ending_.failed_path = failed.path;
  ending_.failed_interpreter = failed.interpreter;
}

void Supervisor::begin_leftovers() {
  phase_ = Phase::leftovers;
  looked_at_leftovers_ = true;
  const Clock::time_point now = Clock::now();
  if (!stopping_) {
    kill_by(now, policy_.leftover_grace);
  } else if (!policy_.grace) {
    kill_by(now, grace_after_stop);
  }  // otherwise it is set already: one grace for all
  if (const std::optional<std::vector<Process>> left = delivery_.everything()) {
    ending_.leftovers = static_cast<unsigned>(std::ranges::count_if(*left, &Process::alive));
  }
  delivery_.to_all(policy_.term_signal);
  delivery_.to_stopped(SIGCONT);  // which could not follow
  if (stopping_ && !policy_.grace)
    log::info("what the command left is asked to stop, and killed in {}", seconds(grace_after_stop));
}

/// An earlier deadline stays.
void Supervisor::kill_by(Clock::time_point start, milliseconds grace) {
  if (due_[kill] && *due_[kill] < start + grace) return;
  due_[kill] = start + grace;
  if (policy_.stacks) due_[ask_for_stack] = *due_[kill] - time_for_stacks(grace);
}

/// Who has yet to hear of the stop has not failed to follow it. And not a launcher's, as long as it has
/// workers: it waits for them, and sees them end.
void Supervisor::show_stacks() {
  if (delayed_) return;
  std::optional<std::vector<Process>> left = delivery_.everything();
  if (!left) return;
  if (launcher_.stops_workers() && left->size() > 1)
    std::erase_if(*left, [this](const Process& process) { return process.pid == spawn_.pid(); });
  asked_for_stacks_ = true;
  if (std::ranges::none_of(*left, &Process::alive)) return;
  tell_who_hangs(*left, ": asked for stacks by SIGABRT, then killed");
  ask_for_stacks(*left);
}

void Supervisor::tell_who_hangs(const std::vector<Process>& left, std::string_view what_now) {
  const std::string who = who_hangs(left, launcher_.workers());
  if (who.empty()) return;
  const Clock::time_point since =
      command_ended_ ? ending_.ended_at.value_or(started_) : ending_.stopped_at.value_or(started_);
  const auto tenths = std::chrono::duration_cast<milliseconds>(Clock::now() - since).count() / 100;
  const std::string what = fmt::format("{} did not stop in {}.{} s", who, tenths / 10, tenths % 10);
  if (!command_ended_) ending_.did_not_stop = what;
  log::warn("{}{}", what, what_now);
}

void Supervisor::kill_all(std::string_view why) {
  phase_ = Phase::killing;
  const Clock::time_point now = Clock::now();
  due_[ask_for_stack].reset();
  due_[kill] = now + kill_again;
  due_[leave_behind] = now + kill_patience;
  delivery_.to_all(SIGKILL);
  log::warn("{}: everything is killed", why);
}

/// Not even KILL ends a process that waits in the kernel for a dead file server or a driver. It is named, and
/// left.
void Supervisor::give_up() {
  phase_ = Phase::finished;
  if (!command_ended_) {
    ending_.kind = Ending::Kind::signalled;
    ending_.number = SIGKILL;
    ending_.killed_by_us = true;
    ending_.ran = std::chrono::duration_cast<milliseconds>(Clock::now() - started_);
  }
  const std::optional<std::vector<Process>> left = delivery_.everything();
  if (!left && getpid() != 1)
    return log::warn("without /proc what is left cannot be found; it is left behind");
  if (left) ending_.left_behind = where_they_wait(*left);
  log::warn("not even SIGKILL ended within {} what is left; it is left behind{}{}", seconds(kill_patience),
            ending_.left_behind.empty() ? "" : ": ", ending_.left_behind);
}

void Supervisor::warn_once(bool& warned, std::string_view what, int error) const {
  if (!warned) log::warn("{}: {}", what, std::strerror(-error));
  warned = true;
}

}  // namespace

Ending supervise(boost::asio::io_context& io, SignalQueue& signals, const Command& command,
                 const Policy& policy) {
  return Supervisor(io, signals, command, policy).run();
}

}  // namespace rankshim::supervise
