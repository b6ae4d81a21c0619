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
#include <charconv>
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
#include "init/stacks.h"
#include "init/terminal.h"
#include "init/tree.h"
#include "init/working_directory.h"
#include "torchrun/workers.h"

namespace rankshim::supervise {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds agent_patience{1000};      // then an agent without workers is killed
constexpr milliseconds grace_after_stop{30'000};  // for leftovers, where no --grace is given
constexpr milliseconds kill_again{100};           // a fork may have slipped through a walk of the tree
constexpr milliseconds kill_patience{5000};       // what is there after that sits in the kernel
constexpr milliseconds try_again{5};              // a refused call
constexpr unsigned reaped_at_once = 1000;         // then signals get their turn
// Most launchers have their workers after the first, slow ones (imports from a network's file system) after
// the last.
constexpr std::array<milliseconds, 3> looks_for_lone_training = {milliseconds(5'000), milliseconds(20'000),
                                                                 milliseconds(60'000)};

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
        timer_(io),
        terminal_(policy.ctty, policy.agent),
        spawn_(command),
        delivery_(signals, policy.scope, policy.agent ? policy.worker_signals : 0, command.environment) {}

  Ending run();

 private:
  using Deadline = std::optional<Clock::time_point>;

  void step();
  void listen();
  boost::asio::awaitable<void> receive();
  void arm_timer();
  void act_on_deadlines();

  void on_signal(const Received& arrived);
  void on_running_signal(const Received& signal, bool stop, int arrived);
  void on_stop(int arrived, int passed_on, bool delayed);
  [[nodiscard]] bool delays(int signal) const;
  void pass_on_delayed();
  void expect_agent();
  [[nodiscard]] bool agent_had_workers() const;
  [[nodiscard]] milliseconds agent_shutdown() const;
  void on_agent_late();
  void look_at_meeting();

  void reap();
  void watch_workers();
  void take_workers();
  void on_command_end(int status);
  void on_orphan_end(pid_t pid, int status);
  [[nodiscard]] bool was_killed(int status) const;
  void on_command_stopped(int signal);
  void continue_command();
  void look_for_lone_training();
  void end_lone_training();
  void not_started(const SpawnFailure& failed);
  void begin_leftovers();
  void kill_by(Clock::time_point start, milliseconds grace);
  void show_stacks();
  void tell_who_hangs(const std::vector<Process>& left, std::string_view what_now);
  void kill_all(std::string_view why);
  void give_up();

  void warn_once(bool& warned, std::string_view what, int error) const;

  boost::asio::io_context& io_;
  SignalQueue& signals_;
  const Command& command_;
  const Policy policy_;
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

  Deadline delayed_due_;
  Deadline agent_due_;
  Deadline hang_due_;  // a moment before torchrun kills the workers that have not stopped
  Deadline stacks_due_;
  Deadline kill_due_;
  Deadline give_up_due_;
  Deadline retry_due_;
  Deadline look_due_;
  std::size_t looks_ = 0;  // for lone training, so far

  std::optional<WorkerWatch> watch_;
  std::optional<Meeting> meeting_;  // until the first worker, a stop or the end
  WorkingDirectory working_directory_;
  bool observed_ = false;
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
                                                               .death_signal = policy_.child_death_signal})) {
    not_started(*failed);
    return ending_;
  }
  delivery_.begin(spawn_.pid());
  if (!policy_.limit) {
    last_resort::command_runs(
        spawn_.pid(), policy_.scope == SignalScope::child ? spawn_.pid() : -spawn_.pid(), policy_.grace);
  }
  ending_.pid = spawn_.pid();
  if (policy_.job.nodes > 1) look_due_ = started_ + looks_for_lone_training.front();
  if (policy_.limit) kill_due_ = started_ + *policy_.limit;
  if (!policy_.limit) working_directory_.leave();  // hooks are short
  if (policy_.meeting) meeting_.emplace(*policy_.meeting, spawn_.pid(), started_);
  watch_workers();
  reap_due_ = true;  // children from before our exec may have ended
  while (phase_ != Phase::finished) step();

  timer_.cancel();
  // From inside of the loop, where it takes effect at once: Boost 1.81 posts what is emitted outside, by the
  // address of something that may belong to the next command (after a hook) by then.
  bool told = false;
  boost::asio::post(io_, [&] {
    if (listening_) stop_listening_.emit(boost::asio::cancellation_type::terminal);
    told = true;
  });
  while (listening_ || !told) step();
  terminal_.take_back();
  working_directory_.come_back();
  return ending_;
}

