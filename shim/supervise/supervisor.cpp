#include "supervise/supervisor.h"

#include <poll.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <string>
#include <utility>

#include "base/duration.h"
#include "base/log.h"
#include "supervise/kernel.h"
#include "supervise/signals.h"
#include "supervise/working_directory.h"

namespace rankshim::supervise {

bool Supervisor::start() {
  if (getpid() != 1) {
    const int done = kernel::result(prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0));
    if (done < 0) {
      log::warn(
          "cannot become the reaper of orphans ({}): processes that leave the command's process tree will "
          "not end with it",
          std::strerror(-done));
    }
  }
  forwarder_.leave_alone_present_children();
  ending_.started_at = Clock::now();
  if (!starts_workers_) processes_.push_back({.spawn = std::make_unique<Spawn>(command_)});
  for (const Command& worker : workers_) processes_.push_back({.spawn = std::make_unique<Spawn>(worker)});
  const Spawn::Start how{.terminal = starts_workers_ ? -1 : terminal_.descriptor(),
                         .new_session = policy_.ctty && !starts_workers_,
                         .detached = starts_workers_};
  // From the first start on nothing may throw: an exception would leave the command alone.
  std::vector<pid_t> pids;
  pids.reserve(processes_.size());
  for (const Started& process : processes_) {
    if (std::optional<SpawnFailure> failed = process.spawn->start(how)) {
      record_failed_start(*std::move(failed));
      if (pids.empty()) return false;
      failed_at_ = Clock::now();
      break;
    }
    pids.push_back(process.spawn->pid());
  }
  processes_.resize(pids.size());
  workers_ = {};  // their environments may be large
  ending_.pid = command_pid();
  if (policy_.time_limit) kill_ = ending_.started_at + *policy_.time_limit;
  launcher_.orders().set_wake([this] { signals_.wake(); });
  launcher_.set_observer(observer_);
  secondary([&] {
    if (!policy_.hook) working_directory_ = leave_working_directory();  // hooks are short
    launcher_.started(io_, pids, ending_.started_at, command_.environment);
  });
  forwarder_.begin(std::move(pids));
  if (failed_at_) end_other_workers();
  reap_due_ = true;  // children from before rankshim's exec may have ended
  return true;
}

Supervisor::Started* Supervisor::find_process(pid_t pid) {
  const auto found = std::ranges::find_if(
      processes_, [pid](const Started& process) { return !process.ended && process.spawn->pid() == pid; });
  return found == processes_.end() ? nullptr : &*found;
}

Ending Supervisor::end() {
  launcher_.orders().set_wake({});
  terminal_.take_back();
  come_back_to(working_directory_);
  if (ending_.failure.interpreter) ending_.interpreter = missing_interpreter(ending_.failure.path);
  return ending_;
}

void Supervisor::step() {
  if (!std::exchange(observed_, true)) secondary([this] { observer_.started(command_pid()); });
  for (Signal signal = signals_.take(); signal.number != 0; signal = signals_.take()) on_signal(signal);
  take_orders();
  act_on_deadlines();
  if (reap_due_) reap();
  if (!finished()) return;
  secondary([this] {
    launcher_.finish();
    ending_.workers = launcher_.record();
  });
}

SignalQueue::Deadline Supervisor::due() {
  if (reap_due_ || launcher_.orders().any()) return Clock::now();  // other events get their turn
  Deadline next;
  for (const Deadline& due : {reap_again_, forwarder_.due(), kill_, leave_behind_})
    if (due && (!next || *due < *next)) next = due;
  return next;
}

void Supervisor::act_on_deadlines() {
  const Clock::time_point now = Clock::now();
  const auto passed = [now](Deadline& due) {
    const bool is_over = due && *due <= now;
    if (is_over) due.reset();
    return is_over;
  };
  if (passed(reap_again_)) reap_due_ = true;
  if (forwarder_.due() && *forwarder_.due() <= now) forwarder_.try_again();
  if (passed(kill_)) on_kill_due();
  if (passed(leave_behind_)) give_up();
}

