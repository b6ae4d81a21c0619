#include "launchers/program.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/log.h"
#include "base/text.h"
#include "look/progress.h"
#include "outcome/wording.h"

namespace rankshim::launchers {

using node::Process;
using supervise::Order;

namespace {

using std::chrono::milliseconds;

// Most launchers have workers by the first look, and slow ones (which import from a network file system) by
// the last.
constexpr std::array<milliseconds, 3> look_times = {milliseconds(5'000), milliseconds(20'000),
                                                    milliseconds(60'000)};

/// Whether a rendezvous endpoint of this name would be somewhere else than the master.
bool meets_elsewhere(const topology::Topology& topology, const std::string& own_name) {
  const auto* elastic = topology.as<topology::ElasticNode>();
  const bool by_etcd = elastic != nullptr && elastic->backend.starts_with("etcd");
  const topology::Master* master = topology.master();
  return !topology.hosts_master().value_or(true) && !by_etcd &&
         !topology::same_host(master != nullptr ? master->host : "", own_name);
}

/// The process at the end of a chain of wrappers (sh, timeout, conda run).
pid_t innermost(pid_t command) {
  const std::vector<Process> below = node::descendants(command).value_or(std::vector<Process>{});
  while (true) {
    const auto is_child = [command](const Process& process) {
      return process.parent == command && process.alive();
    };
    if (std::ranges::count_if(below, is_child) != 1) return command;
    command = std::ranges::find_if(below, is_child)->pid;
  }
}

}  // namespace

JobSize size_of(const topology::Topology& topology, const node::Host& host) {
  if (!topology.has_other_nodes()) return {};
  const auto* elastic = topology.as<topology::ElasticNode>();
  const topology::Master* master = topology.master();
  return {.nodes = elastic != nullptr ? elastic->least : topology.nodes().value_or(0),
          .workers = topology.workers(),
          .on_loopback = master != nullptr && topology::is_loopback(master->host),
          .own_name = meets_elsewhere(topology, host.host_name()) ? host.host_name() : std::string()};
}

void Program::started(const std::vector<pid_t>& processes, Clock::time_point when,
                      const std::vector<std::string>& environment) {
  command_ = processes.front();
  started_ = when;
  environment_ = &environment;
  if (job_.nodes > 1) plan(Task::look, started_ + look_times.front(), [this] { look(1); });
}

void Program::command_ended(const supervise::ExitRecord& /*record*/) {
  io_ = nullptr;
  timers_.clear();
}

std::vector<supervise::WorkerState> Program::running_workers() const {
  if (record_.followed || environment_ == nullptr) return supervise::Workers::running_workers();
  std::vector<supervise::WorkerState> workers;
  for (const Process& process : workers_of(command_, *environment_)) {
    const Candidate candidate = look_at(process);
    const auto local_rank = static_cast<unsigned>(workers.size());
    workers.push_back({.pid = process.pid,
                       .local_rank = candidate.local_rank().value_or(local_rank),
                       .rank = candidate.rank()});
  }
  had_workers_ = had_workers_ || !workers.empty();
  if (had_workers_) return workers;
  const std::vector<pid_t> ever = answers_.empty() ? std::vector<pid_t>{} : look::find_answering(answers_);
  if (ever.size() > 1) return answering(ever);
  workers = answering(ever);
  if (ever.empty()) workers.push_back({.pid = innermost(command_)});
  for (supervise::WorkerState& worker : workers) worker.rank = look_at({.pid = worker.pid}).rank();
  return workers;
}

/// Those of `ever`, all that ever had a process group, that still run. A local rank is the position in
/// `ever`, so it stays when others end, and those that the command starts next count from 0 again. RANK is
/// left out: all of them have the command's.
std::vector<supervise::WorkerState> Program::answering(const std::vector<pid_t>& ever) const {
  std::vector<Process> running = node::descendants(command_).value_or(std::vector<Process>{});
  running.push_back({.pid = command_});
  std::erase_if(running,
                [&](const Process& process) { return !process.alive() || !contains(ever, process.pid); });
  std::vector<supervise::WorkerState> workers;
  for (const Process& process : running) {
    // What a worker has started is not another one.
    if (std::ranges::find(running, process.parent, &Process::pid) != running.end()) continue;
    const auto number = static_cast<unsigned>(std::ranges::find(ever, process.pid) - ever.begin());
    workers.push_back({.pid = process.pid, .local_rank = job_.workers > 0 ? number % job_.workers : number});
  }
  return workers;
}

void Program::plan(Task task, Clock::time_point when, std::function<void()> act) {
  if (io_ == nullptr) return;
  loop::Timer& timer = timers_.try_emplace(task, io_->get_executor()).first->second;
  timer.expires_at(when);
  timer.async_wait([this, task, act = std::move(act)](const boost::system::error_code& error) {
    if (!error && timers_.contains(task)) act();
  });
}

void Program::look(std::size_t number) {
  record_.lone_training = lone_training(see_processes(command_, *environment_, job_), job_);
  if (record_.lone_training) {
    log::warn("{}", in_words(*record_.lone_training));
    record_.stopped_for_it = strict_;
    if (strict_) give({.kind = Order::Kind::stop});
  } else if (number < look_times.size()) {
    plan(Task::look, started_ + look_times.at(number), [this, number] { look(number + 1); });
  }
}

}  // namespace rankshim::launchers
