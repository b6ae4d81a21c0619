#include "launchers/native/workers.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/log.h"
#include "supervise/ending.h"

namespace rankshim::native {

using supervise::Command;
using supervise::Process;
using supervise::WorkerState;

std::string Workers::attempt_folder() const {
  return folder_.empty() ? std::string() : folder_ + "/attempt_" + std::to_string(attempt_);
}

std::vector<Command> Workers::workers_to_start(const Command& command) {
  workers_.clear();
  ends_.clear();
  output_ = std::make_unique<Output>(output_plan_);
  const std::string folder = attempt_folder();
  bool made = !folder.empty() && mkdir(folder.c_str(), 0700) == 0;
  std::vector<Command> commands;
  std::string bound;
  log::Level level = log::Level::info;
  for (unsigned local_rank = 0; local_rank < job_.workers; ++local_rank) {
    Worker worker{.local_rank = local_rank, .attempt = attempt_, .error_file = {}};
    const std::string own = worker_folder(folder_, attempt_, local_rank);
    made = made && mkdir(own.c_str(), 0700) == 0;
    if (made) worker.error_file = error_file(own);
    Environment environment(command.environment);
    environment.set("MASTER_PORT", std::to_string(job_.master_port));
    for (const auto& [name, value] : worker_variables(job_, worker)) environment.set(name, value);
    NearAccelerator near;
    if (job_.binds) {
      near = near_accelerator(node_, environment, local_rank);
      if (!near.affinity) level = log::Level::warn;
      bound += fmt::format("{} {}: {}", bound.empty() ? ':' : ';', local_rank, near.text);
    }
    commands.push_back({.argv = filled_in(command.argv, placeholders_of(job_, worker)),
                        .environment = std::move(environment).entries(),
                        .affinity = near.affinity});
    commands.back().output = output_->open(made ? own : std::string(), rank_of(job_, worker));
  }
  if (!made && !folder.empty())
    log::warn("cannot make a folder in {} ({}): the workers' exceptions will not be known", folder_,
              std::strerror(errno));
  if (!bound.empty()) log::logger().log(level, "bound, by local rank{}", bound);
  return commands;
}

void Workers::started(boost::asio::io_context& io, const std::vector<pid_t>& processes,
                      Clock::time_point when, const std::vector<std::string>& /*environment*/) {
  output_->started(io);
  if (!first_at_) first_at_ = when;
  for (const pid_t process : processes) {
    const auto local_rank = static_cast<unsigned>(workers_.size());
    workers_.push_back({process, local_rank, rank_of(job_, {.local_rank = local_rank}), false});
  }
}

void Workers::reaped(pid_t process, int status) {
  const auto found = std::ranges::find_if(
      workers_, [process](const WorkerState& worker) { return worker.pid == process && !worker.ended; });
  if (found == workers_.end()) return;
  found->ended = true;
  ends_.push_back({process, found->local_rank, found->rank, status, true, Clock::now()});
  tell_end(ends_.back());
}

std::vector<WorkerState> Workers::workers() const { return workers_; }

supervise::WorkerRecord Workers::record() const {
  supervise::WorkerRecord record;
  record.ends = ends_;
  record.seen = static_cast<unsigned>(workers_.size());
  record.first_at = first_at_;
  record.error_folder = attempt_folder();
  record.attempts = attempt_ + 1;
  return record;
}

bool Workers::is_for_workers(int signal) const { return (worker_signals_ & supervise::bit(signal)) != 0; }

std::vector<Process> Workers::receivers(int signal) const {
  std::vector<Process> receivers = supervise::descendants(getpid()).value_or(std::vector<Process>{});
  std::erase_if(receivers, [this](const Process& process) {
    return !process.alive() || std::ranges::none_of(workers_, [&](const WorkerState& worker) {
      return worker.pid == process.pid && !worker.ended;
    });
  });
  const bool ready = std::ranges::all_of(
      receivers, [signal](const Process& worker) { return supervise::can_take(worker, signal); });
  if (!ready) receivers.clear();
  return receivers;
}

bool Workers::starts_again(const supervise::Ending& ending) {
  using Kind = supervise::Ending::Kind;
  const bool failed = ending.kind == Kind::signalled || (ending.kind == Kind::exited && ending.number != 0);
  if (!failed || ending.stop_signal || ending.late_signal || !ending.left_behind.empty()) return false;
  if (attempt_ == job_.max_restarts) return false;
  ++attempt_;
  take_new_port();
  log::warn("a worker has failed; all are started again, restart {} of {}", attempt_, job_.max_restarts);
  return true;
}

/// Takes another port, so that no worker meets the store of the attempt before. If the master is not on
/// loopback, the port stays: other nodes may have opened only this one (a Service), and the store that used
/// it is gone with its worker.
void Workers::take_new_port() {
  if (!is_loopback(job_.master_addr)) return;
  constexpr unsigned tries = 100;
  for (unsigned port = job_.master_port + 1; port <= job_.master_port + tries && port <= UINT16_MAX; ++port) {
    if (!node_.take_port(static_cast<std::uint16_t>(port))) continue;
    job_.master_port = port;
    return;
  }
}

}  // namespace rankshim::native
