#include <unistd.h>

#include <csignal>
#include <string>
#include <utility>

#include "base/duration.h"
#include "base/log.h"
#include "supervise/signals.h"
#include "supervise/supervisor.h"

namespace rankshim::supervise {

void Supervisor::on_signal(const Received& arrived) {
  if (arrived.number == SIGCHLD) {
    reap_due_ = true;
    return;
  }
  // The HUP of a terminal that rankshim gave up.
  const bool gave_up =
      policy_.ctty && (arrived.number == SIGHUP || arrived.number == SIGCONT) && arrived.sender == getpid();
  if (gave_up || is_of_our_own_making(arrived)) return;
  Received signal = arrived;
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
        const Deadline before = due_[kill];
        kill_by(Clock::now(), *policy_.grace);
        if (due_[kill] != before)
          log::info("{} received; what the command left behind is killed in {}", signal_name(arrived.number),
                    seconds(*policy_.grace));
      }
      return;
    case Progress::killing:
    case Progress::finished:
      return;
  }
}

void Supervisor::on_running_signal(const Received& signal, bool stop, int arrived) {
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
    return on_stop(arrived, signal.number);
  }
  const bool launches = launcher_.stops_workers() || starts_workers_;
  if (launches && interrupted && arrived == SIGINT) return kill_all("a second SIGINT");
  if (launcher_.stops_workers()) {
    log::debug("{} is not passed on: the launcher would start its waiting again", signal_name(signal.number));
  } else {
    forwarder_.pass_on(signal, true);
  }
}

void Supervisor::on_stop(int arrived, int passed_on) {
  const Clock::time_point now = Clock::now();
  secondary([this] { launcher_.stop_came(); });
  stopping_ = true;
  ending_.stop_signal = arrived;
  ending_.stopped_at = now;
  if (policy_.grace) {
    kill_by(now, *policy_.grace);
  }
  stop_was_passed_on();
  std::string what = signal_name(arrived) + " received and passed on";
  if (passed_on != arrived) what += " as " + signal_name(passed_on);
  if (policy_.grace) what += "; what is left in " + seconds(*policy_.grace) + " is killed";
  log::info("{}", what);
  if (policy_.observer != nullptr) secondary([&] { policy_.observer->stopping(arrived); });
}

void Supervisor::stop_was_passed_on() {
  secondary([this] { launcher_.stop_passed_on(*ending_.stop_signal, policy_.grace); });
}

// ---- orders ----

void Supervisor::take_orders() {
  while (std::optional<Order> order = orders_.take()) {
    if (progress_ != Progress::running || command_ended_) continue;
    switch (order->kind) {
      case Order::Kind::name_hanging:
        if (const std::optional<std::vector<Process>> left = forwarder_.everything())
          name_hanging(*left, order->why);
        break;
      case Order::Kind::stop:
        if (!ending_.stop_signal) stop_as_by_term(std::move(order->why));
        break;
      case Order::Kind::kill:
        kill_all(order->why);
        break;
    }
  }
}

void Supervisor::stop_as_by_term(std::string why) {
  ending_.stopped_because = std::move(why);
  const Clock::time_point now = Clock::now();
  ending_.stop_signal = SIGTERM;
  ending_.stopped_at = now;
  stopping_ = true;
  Received stop;
  stop.number = SIGTERM;
  forwarder_.pass_on(stop, true);
  kill_by(now, policy_.grace.value_or(grace_after_stop));
  stop_was_passed_on();
  if (policy_.observer != nullptr) secondary([this] { policy_.observer->stopping(SIGTERM); });
}

}  // namespace rankshim::supervise
