#include "supervise/supervisor.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/log.h"
#include "node/program_path.h"
#include "supervise/kernel.h"
#include "supervise/supervise.h"

namespace rankshim::supervise {

bool Supervisor::start() {
  if (getpid() != 1) {
    const int done = kernel::become_subreaper();
    if (done < 0) {
      log::warn(
          "cannot become the reaper of orphans ({}): processes that leave the command's process tree will "
          "not end with it",
          std::strerror(-done));
    }
  }
  forwarder_.leave_alone_present_children();
  started_ = Clock::now();
  ending_.started_at = started_;
  if (!starts_workers_) processes_.push_back({.spawn = std::make_unique<Spawn>(command_)});
  for (const Command& worker : workers_) processes_.push_back({.spawn = std::make_unique<Spawn>(worker)});
  // From the first start on nothing may throw: an exception would leave the command alone.
  std::vector<pid_t> pids;
  pids.reserve(processes_.size());
  for (const Started& process : processes_) {
    if (const std::optional<SpawnFailure> failed = start(*process.spawn)) {
      secondary([&] { record_failed_start(*failed); });
      if (pids.empty()) return false;
      failed_at_ = Clock::now();
      break;
    }
    pids.push_back(process.spawn->pid());
  }
  processes_.resize(pids.size());
  workers_ = {};  // their environments may be large
  ending_.pid = command_pid();
  if (policy_.time_limit) due_[kill] = started_ + *policy_.time_limit;
  orders_.set_wake([this] { signals_.wake(); });
  launcher_.connect(orders_, policy_.observer);
  secondary([&] {
    if (!policy_.hook) working_directory_.leave();  // hooks are short
    launcher_.started(io_, pids, started_, command_.environment);
  });
  forwarder_.begin(std::move(pids));
  if (failed_at_) end_other_workers();
  reap_due_ = true;  // children from before rankshim's exec may have ended
  return true;
}

std::optional<SpawnFailure> Supervisor::start(Spawn& spawn) const {
  return spawn.start({.terminal = starts_workers_ ? -1 : terminal_.descriptor(),
                      .new_session = policy_.ctty && !starts_workers_,
                      .detached = starts_workers_});
}

Supervisor::Started* Supervisor::find_process(pid_t pid) {
  const auto found = std::ranges::find_if(
      processes_, [pid](const Started& process) { return !process.ended && process.spawn->pid() == pid; });
  return found == processes_.end() ? nullptr : &*found;
}

Ending Supervisor::end() {
  orders_.set_wake({});
  while (orders_.take()) continue;
  terminal_.take_back();
  working_directory_.come_back();
  if (ending_.failed_interpreter) ending_.interpreter = missing_interpreter(ending_.failed_path);
  return ending_;
}

void Supervisor::step() {
  for (const auto act :
       {&Supervisor::notify_observer, &Supervisor::take_signals, &Supervisor::take_orders,
        &Supervisor::act_on_deadlines, &Supervisor::reap_if_due, &Supervisor::finish_launcher}) {
    (this->*act)();
  }
}

void Supervisor::notify_observer() {
  if (policy_.observer != nullptr && !std::exchange(observed_, true))
    secondary([this] { policy_.observer->started(command_pid()); });
}

void Supervisor::take_signals() {
  for (Received signal = signals_.take(); signal.number != 0; signal = signals_.take()) on_signal(signal);
}

void Supervisor::reap_if_due() {
  if (reap_due_) reap();
}

void Supervisor::finish_launcher() {
  if (progress_ != Progress::finished) return;
  secondary([this] {
    launcher_.finish();
    ending_.workers = launcher_.record();
  });
}

/// Updates the deadlines of other objects: when there is something to do for them.
void Supervisor::ask_when() { due_[deliver_again] = forwarder_.due(); }

SignalQueue::Deadline Supervisor::due() {
  if (reap_due_ || orders_.any()) return Clock::now();  // other events get their turn
  ask_when();
  Deadline next;
  for (const Deadline& due : due_) {
    if (due && (!next || *due < *next)) next = due;
  }
  return next;
}

void Supervisor::act_on_deadlines() {
  ask_when();
  const Clock::time_point now = Clock::now();
  constexpr std::array<void (Supervisor::*)(), rows> acts = {&Supervisor::on_reap_again,
                                                             &Supervisor::on_deliver_again,
                                                             &Supervisor::on_kill_due, &Supervisor::give_up};
  for (std::size_t row = 0; row < rows; ++row) {
    if (!due_[row] || *due_[row] > now) continue;
    due_[row].reset();
    (this->*acts[row])();
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