// Once the command runs nothing may end us but its end: whatever is thrown is said once, and the loop goes
// on.
void Supervisor::step() {
  try {
    if (!listening_ && phase_ != Phase::finished) listen();
    if (policy_.observer != nullptr && !observed_) {
      observed_ = true;
      policy_.observer->started(spawn_.pid(), watch_ ? &*watch_ : nullptr);
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
    if (phase_ == Phase::finished) take_workers();
  } catch (const std::exception& error) {
    if (!warned_exception_) log::warn("supervision goes on after an error of its own: {}", error.what());
    warned_exception_ = true;
    // Should it be lasting: not at full speed, and the command's end is noticed even if signals cannot be
    // read.
    poll(nullptr, 0, static_cast<int>(try_again.count()));
    reap_due_ = true;
  }
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
  if (watch_ && watch_->first_seen()) meeting_.reset();
  Deadline next;
  const Deadline meeting_due = meeting_ ? Deadline(meeting_->due()) : std::nullopt;
  for (const Deadline& due : {delayed_due_, agent_due_, meeting_due, hang_due_, stacks_due_, kill_due_,
                              give_up_due_, retry_due_, look_due_, delivery_.due()}) {
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
  const auto is_over = [now](Deadline& due) {
    if (!due || *due > now) return false;
    due.reset();
    return true;
  };
  if (is_over(retry_due_)) reap_due_ = true;
  if (delivery_.due() && *delivery_.due() <= now) delivery_.try_again();
  if (is_over(delayed_due_)) pass_on_delayed();
  if (is_over(agent_due_)) on_agent_late();
  if (meeting_ && meeting_->due() <= now) look_at_meeting();
  if (is_over(hang_due_) && watch_->some_run()) {
    if (const std::optional<std::vector<Process>> left = delivery_.everything())
      tell_who_hangs(*left, "; the launcher kills what has not stopped");
  }
  // Who has yet to hear of the stop has not failed to follow it.
  if (is_over(stacks_due_) && !delayed_) show_stacks();
  if (is_over(kill_due_)) {
    if (phase_ == Phase::killing) {
      kill_due_ = now + kill_again;
      delivery_.to_all(SIGKILL);
    } else {
      if (const std::optional<std::vector<Process>> left = delivery_.everything();
          left && ending_.stop_signal && !command_ended_ && !asked_for_stacks_)
        tell_who_hangs(*left, "");
      kill_all(command_ended_        ? "what the command left did not end in its time"
               : ending_.stop_signal ? "the grace is over"
                                     : "its time is over");
    }
  }
  if (is_over(give_up_due_)) give_up();
  if (is_over(look_due_)) look_for_lone_training();
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
  const bool hook = policy_.limit.has_value();
  const bool first =
      !ending_.late_signal || (asks_to_stop(arrived.number) && !asks_to_stop(*ending_.late_signal));
  if ((hook || phase != Phase::running) && first && ends_by_default(arrived.number) &&
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
        const Deadline before = kill_due_;
        kill_by(Clock::now(), *policy_.grace);
        if (kill_due_ != before)
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
  // torchrun handles them whatever it inherited, and would end what nohup is to keep
  // (pytorch/pytorch@v2.13.0:torch/distributed/elastic/multiprocessing/api.py, PContext.start).
  if (!stop && policy_.agent && asks_to_stop(signal.number) &&
      (policy_.worker_signals & bit(signal.number)) == 0)
    return;
  if (!stop) return delivery_.pass_on(signal);
  const bool interrupted = std::exchange(interrupted_, interrupted_ || arrived == SIGINT);
  if (!ending_.stop_signal) {
    last_resort::owe(signal.number);
    const bool delayed = delays(arrived);
    if (delayed) {
      delayed_ = signal;
      delayed_due_ = Clock::now() + policy_.pre_stop_delay;
    } else {
      last_resort::settle(signal.number);
      delivery_.pass_on(signal);
    }
    return on_stop(arrived, signal.number, delayed);
  }
  const bool was_delayed = delayed_.has_value();
  pass_on_delayed();
  if (policy_.agent && interrupted && arrived == SIGINT) return kill_all("a second SIGINT");
  if (policy_.agent) {
    log::debug("{} is not passed on: the launcher would start its waiting anew", signal_name(signal.number));
  } else if (!was_delayed || arrived != SIGTERM) {
    delivery_.pass_on(signal);
  }
}

void Supervisor::on_stop(int arrived, int passed_on, bool delayed) {
  const Clock::time_point now = Clock::now();
  meeting_.reset();
  stopping_ = true;
  ending_.stop_signal = arrived;
  if (!delayed) ending_.stopped_at = now;
  if (policy_.grace) {
    kill_by(now, *policy_.grace);
    if (!policy_.limit) last_resort::kill_at(*kill_due_);
  }
  if (!delayed) expect_agent();
  std::string what = signal_name(arrived) + " received and passed on";
  if (passed_on != arrived) what += " as " + signal_name(passed_on);
  if (delayed) what += " in " + seconds(policy_.pre_stop_delay);
  if (policy_.grace) what += "; what is left in " + seconds(*policy_.grace) + " is killed";
  log::info("{}", what);
  if (policy_.observer != nullptr) policy_.observer->stopping(arrived);
}

/// Not while an agent has no worker: nobody is served yet.
bool Supervisor::delays(int signal) const {
  return signal == SIGTERM && policy_.pre_stop_delay.count() != 0 &&
         !(policy_.agent && find_worker(spawn_.pid(), command_.environment) == Presence::none);
}

void Supervisor::pass_on_delayed() {
  delayed_due_.reset();
  if (!delayed_) return;
  delivery_.pass_on(*std::exchange(delayed_, std::nullopt));
  ending_.stopped_at = Clock::now();
  expect_agent();
}

/// An agent that never had a worker has nothing to lose and may not listen at all. One whose workers have all
/// ended is on its way to its own end.
void Supervisor::expect_agent() {
  if (!policy_.agent) return;
  const Clock::time_point now = Clock::now();
  if (find_worker(spawn_.pid(), command_.environment) == Presence::some) {
    const milliseconds patience = agent_shutdown();
    if (agent_had_workers() && (!policy_.grace || patience < *policy_.grace))
      hang_due_ = now + patience - time_for_stacks(patience);
  } else if (!agent_had_workers()) {
    agent_due_ = now + agent_patience;
  } else if (!policy_.grace) {
    agent_due_ = now + agent_shutdown();
  }
}

bool Supervisor::agent_had_workers() const { return watch_ && watch_->first_seen(); }

/// What torchrun gives its workers after a stop (torch/distributed/launcher/api.py, whole seconds).
milliseconds Supervisor::agent_shutdown() const {
  constexpr std::string_view mark = "TORCH_ELASTIC_SHUTDOWN_TIMEOUT=";
  unsigned seconds = 30;
  for (const std::string& entry : command_.environment) {
    if (entry.starts_with(mark))
      std::from_chars(entry.data() + mark.size(), entry.data() + entry.size(), seconds);
  }
  return std::chrono::seconds(seconds);
}

void Supervisor::on_agent_late() {
  const Presence worker = find_worker(spawn_.pid(), command_.environment);
  if (worker == Presence::perhaps) agent_due_ = Clock::now() + try_again;
  if (worker != Presence::none) return;
  const std::string stop = signal_name(ending_.stop_signal.value_or(SIGTERM));
  if (agent_had_workers()) {
    kill_all(fmt::format("the launcher, whose workers have all ended, did not follow {} within {}", stop,
                         seconds(agent_shutdown())));
  } else {
    kill_all(fmt::format("the launcher has no worker yet and did not follow {} within {}", stop,
                         seconds(agent_patience)));
  }
}

void Supervisor::look_at_meeting() {
  if (!watch_ && find_worker(spawn_.pid(), command_.environment) == Presence::some) return meeting_.reset();
  if (!meeting_->is_over(Clock::now())) return;
  ending_.never_met = true;
  kill_all(fmt::format("the other nodes did not come within {}", seconds(*policy_.meeting->limit)));
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
    if (pid > 0) {
      const bool command = pid == spawn_.pid() && !command_ended_;
      if (WIFSTOPPED(status)) {
        if (command) on_command_stopped(WSTOPSIG(status));
      } else if (command) {
        on_command_end(status);
      } else {
        if (watch_) watch_->on_reaped(pid, status);
        on_orphan_end(pid, status);
      }
      continue;
    }
    reap_due_ = false;
    if (pid == -ECHILD) {
      // Without a child nobody will tell of the command's end any more: that must not look like success.
      if (!command_ended_) not_started({"wait4", {}, ECHILD});
      ending_.leftovers = std::max(ending_.leftovers, ending_.leftovers_killed);
      phase_ = Phase::finished;
    } else if (pid < 0) {
      retry_due_ = Clock::now() + try_again;
      warn_once(warned_reap_, "cannot ask for ended processes", pid);
    } else if (command_ended_ && delivery_.nothing_left()) {
      phase_ = Phase::finished;
    } else if (command_ended_ && phase_ == Phase::running) {
      begin_leftovers();
    }
    return;
  }
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

void Supervisor::watch_workers() {
  if (!policy_.agent || policy_.log_folder.empty()) return;
  try {
    watch_.emplace(io_, policy_.log_folder, policy_.workers);
    watch_->begin(spawn_.pid());
  } catch (const std::exception& error) {
    log::warn("the launcher's workers cannot be followed: {}", error.what());
  }
}

void Supervisor::on_command_end(int status) {
  command_ended_ = true;
  look_due_.reset();
  delivery_.command_ended();
  ending_.ran = std::chrono::duration_cast<milliseconds>(Clock::now() - started_);
  agent_due_.reset();
  meeting_.reset();
  hang_due_.reset();
  delayed_due_.reset();
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
  if (!policy_.limit)
    last_resort::command_ended(
        ending_.kind == Ending::Kind::signalled ? exit_code::signal_base + ending_.number : ending_.number);
  if (watch_) {
    watch_->agent_ended();
    ending_.ended_at = Clock::now();  // what ended before the agent was looked at, and stands before it
  }
  terminal_.take_back();  // a Ctrl-C is for us now: what is left would have it otherwise
  if (policy_.observer != nullptr) policy_.observer->command_ended();
}

void Supervisor::look_for_lone_training() {
  if (ending_.stop_signal) return;
  ending_.trains_alone = lone_training(see_processes(spawn_.pid(), command_.environment), policy_.job);
  if (ending_.trains_alone.empty()) {
    if (++looks_ < looks_for_lone_training.size()) look_due_ = started_ + looks_for_lone_training[looks_];
    return;
  }
  log::warn("this node trains alone: {}", ending_.trains_alone);
  if (policy_.strict) end_lone_training();
}

void Supervisor::end_lone_training() {
  const Clock::time_point now = Clock::now();
  ending_.ended_for_it = true;
  ending_.stop_signal = SIGTERM;
  ending_.stopped_at = now;
  stopping_ = true;
  Received stop;
  stop.number = SIGTERM;
  delivery_.pass_on(stop);
  kill_by(now, policy_.grace.value_or(grace_after_stop));
  expect_agent();
  if (policy_.observer != nullptr) policy_.observer->stopping(SIGTERM);
}

void Supervisor::take_workers() {
  if (!watch_) return;
  watch_->finish();
  ending_.workers = watch_->ends();
  ending_.workers_seen = watch_->seen();
  ending_.place = watch_->place();
  ending_.attempts = watch_->attempts();
  ending_.first_worker_at = watch_->first_seen();
  ending_.attempt_folder = watch_->attempt_folder();
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
  if (kill_due_ && *kill_due_ < start + grace) return;
  kill_due_ = start + grace;
  if (policy_.stacks) stacks_due_ = *kill_due_ - time_for_stacks(grace);
}

/// Not the agent's, as long as it has workers: it waits for them, and sees them end.
void Supervisor::show_stacks() {
  std::optional<std::vector<Process>> left = delivery_.everything();
  if (!left) return;
  if (policy_.agent && left->size() > 1)
    std::erase_if(*left, [this](const Process& process) { return process.pid == spawn_.pid(); });
  asked_for_stacks_ = true;
  if (std::ranges::none_of(*left, &Process::alive)) return;
  tell_who_hangs(*left, ": asked for stacks by SIGABRT, then killed");
  ask_for_stacks(*left);
}

void Supervisor::tell_who_hangs(const std::vector<Process>& left, std::string_view what_now) {
  const std::string who = who_hangs(left, watch_ ? watch_->states() : std::vector<WorkerState>{});
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
  agent_due_.reset();
  meeting_.reset();
  hang_due_.reset();
  stacks_due_.reset();
  kill_due_ = now + kill_again;
  give_up_due_ = now + kill_patience;
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