void Supervisor::on_signal(const Signal& arrived) {
  if (arrived.number == SIGCHLD) {
    reap_due_ = true;
    return;
  }
  // The HUP of a terminal that rankshim gave up.
  const bool gave_up =
      policy_.ctty && (arrived.number == SIGHUP || arrived.number == SIGCONT) && arrived.sender == getpid();
  if (gave_up || is_of_our_own_making(arrived)) return;
  Signal signal = arrived;
  signal.number = policy_.rewrite.apply(arrived.number);
  if (signal.number == 0) return;
  const bool stop = (asks_to_stop(arrived.number) && !inherited_as_ignored(arrived.number)) ||
                    (signal.number != arrived.number && asks_to_stop(signal.number));
  // Between the command's end and the look at what it left: this signal did not stop the command.
  const Progress progress =
      command_ended_ && progress_ == Progress::running ? Progress::leftovers : progress_;
  const bool first =
      !ending_.late_signal || (asks_to_stop(arrived.number) && !asks_to_stop(*ending_.late_signal));
  if ((policy_.hook || progress != Progress::running) && first && ends_by_default(arrived.number) &&
      !inherited_as_ignored(arrived.number))
    ending_.late_signal = arrived.number;
  switch (progress) {
    case Progress::running:
      on_running_signal(signal, stop, arrived.number);
      return;
    case Progress::leftovers:
      if (!stop) return;
      if (arrived.number == SIGINT || arrived.number == SIGQUIT) {
        kill_all(fmt::format("{} arrived while waiting for what the command left behind",
                             signal_name(arrived.number)));
      } else if (policy_.grace) {
        const Deadline before = kill_;
        kill_by(Clock::now(), *policy_.grace);
        if (kill_ != before)
          log::info("{} received; what the command left behind is killed in {}", signal_name(arrived.number),
                    seconds(*policy_.grace));
      }
      return;
    case Progress::killing:
    case Progress::finished:
      return;
  }
}

void Supervisor::on_running_signal(const Signal& signal, bool stop, int arrived) {
  if (signal.number == SIGCONT && command_stopped_) return continue_command();
  // It would end what nohup has to keep running.
  if (!stop && launcher_.stops_workers() && asks_to_stop(signal.number) &&
      !launcher_.is_for_workers(signal.number))
    return;
  if (!stop) return forwarder_.pass_on(signal);
  if (!ending_.stopped_because.empty() && !ending_.signal_after_order) ending_.signal_after_order = arrived;
  const bool interrupted = std::exchange(interrupted_, interrupted_ || arrived == SIGINT);
  if (!ending_.stop_signal) {
    forwarder_.pass_on(signal, true);
    std::string what = signal_name(arrived) + " received and passed on";
    if (signal.number != arrived) what += " as " + signal_name(signal.number);
    if (policy_.grace) what += "; what is left in " + seconds(*policy_.grace) + " is killed";
    log::info("{}", what);
    return begin_stop(arrived, policy_.grace);
  }
  const bool launches = launcher_.stops_workers() || starts_workers_;
  if (launches && interrupted && arrived == SIGINT) return kill_all("a second SIGINT");
  if (launcher_.stops_workers()) {
    log::debug("{} is not passed on: the launcher would start its waiting again", signal_name(signal.number));
  } else {
    forwarder_.pass_on(signal, true);
  }
}

/// The first stop was passed on.
void Supervisor::begin_stop(int signal, std::optional<std::chrono::milliseconds> grace) {
  ending_.stop_signal = signal;
  ending_.stopped_at = Clock::now();
  if (grace) kill_by(*ending_.stopped_at, *grace);
  secondary([&] { launcher_.stop_passed_on(signal, policy_.grace); });
  secondary([&] { observer_.stopping(signal); });
}

void Supervisor::take_orders() {
  while (std::optional<Order> order = launcher_.orders().take()) {
    if (progress_ != Progress::running || command_ended_) continue;
    switch (order->kind) {
      case Order::Kind::name_hanging:
        if (const std::optional<std::vector<Process>> left = forwarder_.everything())
          name_hanging(*left, order->why);
        break;
      case Order::Kind::stop:
        if (ending_.stop_signal) break;
        ending_.stopped_because = std::move(order->why);
        forwarder_.pass_on({.number = SIGTERM}, true);
        begin_stop(SIGTERM, policy_.grace.value_or(grace_after_stop));
        break;
      case Order::Kind::kill:
        kill_all(order->why);
        break;
    }
  }
}

boost::asio::awaitable<Ending> supervise(boost::asio::io_context& io, SignalQueue& signals,
                                         const Command& command, const Policy& policy) {
  Supervisor supervisor(io, signals, command, policy);
  if (!supervisor.start()) co_return supervisor.end();
  bool logged = false;
  while (!supervisor.finished()) {
    // The command runs: what is refused now is tried again, and ends nothing.
    try {
      supervisor.step();
      if (!supervisor.finished()) co_await signals.wait(supervisor.due());
    } catch (const std::exception& error) {
      if (!std::exchange(logged, true)) log::error("{}; rankshim goes on", loop::reason(error));
      poll(nullptr, 0, static_cast<int>(try_again.count()));  // not at full speed
    }
  }
  co_return supervisor.end();
}

}  // namespace rankshim::supervise
