#include "init/supervisor.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <cstring>
#include <exception>
#include <utility>

#include "base/log.h"
#include "init/kernel.h"
#include "init/last_resort.h"
#include "init/observer.h"
#include "init/supervise.h"
#include "wait/loop_failed.h"

namespace rankshim::supervise {

using std::chrono::milliseconds;

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
  forwarder_.leave_alone_present_children();
  started_ = Clock::now();
  ending_.started_at = started_;
  if (const std::optional<SpawnFailure> failed = spawn_.start({.terminal = terminal_.descriptor(),
                                                               .new_session = policy_.ctty,
                                                               .death_signal = policy_.child_death_signal,
                                                               .no_new_privs = policy_.no_new_privs})) {
    not_started(*failed);
    return ending_;
  }
  forwarder_.begin(spawn_.pid());
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
  due_[deliver_again] = forwarder_.due();
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

Ending supervise(boost::asio::io_context& io, SignalQueue& signals, const Command& command,
                 const Policy& policy) {
  return Supervisor(io, signals, command, policy).run();
}

}  // namespace rankshim::supervise
