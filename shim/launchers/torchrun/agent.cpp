#include "launchers/torchrun/agent.h"

#include <algorithm>
#include <string_view>

#include "base/duration.h"
#include "base/log.h"
#include "base/number.h"
#include "launchers/torchrun/find_workers.h"
#include "supervise/stacks.h"

namespace rankshim::torchrun {

using std::chrono::milliseconds;
using supervise::Request;

namespace {

constexpr milliseconds patience_without_workers{1000};  // after that it is killed
constexpr milliseconds time_of_execve{5};               // if a process is in the middle of execve(2)

}  // namespace

void Agent::started(boost::asio::io_context& io, const std::vector<pid_t>& processes, Clock::time_point when,
                    const std::vector<std::string>& environment) {
  Program::started(io, processes, when, environment);
  if (plan_.meeting) meeting_.emplace(*plan_.meeting, command(), when);
  if (plan_.log_folder.empty()) return;
  watch_.emplace(io, plan_.log_folder, plan_.workers);
  watch_->begin(command());
}

std::vector<supervise::WorkerState> Agent::workers() const {
  return watch_ ? watch_->states() : std::vector<supervise::WorkerState>{};
}

supervise::WorkerRecord Agent::record() const {
  supervise::WorkerRecord record = Program::record();
  record.never_met = never_met_;
  if (!watch_) return record;
  record.ends = watch_->ends();
  record.seen = watch_->seen();
  record.numbers = watch_->numbers();
  record.first_at = watch_->first_seen();
  record.error_folder = watch_->attempt_folder();
  record.attempts = watch_->attempts();
  return record;
}

bool Agent::has_work() const { return find_worker(command(), environment()) != Presence::none; }

bool Agent::is_for_workers(int signal) const { return (plan_.worker_signals & supervise::bit(signal)) != 0; }

std::vector<supervise::Process> Agent::receivers(int signal) const {
  std::vector<supervise::Process> workers =
      workers_of(command(), environment()).value_or(std::vector<supervise::Process>{});
  const bool ready =
      std::ranges::all_of(workers, [signal](const auto& worker) { return can_take(worker, signal); });
  if (!ready) workers.clear();
  return workers;
}

void Agent::reaped(pid_t process, int status) {
  if (watch_) watch_->on_reaped(process, status);
}

void Agent::stop_came() {
  Program::stop_came();
  meeting_.reset();
}

/// The time that it gives its workers after a stop (torch/distributed/launcher/api.py, whole seconds).
milliseconds Agent::time_of_workers() const {
  constexpr std::string_view mark = "TORCH_ELASTIC_SHUTDOWN_TIMEOUT=";
  unsigned whole = 30;
  for (const std::string& entry : environment()) {
    if (!entry.starts_with(mark)) continue;
    std::string_view value = std::string_view(entry).substr(mark.size());
    whole = take_number<unsigned>(value).value_or(whole);
  }
  return std::chrono::seconds(whole);
}

/// An agent that never had a worker has nothing to lose and may ignore the signal. One whose workers have all
/// ended is about to end itself.
void Agent::stop_passed_on(int signal, std::optional<milliseconds> grace) {
  stop_signal_ = signal;
  const Clock::time_point now = Clock::now();
  if (find_worker(command(), environment()) == Presence::some) {
    const milliseconds patience = time_of_workers();
    if (had_workers() && (!grace || patience < *grace))
      hangs_due_ = now + patience - supervise::time_for_stacks(patience);
  } else if (!had_workers()) {
    late_due_ = now + patience_without_workers;
  } else if (!grace) {
    late_due_ = now + time_of_workers();
  }
}

void Agent::command_ended() {
  if (watch_) watch_->agent_ended();
}

void Agent::finish() {
  if (watch_) watch_->finish();
}

std::optional<supervise::Launcher::Clock::time_point> Agent::due() const {
  std::optional<Clock::time_point> next = Program::due();
  const auto meeting = waits_for_nodes() ? std::optional(meeting_->due()) : std::nullopt;
  for (const std::optional<Clock::time_point>& due : {late_due_, meeting, hangs_due_}) {
    if (due && (!next || *due < *next)) next = due;
  }
  return next;
}

Request Agent::look() {
  const Clock::time_point now = Clock::now();
  if (late_due_ && *late_due_ <= now) return on_late();
  if (waits_for_nodes() && meeting_->due() <= now) return look_at_meeting();
  if (hangs_due_ && *hangs_due_ <= now) {
    hangs_due_.reset();
    if (watch_->some_run())
      return {.kind = Request::Kind::name_hanging,
              .text = "; the launcher kills the processes that have not stopped"};
    return {};
  }
  return Program::look();
}

Request Agent::look_at_meeting() {
  if (!watch_ && find_worker(command(), environment()) == Presence::some) {
    meeting_.reset();
    return {};
  }
  if (!meeting_->is_over(Clock::now())) return {};
  never_met_ = true;
  return {.kind = Request::Kind::kill,
          .text = fmt::format("the other nodes did not join within {}", seconds(*plan_.meeting->limit))};
}

Request Agent::on_late() {
  late_due_.reset();
  const Presence worker = find_worker(command(), environment());
  if (worker == Presence::perhaps) late_due_ = Clock::now() + time_of_execve;
  if (worker != Presence::none) return {};
  const std::string stop = supervise::signal_name(stop_signal_);
  return {.kind = Request::Kind::kill,
          .text = had_workers()
                      ? fmt::format("the launcher, whose workers have all ended, did not follow {} within {}",
                                    stop, seconds(time_of_workers()))
                      : fmt::format("the launcher has no worker yet and did not follow {} within {}", stop,
                                    seconds(patience_without_workers))};
}

}  // namespace rankshim::torchrun
