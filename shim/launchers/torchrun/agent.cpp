#include "launchers/torchrun/agent.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <iterator>
#include <string_view>
#include <utility>

#include "base/duration.h"
#include "base/log.h"
#include "base/text.h"
#include "launchers/torchrun/find_workers.h"
#include "supervise/kernel.h"
#include "supervise/stacks.h"
#include "supervise/tree.h"

namespace rankshim::torchrun {

using std::chrono::milliseconds;
using supervise::Order;

namespace {

constexpr milliseconds patience_without_workers{1000};  // after that it is killed
constexpr milliseconds patience_after_workers{5000};    // the same, where these have stopped
constexpr milliseconds time_of_execve{5};               // if a process is in the middle of execve(2)

}  // namespace

void Agent::started(boost::asio::io_context& io, const std::vector<pid_t>& processes, Clock::time_point when,
                    const std::vector<std::string>& environment) {
  if (plan_.meeting) meeting_.emplace(*plan_.meeting, processes.front(), when);
  Program::started(io, processes, when, environment);
  if (!supervise::signal_masks(getpid()))
    log::info(
        "this kernel does not show what processes do with signals, nor how they ended (gVisor): a stop goes "
        "to torchrun, USR1 "
        "and USR2 reach workers only when these are a minute old, and torchrun tells how a worker ended");
  if (plan_.log_folder.empty()) return;
  watch_.emplace(io, plan_.log_folder, plan_.workers);
  watch_->begin(command(), [this] { on_worker_change(); }, [this](const auto& end) { tell_end(end); });
}

std::vector<supervise::WorkerState> Agent::workers() const {
  return watch_ ? watch_->states() : std::vector<supervise::WorkerState>{};
}

supervise::WorkerRecord Agent::record() const {
  const supervise::WorkerRecord of_program = Program::record();
  supervise::WorkerRecord record = watch_ ? watch_->record() : supervise::WorkerRecord();
  record.never_met = never_met_;
  record.trains_alone = of_program.trains_alone;
  record.ended_for_it = of_program.ended_for_it;
  return record;
}

bool Agent::is_for_workers(int signal) const { return (plan_.worker_signals & supervise::bit(signal)) != 0; }

/// All of a whole set, if each of them runs and handles the signal.
std::vector<Process> Agent::receivers_of_stop(int signal) {
  if (!watch_) return {};
  watch_->look();
  const std::vector<supervise::WorkerState> states = watch_->states();
  if (states.size() != plan_.workers || std::ranges::any_of(states, &supervise::WorkerState::ended))
    return {};
  const auto below = descendants(command());
  if (!below) return {};
  std::vector<Process> workers;
  std::ranges::copy_if(*below, std::back_inserter(workers), [&](const Process& process) {
    return process.alive() &&
           std::ranges::find(states, process.pid, &supervise::WorkerState::pid) != states.end();
  });
  const bool handle = std::ranges::all_of(workers, [signal](const Process& worker) {
    const auto masks = supervise::signal_masks(worker.pid);
    return masks && masks->take(signal);
  });
  if (workers.size() != states.size() || !handle) return {};
  stops_alone_ = true;
  passed_on_ = signal;
  stopped_set_ = watch_->sets();
  return workers;
}

/// One that has failed makes the agent end or restart the others. When all have ended with 0, an agent alone
/// ends by itself. One of several waits up to five minutes for the other nodes, and is deaf meanwhile: it
/// gets the stop before it sees the end, for which it looks every 0.1 s.
void Agent::on_worker_change() {
  constexpr milliseconds to_see_it_itself{2000};
  if (!stops_alone_) return;
  const bool failed = std::ranges::any_of(watch_->record().ends, [](const supervise::WorkerEnd& end) {
    return end.status_known && end.status != 0;
  });
  if (failed || watch_->sets() != stopped_set_) return stop_agent();
  if (watch_->some_run()) return;
  if (plan_.meeting) return stop_agent();
  agent_due_ = std::min(agent_due_.value_or(Clock::time_point::max()), Clock::now() + to_see_it_itself);
  arm();
}

/// Its number is its own as long as command_ended() was not called.
void Agent::stop_agent() {
  if (!std::exchange(stops_alone_, false)) return;
  agent_due_.reset();
  log::debug("{} is passed on to torchrun itself", supervise::signal_name(passed_on_));
  supervise::kernel::send(command(), passed_on_);
  if (watch_->some_run()) {
    expect_end();
  } else {
    expect_end_within(patience_after_workers);
  }
  arm();
}

void Agent::reaped(pid_t process, int status) {
  if (watch_) watch_->on_reaped(process, status);
}

/// The time that it gives its workers after a stop (torch/distributed/launcher/api.py, whole seconds).
milliseconds Agent::time_of_workers() const {
  const std::optional<std::string_view> set =
      Environment(environment()).get("TORCH_ELASTIC_SHUTDOWN_TIMEOUT");
  return std::chrono::seconds(first_number<unsigned>(set.value_or("")).value_or(30));
}

void Agent::stop_passed_on(int signal, std::optional<milliseconds> grace) {
  meeting_.reset();
  Program::stop_passed_on(signal, grace);
  stop_signal_ = signal;
  grace_ = grace;
  if (!stops_alone_) {
    expect_end();
  } else {
    const milliseconds patience = std::min(time_of_workers(), grace.value_or(milliseconds::max()));
    agent_due_ = Clock::now() + patience - supervise::time_for_stacks(patience);
  }
  arm();
}

/// An agent that never had a worker has nothing to lose and may ignore the signal. One whose workers have all
/// ended is about to end itself.
void Agent::expect_end() {
  const std::optional<milliseconds>& grace = grace_;
  const Clock::time_point now = Clock::now();
  if (find_worker(command(), environment()) == Presence::some) {
    const milliseconds patience = time_of_workers();
    if (had_workers() && (!grace || patience < *grace))
      hangs_due_ = now + patience - supervise::time_for_stacks(patience);
  } else if (!had_workers()) {
    expect_end_within(patience_without_workers);
  } else if (!grace) {
    expect_end_within(time_of_workers());
  }
}

void Agent::command_ended() {
  Program::command_ended();
  stops_alone_ = false;
  if (watch_) watch_->agent_ended();
}

void Agent::finish() {
  if (watch_) watch_->finish();
}

std::optional<supervise::Launcher::Clock::time_point> Agent::due() const {
  std::optional<Clock::time_point> next = Program::due();
  const auto meeting = waits_for_nodes() ? std::optional(meeting_->due()) : std::nullopt;
  for (const std::optional<Clock::time_point>& due : {late_due_, meeting, hangs_due_, agent_due_}) {
    if (due && (!next || *due < *next)) next = due;
  }
  return next;
}

void Agent::look() {
  const Clock::time_point now = Clock::now();
  if (late_due_ && *late_due_ <= now) on_late();
  if (waits_for_nodes() && meeting_->due() <= now) look_at_meeting();
  if (agent_due_ && *agent_due_ <= now) stop_agent();
  if (hangs_due_ && *hangs_due_ <= now) {
    hangs_due_.reset();
    if (watch_->some_run())
      give({.kind = Order::Kind::name_hanging,
            .why = "; the launcher kills the processes that have not stopped"});
  }
  Program::look();
}

void Agent::look_at_meeting() {
  if (!watch_ && find_worker(command(), environment()) == Presence::some) return meeting_.reset();
  if (!meeting_->is_over(Clock::now())) return;
  never_met_ = true;
  give({.kind = Order::Kind::kill,
        .why = fmt::format("the other nodes did not join within {}", seconds(*plan_.meeting->limit))});
}

void Agent::expect_end_within(milliseconds patience) {
  late_patience_ = patience;
  late_due_ = Clock::now() + patience;
}

void Agent::on_late() {
  late_due_.reset();
  const Presence worker = find_worker(command(), environment());
  if (worker == Presence::perhaps) late_due_ = Clock::now() + time_of_execve;
  if (worker != Presence::none) return;
  give({.kind = Order::Kind::kill,
        .why = fmt::format("the launcher{} did not follow {} within {}",
                           had_workers() ? ", whose workers have all ended," : " has no worker yet and",
                           supervise::signal_name(stop_signal_), seconds(late_patience_))});
}

}  // namespace rankshim::torchrun
