#include "launchers/torchrun/agent.h"

#include <unistd.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "base/duration.h"
#include "base/log.h"
#include "base/text.h"
#include "outcome/wording.h"
#include "supervise/kernel.h"
#include "supervise/tree.h"

namespace rankshim::launchers {

using node::Process;
using std::chrono::milliseconds;
using supervise::Order;

namespace {

constexpr milliseconds patience_without_workers{1000};  // then it is killed
constexpr milliseconds patience_in_barrier{2000};       // the same, if the workers had ended before the stop
constexpr milliseconds patience_after_workers{5000};    // the same, if the workers have stopped since
constexpr milliseconds patience_after_kill{5000};       // for a worker that the agent has killed
constexpr milliseconds between_looks{1000};             // at most, while it may still import
constexpr milliseconds time_of_execve{5};               // if a process is in the middle of execve(2)

}  // namespace

void Agent::prepare(boost::asio::io_context& io) {
  Program::prepare(io);
  if (plan_.log_folder.empty()) return;
  watch_.emplace(
      io, plan_.log_folder, plan_.workers, record_,
      [this](const supervise::WorkerEnd* ended) { on_worker_change(ended); }, [this] { tell_seen(); });
}

void Agent::started(const std::vector<pid_t>& processes, Clock::time_point when,
                    const std::vector<std::string>& environment) {
  Program::started(processes, when, environment);
  next_log_ = when + plan_.log_interval;
  if (plan_.meets_at) plan(Task::meet, when + between_looks, [this] { look_at_meeting(); });
  if (!supervise::signal_masks(getpid()))
    log::info(
        "this kernel does not show what processes do with signals, nor how they ended (gVisor): a stop goes "
        "to torchrun, USR1 "
        "and USR2 reach workers only when these are a minute old, and torchrun tells how a worker ended");
  if (watch_) watch_->follow(command());
}

/// All workers of a set, if the set is complete and each of them runs and would survive the signal.
std::vector<Process> Agent::receivers_of_stop(int signal) {
  if (!watch_) return {};
  watch_->look();
  // Use their pids, because the environment of one that is stuck in the kernel could not be read.
  std::vector<Process> workers = record_.running();
  const bool handle = std::ranges::all_of(workers, [signal](const Process& worker) {
    const auto masks = supervise::signal_masks(worker.pid);
    return masks && masks->take(signal);
  });
  if (workers.size() != plan_.workers || record_.states.size() != plan_.workers || !handle) return {};
  stops_alone_ = true;
  stop_signal_ = signal;
  return workers;
}

/// A worker that has failed makes the agent end or restart the others. When all have exited 0, the agent of a
/// lone node exits by itself. One of several agents waits up to five minutes for the other nodes, and is deaf
/// meanwhile; so it gets the stop before it notices that its workers have ended, which it checks every 0.1 s.
void Agent::on_worker_change(const supervise::WorkerEnd* ended) {
  constexpr milliseconds to_see_it_itself{2000};
  if (ended != nullptr) tell_end(*ended);
  const bool restarted = ended == nullptr;
  const bool failed = !restarted && ended->status_known && ended->status != 0;
  if (failed) expect_kill_to_help();
  if (restarted) drop(Task::outlive);
  if (!stops_alone_) return;
  if (restarted || failed) return stop_agent();
  if (some_run()) return;
  if (plan_.meets_at) return stop_agent();
  plan(Task::stop_agent, Clock::now() + to_see_it_itself, [this] { stop_agent(); });
}

/// Sends the stop to the agent. The command's pid is valid until command_ended() is called.
void Agent::stop_agent() {
  if (!std::exchange(stops_alone_, false)) return;
  drop(Task::stop_agent);
  log::debug("{} is passed on to torchrun itself", signal_name(stop_signal_));
  supervise::kernel::send(find_agent(command()).pid, stop_signal_);
  if (some_run()) return expect_end();
  expect_end_within(patience_after_workers);
}

/// The time that the agent gives its workers after a stop (torch/distributed/launcher/api.py, whole seconds).
milliseconds Agent::time_of_workers() const {
  const node::Environment known(environment());
  const std::string_view set = known.get("TORCH_ELASTIC_SHUTDOWN_TIMEOUT").value_or("");
  return std::chrono::seconds(first_number<unsigned>(set).value_or(30));
}

/// Starts watching the agent while it stops its workers: when their time is over, it kills those that are
/// left.
void Agent::expect_kill_to_help() {
  seen_dying_ = false;
  plan(Task::outlive, Clock::now() + time_of_workers() + patience_after_kill, [this] { look_at_killed(); });
}

/// Looks whether the agent's workers are dying. Its limit may differ from what is known here
/// (--shutdown-timeout), so what counts is that they got a KILL, or a TERM that ends them. There are two
/// looks, because at the first one they may just be exiting.
void Agent::look_at_killed() {
  const std::vector<Process> running = record_.running();
  if (running.empty()) return;
  const std::vector<pid_t> going_on = node::running_processes();
  if (std::ranges::any_of(running, [&](const Process& worker) { return contains(going_on, worker.pid); }))
    return expect_kill_to_help();
  if (!std::exchange(seen_dying_, true))
    return plan(Task::outlive, Clock::now() + patience_after_kill, [this] { look_at_killed(); });
  give({.kind = Order::Kind::kill,
        .why = fmt::format("not even SIGKILL has ended {}, for which torchrun waits without a limit",
                           in_words(supervise::find_hanging(running, record_.states)))});
}

void Agent::stop_passed_on(const outcome::StopRequest& stop, std::optional<milliseconds> grace) {
  drop(Task::meet);
  Program::stop_passed_on(stop, grace);
  stop_signal_ = stop.signal;
  grace_ = grace;
  if (!stops_alone_) return expect_end();
  const milliseconds patience = std::min(time_of_workers(), grace.value_or(milliseconds::max()));
  plan(Task::stop_agent, Clock::now() + patience - supervise::time_for_stacks(patience),
       [this] { stop_agent(); });
}

/// Sees to it that the agent ends soon if it never had a worker or has none left, and so nothing to lose. It
/// may ignore the signal: in its exit barrier, where it waits up to five minutes for the other nodes, it does
/// not even see it.
void Agent::expect_end() {
  if (find_worker(command(), environment()) == Presence::some) {
    expect_kill_to_help();
    const milliseconds patience = time_of_workers();
    if (!had_workers() || (grace_ && patience >= *grace_)) return;
    plan(Task::name_hanging, Clock::now() + patience - supervise::time_for_stacks(patience), [this] {
      if (some_run())
        give({.kind = Order::Kind::name_hanging,
              .why = "; the launcher kills the processes that have not stopped"});
    });
  } else if (!had_workers()) {
    expect_end_within(patience_without_workers);
  } else {
    expect_end_within(patience_in_barrier);
  }
}

void Agent::command_ended(const supervise::ExitRecord& record) {
  Program::command_ended(record);
  stops_alone_ = false;
  if (watch_) watch_->agent_ended();
}

/// Whether torch is loaded and the agent's memory map has not changed since the last look, because an import
/// maps more all the time. If the agent is still not connected to the store then, it cannot reach it.
bool Agent::has_imported() {
  const std::string maps = node::read_proc(find_agent(command()).pid, "maps").value_or("");
  const std::size_t before = std::exchange(memory_, std::hash<std::string>{}(maps));
  return memory_ == before && maps.find("/libtorch_python") != std::string::npos;
}

/// Logs what the agent is waiting for, which torch does not. The agent cannot be asked: all that can be seen
/// is that it runs and has no worker. Its time is never up before it has imported torch, which takes minutes
/// on a cold image. For each log line, and once the time is up, there are two looks a moment apart.
void Agent::look_at_meeting() {
  if (had_workers() || find_worker(command(), environment()) == Presence::some) return;
  const auto& limit = plan_.limit;
  const Clock::time_point now = Clock::now();
  const bool meets = is_in_rendezvous(command(), plan_.meets_at->port);
  const bool is_ready = has_imported() || meets;
  const std::string master = plan_.meets_at->text();
  if (is_ready && limit && now >= started_at() + *limit) {
    record_.never_met = true;
    std::string why = fmt::format("the other nodes did not join within {}", seconds(*limit));
    if (!meets) why = in_words(record_.unreached.emplace(outcome::Unreached{master, *limit}));
    return give({.kind = Order::Kind::kill, .why = std::move(why)});
  }
  if (now >= next_log_) {
    std::string phase = "torchrun is still importing";
    if (meets)
      phase = "waiting for the other nodes: torchrun has no worker yet";
    else if (is_ready)
      phase = "torchrun cannot reach " + master;
    log::info("{}, {} after its start{}", phase,
              seconds(std::chrono::duration_cast<milliseconds>(next_log_ - started_at())),
              is_ready && limit ? "; at most " + seconds(*limit) : "");
    next_log_ += plan_.log_interval;
  }
  const milliseconds pause = std::min(between_looks, plan_.log_interval / 2);
  Clock::time_point next = next_log_;
  if (limit) next = std::min(next, started_at() + *limit);
  plan(Task::meet, std::max(next - pause, now + pause), [this] { look_at_meeting(); });
}

/// Kills the agent if it has not obeyed the stop by then.
void Agent::expect_end_at(Clock::time_point when, milliseconds patience) {
  plan(Task::end_late, when, [this, patience] {
    const Presence worker = find_worker(command(), environment());
    if (worker == Presence::perhaps) expect_end_at(Clock::now() + time_of_execve, patience);
    if (worker != Presence::none) return;
    give({.kind = Order::Kind::kill,
          .why = fmt::format("the launcher{} did not follow {} within {}",
                             had_workers() ? ", whose workers have all ended," : " has no worker yet and",
                             signal_name(stop_signal_), seconds(patience))});
  });
}

}  // namespace rankshim::launchers
